//! The way to the thread that looks after pools, from any other thread.

use super::child::ChildId;
use super::state::Dismissed;
use super::{Event, Pool};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// What the keeper is told.
#[derive(Debug)]
pub enum Message {
    /// A pool that is new here, or has other settings or a successor of its children to start.
    Begin(Arc<Pool>),
    /// A request waits.
    Waits(Arc<Pool>),
    /// A request was given up.
    Abandoned {
        pool: Arc<Pool>,
        child: ChildId,
    },
    Dismissed(Box<Dismissed>),
    Event(Event),
    Stop,
}

/// The way to the keeper, from any thread.
#[derive(Debug)]
pub struct Way {
    messages: Mutex<Sender<Message>>,
    wake: UnixStream,
    /// A wake-up is under way already.
    woken: Arc<AtomicBool>,
}

impl Way {
    pub fn new(messages: Sender<Message>, wake: UnixStream, woken: Arc<AtomicBool>) -> Way {
        Way {
            messages: Mutex::new(messages),
            wake,
            woken,
        }
    }

    pub fn tell(&self, message: Message) {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        // Either fails only when the keeper has ended, and the process with it.
        let _ended = messages.send(message);
        drop(messages);
        if !self.woken.swap(true, Ordering::AcqRel) {
            let _full = (&self.wake).write(&[0]);
        }
    }
}
