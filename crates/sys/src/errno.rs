//! How a failed call is told. The C library returns -1 and sets `errno`; nginx prints it as `(NUMBER: TEXT)`.

use std::fmt;
use std::io;

/// Turns the -1 of a C call into the error in `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The same for calls that count bytes.
pub(crate) fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Repeats a call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The size of a C structure, in the type the socket calls want it.
pub(crate) fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("C structures are smaller than 4 GB")
}

/// Shows an error as nginx does in its log: `2: No such file or directory`. Errors that do not come from the kernel show
/// their own text.
pub struct Errno<'a>(pub &'a io::Error);

impl fmt::Display for Errno<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.raw_os_error() {
            Some(number) => write!(out, "{number}: {}", text(number)),
            None => write!(out, "{}", self.0),
        }
    }
}

/// The C library's text for an error number.
pub fn text(number: i32) -> String {
    let mut buffer = [0u8; 128];
    // SAFETY: the pointer and the length describe one live array, and the call writes a terminated string within it.
    let failed = unsafe { libc::strerror_r(number, buffer.as_mut_ptr().cast(), buffer.len()) } != 0;
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
    if failed || end == 0 {
        return format!("Unknown error {number}");
    }
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_in_nginx() {
        let missing = std::fs::File::open("/nonexistent/file").unwrap_err();
        assert_eq!(Errno(&missing).to_string(), "2: No such file or directory");
        assert_eq!(Errno(&io::Error::other("odd")).to_string(), "odd");
        assert_eq!(text(98), "Address already in use");
    }
}
