//! Extended attributes: a few bytes that a file system keeps beside a file and moves with it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::errno::{check, check_size, retry};

/// Sets an attribute of an open file. `EOPNOTSUPP`: the file system has none.
pub fn set(file: impl AsFd, name: &CStr, value: &[u8]) -> io::Result<()> {
    let file = file.as_fd().as_raw_fd();
    retry(|| {
        // SAFETY: the name is a live, terminated string; pointer and length describe one live slice.
        check(unsafe {
            libc::fsetxattr(file, name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
        })
    })
    .map(drop)
}

/// Reads an attribute of an open file into `buffer`; `None` where the file has none of that name, or the file system
/// none at all. A value longer than the buffer is an error (`ERANGE`).
pub fn read<'a>(
    file: impl AsFd,
    name: &CStr,
    buffer: &'a mut [u8],
) -> io::Result<Option<&'a [u8]>> {
    let file = file.as_fd().as_raw_fd();
    let result = retry(|| {
        // SAFETY: the name is a live, terminated string; pointer and length describe one live, writable slice.
        check_size(unsafe {
            libc::fgetxattr(
                file,
                name.as_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
            )
        })
    });
    match result {
        Ok(length) => Ok(buffer.get(..length)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_read_as_it_was_set() {
        let path =
            std::env::temp_dir().join(format!("gannet-sys-attribute-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(read(&file, c"user.gannet.test", &mut buffer).unwrap(), None);
        // Not every file system has attributes.
        if set(&file, c"user.gannet.test", b"value").is_ok() {
            let value = read(&file, c"user.gannet.test", &mut buffer).unwrap();
            assert_eq!(value, Some(&b"value"[..]));
            assert!(read(&file, c"user.gannet.test", &mut [0; 3]).is_err());
        }
        std::fs::remove_file(path).unwrap();
    }
}
