//! Looking into a child's memory while it stands still: stopped as a debugger does it, read, and let go. All calls have to
//! come from the thread that stopped it.

use std::io;

use crate::errno::{check, check_size};
use crate::process::{Pid, positive};

/// Asks a child to stop; `process::wait_any` tells when it has. A system call that it sleeps in goes on afterwards.
pub fn stop(child: Pid) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, child, 0)?;
    request(libc::PTRACE_INTERRUPT, child, 0)
}

/// Lets a stopped child go on, with the signal that stopped it, if one did.
pub fn release(child: Pid, signal: Option<i32>) -> io::Result<()> {
    request(
        libc::PTRACE_DETACH,
        child,
        libc::c_long::from(signal.unwrap_or(0)),
    )
}

fn request(what: libc::c_uint, child: Pid, data: libc::c_long) -> io::Result<()> {
    let nowhere = std::ptr::null_mut::<libc::c_void>();
    let child = positive(child)?;
    // SAFETY: none of the three requests above reads or writes memory of this process; the address is not used.
    let result = unsafe { libc::ptrace(what, child, nowhere, data) };
    check(libc::c_int::try_from(result).unwrap_or(-1)).map(drop)
}

/// Fills `bytes` with what stands at `address` in a process; fails where less can be read.
pub fn read(process: Pid, address: u64, bytes: &mut [u8]) -> io::Result<()> {
    let refused = || io::Error::from_raw_os_error(libc::EFAULT);
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(
            usize::try_from(address).map_err(|_| refused())?,
        ),
        iov_len: bytes.len(),
    };
    let process = positive(process)?;
    // SAFETY: the first range is one live, writable slice. The second is a number to the kernel, which checks it against
    // the other process's memory.
    let read = check_size(unsafe {
        libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0)
    })?;
    if read == bytes.len() {
        Ok(())
    } else {
        Err(refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::own_pid;

    #[test]
    fn memory_is_read_and_what_is_none_is_an_error() {
        let text = b"what stands there";
        let mut read_text = [0; 17];
        let address = text.as_ptr().addr() as u64;
        read(own_pid(), address, &mut read_text).unwrap();
        assert_eq!(&read_text, text);
        for nowhere in [0, 8, u64::MAX - 64] {
            assert!(read(own_pid(), nowhere, &mut read_text).is_err());
        }
        assert!(read(Pid(0), address, &mut read_text).is_err());
        assert!(stop(Pid(-1)).is_err());
        assert!(stop(own_pid()).is_err());
    }
}
