//! What master and worker say to each other, as bytes and descriptors. Both ends are the same binary, the same fork even,
//! so the form needs no version.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::children::{ChildEvent, ChildRequest, Started};
use sys::process::{End, Pid};
use sys::signal::Signal;

/// Master to worker.
#[derive(Debug)]
pub enum Order {
    /// End gracefully.
    Quit,
    /// End now.
    Terminate,
    /// Write to these logs from now on.
    Reopen(Vec<(PathBuf, OwnedFd)>),
    Reload(Reload),
    /// About a program that the worker asked for.
    Child(ChildEvent),
}

/// A new configuration: its texts, all its logs, and for each of its addresses, in order, the sockets, unless the worker
/// has them.
#[derive(Debug)]
pub struct Reload {
    pub bundle: Vec<u8>,
    pub logs: Vec<(PathBuf, OwnedFd)>,
    pub listeners: Vec<Option<Vec<OwnedFd>>>,
}

/// Worker to master.
#[derive(Debug, PartialEq, Eq)]
pub enum Report {
    /// The worker serves.
    Ready,
    /// The new configuration is in force.
    Reloaded,
    /// It is not, and nothing has changed.
    Refused(String),
    /// The last request of the former configuration has ended.
    Drained,
    /// Something to be done about a program.
    Child(ChildRequest),
}

/// A message in its bytes, with the descriptors that go along.
#[derive(Debug)]
pub struct Parcel<D> {
    pub bytes: Vec<u8>,
    pub descriptors: Vec<D>,
}

impl<D> Default for Parcel<D> {
    fn default() -> Self {
        Parcel {
            bytes: Vec::new(),
            descriptors: Vec::new(),
        }
    }
}

/// Bytes that are no message: the other end is broken.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

const QUIT: u8 = 1;
const TERMINATE: u8 = 2;
const REOPEN: u8 = 3;
const RELOAD: u8 = 4;
const READY: u8 = 5;
const RELOADED: u8 = 6;
const REFUSED: u8 = 7;
const DRAINED: u8 = 8;
const START_CHILD: u8 = 9;
const SIGNAL_CHILD: u8 = 10;
const CHILD_STARTED: u8 = 11;
const CHILD_FAILED: u8 = 12;
const CHILD_ENDED: u8 = 13;
const TRACE_CHILD: u8 = 14;
const CHILD_TRACED: u8 = 15;

/// How a program ended.
const EXITED: u8 = 0;
const SIGNALLED: u8 = 1;
const CORE_DUMPED: u8 = 2;

/// In the place of a number of sockets: the worker has them.
const KEPT: u32 = u32::MAX;

/// Writes messages without taking the descriptors.
impl<'a> Parcel<BorrowedFd<'a>> {
    pub fn quit() -> Self {
        Parcel {
            bytes: vec![QUIT],
            descriptors: Vec::new(),
        }
    }

    pub fn terminate() -> Self {
        Parcel {
            bytes: vec![TERMINATE],
            descriptors: Vec::new(),
        }
    }

