//! Password hashes as the system knows them: libcrypt's `crypt_r`.

use std::ffi::{CStr, CString, c_char, c_void};

// SAFETY: the declaration is the one of crypt.h.
#[link(name = "crypt")]
unsafe extern "C" {
    fn crypt_r(phrase: *const c_char, setting: *const c_char, data: *mut c_void) -> *mut c_char;
}

/// At least the size of `struct crypt_data` in every libcrypt; glibc's old one is the largest.
const DATA_BYTES: usize = 144 * 1024;

/// The hash of `password` by the method, salt and cost that begin `setting`, itself a hash or the start of one. `None`:
/// libcrypt has no such method, or one of the two has a NUL in it.
#[must_use]
pub fn crypt(password: &[u8], setting: &[u8]) -> Option<Vec<u8>> {
    let password = CString::new(password).ok()?;
    let setting = CString::new(setting).ok()?;
    // Words, for the alignment that the structure may need. Zeroed, which some versions ask for at the first use.
    let mut data = vec![0u128; DATA_BYTES / size_of::<u128>()];
    // SAFETY: both strings end in NUL and live through the call; `data` is larger than the structure, aligned for any
    // type and ours alone.
    let hash = unsafe {
        crypt_r(
            password.as_ptr(),
            setting.as_ptr(),
            data.as_mut_ptr().cast(),
        )
    };
    if hash.is_null() {
        return None;
    }
    // SAFETY: what is not null is a string that ends in NUL, within `data`, which still lives.
    let hash = unsafe { CStr::from_ptr(hash) }.to_bytes().to_vec();
    // A failure that is told without a null pointer: `*0` or `*1`, which is no hash.
    (!hash.starts_with(b"*")).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::crypt;

    #[test]
    fn known_methods() {
        for hash in [
            "$6$ab$2lDVylRMp48hlYZZFOCx/xnhJEsGPynJ17rt2um9Gb8wX6ygI4uDxg3Bg43pp/Hv397hwWfT8mciHws9eE4sR/",
            "abNANd1rDfiNc",
        ] {
            let computed = crypt(b"secret", hash.as_bytes());
            assert_eq!(computed.as_deref(), Some(hash.as_bytes()), "{hash}");
            assert_ne!(crypt(b"other", hash.as_bytes()), computed);
        }
        for setting in [&b""[..], b"*0", b"$none$x", b"a\0b"] {
            assert_eq!(crypt(b"secret", setting), None, "{setting:?}");
        }
        assert_eq!(crypt(b"a\0b", b"ab"), None);
    }
}
