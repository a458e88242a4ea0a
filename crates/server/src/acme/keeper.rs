//! The thread that orders certificates and renews them, one at a time. It outlives reloads; what failed is tried again
//! after a pause that grows.

use super::certificates::{self, Slot};
use super::challenges::Board;
use super::directive::Place;
use crate::log::error::{self, Level};
use acme::{Error, renewal};
use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::Instant;

type Slots = Vec<Arc<Slot>>;

/// Tells the thread what is wanted.
static KEEPER: Mutex<Option<watch::Sender<Slots>>> = Mutex::new(None);
/// Without certificates to look after.
const IDLE: Duration = Duration::from_secs(24 * 3600);
const ACCOUNT: &str = "account.json";

/// What a configuration wants comes into force.
pub fn begin(slots: &[Arc<Slot>]) {
    for slot in slots {
        slot.begin();
    }
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    match &*keeper {
        Some(sender) => {
            sender.send_replace(slots.to_vec());
        }
        None if slots.is_empty() => {}
        None => {
            let (sender, receiver) = watch::channel(slots.to_vec());
            let thread = std::thread::Builder::new().name("acme".to_owned());
            match thread.spawn(move || run(receiver)) {
                Ok(_) => *keeper = Some(sender),
                Err(failed) => error::write(
                    Level::Alert,
                    format_args!(
                        "the thread for certificates failed to start ({})",
                        sys::errno::Errno(&failed)
                    ),
                ),
            }
        }
    }
}

fn run(receiver: watch::Receiver<Slots>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(keep(receiver)),
        Err(failed) => error::write(
            Level::Alert,
            format_args!(
                "the thread for certificates failed to start ({})",
                sys::errno::Errno(&failed)
            ),
        ),
    }
}

/// Failures in a row, and when it is tried again.
struct Trouble {
    failures: u32,
    again: Instant,
}

type Troubles = HashMap<(String, acme::Wanted), Trouble>;

async fn keep(mut receiver: watch::Receiver<Slots>) {
    let mut troubles = Troubles::new();
    loop {
        let slots = receiver.borrow_and_update().clone();
        let wait = |slot: &Arc<Slot>| wait(slot, &troubles);
        let Some(first) = slots.iter().min_by_key(|slot| wait(slot)) else {
            if receiver.changed().await.is_err() {
                return;
            }
            continue;
        };
        let pause = wait(first).min(IDLE);
        if !pause.is_zero() {
            tokio::select! {
                changed = receiver.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(pause) => {}
            }
            continue;
        }
        let id = (first.place.name.clone(), first.wanted.clone());
        let names = first.wanted.names.join(", ");
        match order(first).await {
            Ok(()) => {
                error::write(
                    Level::Notice,
                    format_args!(
                        "a certificate for {names} was issued, acme_issuer \"{}\"",
                        first.place.name
                    ),
                );
                troubles.remove(&id);
            }
            Err(reason) => {
                let trouble = troubles.entry(id).or_insert(Trouble {
                    failures: 0,
                    again: Instant::now(),
                });
                trouble.failures += 1;
                let pause = renewal::pause(trouble.failures);
                trouble.again = Instant::now() + Duration::from_secs(pause);
                error::write(
                    Level::Error,
                    format_args!(
                        "no certificate for {names} from acme_issuer \"{}\": {reason}; it is asked again in {pause} s",
                        first.place.name
                    ),
                );
            }
        }
    }
}

/// How long until a certificate is to be ordered.
fn wait(slot: &Slot, troubles: &Troubles) -> Duration {
    let due = match slot.pair() {
        None => Duration::ZERO,
        Some(pair) => Duration::from_secs(renewal::wait(pair.validity, now())),
    };
    let id = (slot.place.name.clone(), slot.wanted.clone());
    let held = troubles.get(&id).map_or(Duration::ZERO, |trouble| {
        trouble.again.saturating_duration_since(Instant::now())
    });
    due.max(held)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

async fn order(slot: &Slot) -> Result<(), Error> {
    let place = &slot.place;
    let saved = place
        .state
        .as_ref()
        .and_then(|state| fs::read(state.join(ACCOUNT)).ok());
    let (account, fresh) = place.issuer.account(saved.as_deref()).await?;
    if let Some(fresh) = fresh {
        save_account(place, &fresh);
    }
    let issued = acme::order::obtain(&account, &place.issuer, &slot.wanted, &Board).await?;
    slot.take(&issued)
}

/// An account that cannot be kept is made anew next time; the certificate need not wait for that.
fn save_account(place: &Place, fresh: &[u8]) {
    let Some(state) = &place.state else { return };
    if let Err(failed) = certificates::write(&state.join(ACCOUNT), fresh) {
        error::write(
            Level::Error,
            format_args!(
                "the account of acme_issuer \"{}\" cannot be kept in \"{}\" ({}): check that the worker's user may write there",
                place.name,
                state.display(),
                sys::errno::Errno(&failed)
            ),
        );
    }
}