    pub fn reopen(logs: &[(&Path, BorrowedFd<'a>)]) -> Self {
        let mut parcel = Parcel {
            bytes: vec![REOPEN],
            descriptors: Vec::new(),
        };
        parcel.put_logs(logs);
        parcel
    }

    /// `listeners`: `None` for an address whose sockets the worker has.
    pub fn reload(
        bundle: &[u8],
        logs: &[(&Path, BorrowedFd<'a>)],
        listeners: &[Option<Vec<BorrowedFd<'a>>>],
    ) -> Self {
        let mut parcel = Parcel {
            bytes: vec![RELOAD],
            descriptors: Vec::new(),
        };
        parcel.put_bytes(bundle);
        parcel.put_logs(logs);
        parcel.put_count(listeners.len());
        for sockets in listeners {
            match sockets {
                None => parcel.bytes.extend(KEPT.to_le_bytes()),
                Some(sockets) => {
                    parcel.put_count(sockets.len());
                    parcel.descriptors.extend(sockets);
                }
            }
        }
        parcel
    }

    pub fn report(report: &Report) -> Self {
        let mut parcel = Parcel::default();
        match report {
            Report::Ready => parcel.bytes.push(READY),
            Report::Reloaded => parcel.bytes.push(RELOADED),
            Report::Drained => parcel.bytes.push(DRAINED),
            Report::Refused(reason) => {
                parcel.bytes.push(REFUSED);
                parcel.put_bytes(reason.as_bytes());
            }
            Report::Child(ChildRequest::Start {
                ticket,
                name,
                print,
            }) => {
                parcel.bytes.push(START_CHILD);
                parcel.put_long(*ticket);
                parcel.put_long(*print);
                parcel.put_bytes(name.as_bytes());
            }
            Report::Child(ChildRequest::Signal { child, signal }) => {
                parcel.bytes.push(SIGNAL_CHILD);
                parcel.put_number(child.0);
                parcel.put_number(signal.number());
            }
            Report::Child(ChildRequest::Trace { child, depth }) => {
                parcel.bytes.push(TRACE_CHILD);
                parcel.put_number(child.0);
                parcel.bytes.extend(depth.to_le_bytes());
            }
        }
        parcel
    }

    pub fn child_started(ticket: u64, child: &'a Started) -> Self {
        let mut parcel = Parcel {
            bytes: vec![CHILD_STARTED, u8::from(child.output.is_some())],
            descriptors: Vec::new(),
        };
        parcel.put_long(ticket);
        parcel.put_number(child.pid.0);
        let descriptors = child.connections.iter().chain(&child.output);
        parcel.descriptors.extend(descriptors.map(AsFd::as_fd));
        parcel
    }

    pub fn child_failed(ticket: u64, reason: &str) -> Self {
        let mut parcel = Parcel {
            bytes: vec![CHILD_FAILED],
            descriptors: Vec::new(),
        };
        parcel.put_long(ticket);
        parcel.put_bytes(reason.as_bytes());
        parcel
    }

    pub fn child_ended(child: Pid, end: End) -> Self {
        let (kind, number) = match end {
            End::Exited { code } => (EXITED, code),
            End::Signalled {
                number,
                core_dumped: false,
            } => (SIGNALLED, number),
            End::Signalled {
                number,
                core_dumped: true,
            } => (CORE_DUMPED, number),
        };
        let mut parcel = Parcel {
            bytes: vec![CHILD_ENDED, kind],
            descriptors: Vec::new(),
        };
        parcel.put_number(child.0);
        parcel.put_number(number);
        parcel
    }

    pub fn child_traced(child: Pid, calls: &Result<String, String>) -> Self {
        let mut parcel = Parcel {
            bytes: vec![CHILD_TRACED, u8::from(calls.is_ok())],
            descriptors: Vec::new(),
        };
        parcel.put_number(child.0);
        let (Ok(text) | Err(text)) = calls;
        parcel.put_bytes(text.as_bytes());
        parcel
    }

    fn put_long(&mut self, number: u64) {
        self.bytes.extend(number.to_le_bytes());
    }

    fn put_number(&mut self, number: i32) {
        self.bytes.extend(number.to_le_bytes());
    }

    fn put_logs(&mut self, logs: &[(&Path, BorrowedFd<'a>)]) {
        self.put_count(logs.len());
        for (path, file) in logs {
            self.put_bytes(path.as_os_str().as_bytes());
            self.descriptors.push(*file);
        }
    }

    fn put_count(&mut self, count: usize) {
        let count = u32::try_from(count).expect("no list of ours has four billion entries");
        self.bytes.extend(count.to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend((bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }
}

impl Parcel<OwnedFd> {
    pub fn into_order(self) -> Result<Order, Malformed> {
        let mut input = Input {
            rest: &self.bytes,
            descriptors: self.descriptors.into_iter(),
        };
        let order = match input.byte()? {
            QUIT => Order::Quit,
            TERMINATE => Order::Terminate,
            REOPEN => Order::Reopen(input.logs()?),
            RELOAD => {
                let bundle = input.bytes()?.to_vec();
                let logs = input.logs()?;
                let count = input.count()?;
                let listeners = (0..count)
                    .map(|_| input.sockets())
                    .collect::<Result<_, _>>()?;
                Order::Reload(Reload {
                    bundle,
                    logs,
                    listeners,
                })
            }
            CHILD_STARTED => {
                let captured = input.byte()? != 0;
                let ticket = input.long()?;
                let pid = Pid(input.number()?);
                let mut connections: Vec<OwnedFd> = input.descriptors.by_ref().collect();
                let output = if captured { connections.pop() } else { None };
                Order::Child(ChildEvent::Started {
                    ticket,
                    child: Started {
                        pid,
                        connections,
                        output,
                    },
                })
            }
            CHILD_FAILED => Order::Child(ChildEvent::Failed {
                ticket: input.long()?,
                reason: String::from_utf8_lossy(input.bytes()?).into_owned(),
            }),
            CHILD_ENDED => Order::Child(input.child_ended()?),
            CHILD_TRACED => {
                let whole = input.byte()? != 0;
                let child = Pid(input.number()?);
                let text = String::from_utf8_lossy(input.bytes()?).into_owned();
                let calls = if whole { Ok(text) } else { Err(text) };
                Order::Child(ChildEvent::Traced { child, calls })
            }
            _ => return Err(Malformed),
        };
        input.end().map(|()| order)
    }

    pub fn into_report(self) -> Result<Report, Malformed> {
        let mut input = Input {
            rest: &self.bytes,
            descriptors: self.descriptors.into_iter(),
        };
        let report = match input.byte()? {
            READY => Report::Ready,
            RELOADED => Report::Reloaded,
            DRAINED => Report::Drained,
            REFUSED => Report::Refused(String::from_utf8_lossy(input.bytes()?).into_owned()),
            START_CHILD => {
                let (ticket, print) = (input.long()?, input.long()?);
                let name = String::from_utf8_lossy(input.bytes()?).into_owned();
                Report::Child(ChildRequest::Start {
                    ticket,
                    name,
                    print,
                })
            }
            SIGNAL_CHILD => Report::Child(ChildRequest::Signal {
                child: Pid(input.number()?),
                signal: Signal::from_number(input.number()?).ok_or(Malformed)?,
            }),
            TRACE_CHILD => Report::Child(ChildRequest::Trace {
                child: Pid(input.number()?),
                depth: input.count()?,
            }),
            _ => return Err(Malformed),
        };
        input.end().map(|()| report)
    }
}

struct Input<'a> {
    rest: &'a [u8],
    descriptors: std::vec::IntoIter<OwnedFd>,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn count(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn long(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().map_err(|_| Malformed)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn number(&mut self) -> Result<i32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(i32::from_le_bytes(bytes))
    }

    fn child_ended(&mut self) -> Result<ChildEvent, Malformed> {
        let kind = self.byte()?;
        let child = Pid(self.number()?);
        let number = self.number()?;
        let end = match kind {
            EXITED => End::Exited { code: number },
            SIGNALLED | CORE_DUMPED => End::Signalled {
                number,
                core_dumped: kind == CORE_DUMPED,
            },
            _ => return Err(Malformed),
        };
        Ok(ChildEvent::Ended { child, end })
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.take(8)?.try_into().map_err(|_| Malformed)?;
        self.take(usize::try_from(u64::from_le_bytes(length)).map_err(|_| Malformed)?)
    }

    fn logs(&mut self) -> Result<Vec<(PathBuf, OwnedFd)>, Malformed> {
        let count = self.count()?;
        let log = |_| {
            let path = OsString::from_vec(self.bytes()?.to_vec());
            Ok((
                PathBuf::from(path),
                self.descriptors.next().ok_or(Malformed)?,
            ))
        };
        (0..count).map(log).collect()
    }

    fn sockets(&mut self) -> Result<Option<Vec<OwnedFd>>, Malformed> {
        match self.count()? {
            KEPT => Ok(None),
            count => (0..count)
                .map(|_| self.descriptors.next().ok_or(Malformed))
                .collect::<Result<_, _>>()
                .map(Some),
        }
    }

    /// Nothing may be left over.
    fn end(mut self) -> Result<(), Malformed> {
        let whole = self.rest.is_empty() && self.descriptors.next().is_none();
        if whole { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    fn received(parcel: &Parcel<BorrowedFd<'_>>) -> Parcel<OwnedFd> {
        let own = |descriptor: &BorrowedFd<'_>| descriptor.try_clone_to_owned().unwrap();
        Parcel {
            bytes: parcel.bytes.clone(),
            descriptors: parcel.descriptors.iter().map(own).collect(),
        }
    }

    #[test]
    fn a_reload_survives_the_way_and_a_cut_one_does_not() {
        let null = File::open("/dev/null").unwrap();
        let fd = null.as_fd();
        let logs = [(Path::new("/a"), fd), (Path::new("/b"), fd)];
        let parcel = Parcel::reload(
            b"texts",
            &logs,
            &[None, Some(vec![fd, fd, fd]), Some(vec![])],
        );
        let Ok(Order::Reload(reload)) = received(&parcel).into_order() else {
            panic!("not a reload");
        };
        assert_eq!(reload.bundle, b"texts");
        assert_eq!(reload.logs[1].0, Path::new("/b"));
        let counts: Vec<_> = reload
            .listeners
            .iter()
            .map(|one| one.as_ref().map(Vec::len))
            .collect();
        assert_eq!(counts, [None, Some(3), Some(0)]);
        for cut in 0..parcel.bytes.len() {
            let mut short = received(&parcel);
            short.bytes.truncate(cut);
            assert!(short.into_order().is_err(), "{cut}");
        }
        let mut fewer = received(&parcel);
        fewer.descriptors.pop();
        assert!(fewer.into_order().is_err());
        let mut longer = received(&parcel);
        longer.bytes.push(0);
        assert!(longer.into_order().is_err());
    }

    #[test]
    fn small_messages_survive_the_way() {
        assert!(matches!(
            received(&Parcel::quit()).into_order(),
            Ok(Order::Quit)
        ));
        assert!(matches!(
            received(&Parcel::terminate()).into_order(),
            Ok(Order::Terminate)
        ));
        assert!(matches!(
            received(&Parcel::reopen(&[])).into_order(),
            Ok(Order::Reopen(_))
        ));
        for report in [
            Report::Ready,
            Report::Reloaded,
            Report::Drained,
            Report::Refused("why".into()),
            Report::Child(ChildRequest::Start {
                ticket: 7,
                name: "www".into(),
                print: u64::MAX,
            }),
            Report::Child(ChildRequest::Signal {
                child: Pid(12),
                signal: Signal::Kill,
            }),
            Report::Child(ChildRequest::Trace {
                child: Pid(12),
                depth: 20,
            }),
        ] {
            assert_eq!(received(&Parcel::report(&report)).into_report(), Ok(report));
        }
        assert!(
            received(&Parcel::report(&Report::Ready))
                .into_order()
                .is_err()
        );
    }

    #[test]
    fn news_of_children_survive_the_way() {
        let null = || OwnedFd::from(File::open("/dev/null").unwrap());
        for output in [None, Some(null())] {
            let captured = output.is_some();
            let child = Started {
                pid: Pid(5),
                connections: vec![null(), null()],
                output,
            };
            let order = received(&Parcel::child_started(3, &child)).into_order();
            let Ok(Order::Child(ChildEvent::Started { ticket: 3, child })) = order else {
                panic!("not started");
            };
            assert_eq!((child.pid, child.connections.len()), (Pid(5), 2));
            assert_eq!(child.output.is_some(), captured);
        }
        let order = received(&Parcel::child_failed(9, "why")).into_order();
        assert!(
            matches!(order, Ok(Order::Child(ChildEvent::Failed { ticket: 9, reason })) if reason == "why")
        );
        for expected in [Ok("f() /a.php:1\n".to_owned()), Err("why".to_owned())] {
            let order = received(&Parcel::child_traced(Pid(4), &expected)).into_order();
            assert!(
                matches!(order, Ok(Order::Child(ChildEvent::Traced { child: Pid(4), calls })) if calls == expected)
            );
        }
        for expected in [
            End::Exited { code: 3 },
            End::Signalled {
                number: 11,
                core_dumped: true,
            },
        ] {
            let order = received(&Parcel::child_ended(Pid(4), expected)).into_order();
            assert!(
                matches!(order, Ok(Order::Child(ChildEvent::Ended { child: Pid(4), end })) if end == expected)
            );
        }
    }
}
