//! AVIF by libavif, the system's: files to pixels and back. Without the feature `avif` each call says that there is none.

use std::io;

/// What a file holds besides pixels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profiles {
    /// A colour profile.
    pub icc: Vec<u8>,
    /// TIFF data, without a prefix.
    pub exif: Vec<u8>,
    /// XML.
    pub xmp: Vec<u8>,
}

/// Whether it is built in.
pub const IS_THERE: bool = cfg!(feature = "avif");

#[cfg(not(feature = "avif"))]
mod library {
    use super::{Profiles, io};

    fn none<T>() -> io::Result<T> {
        Err(io::Error::other("this build has no AVIF"))
    }

    /// Says that there is none.
    pub fn decode(_file: &[u8], _size: (u32, u32)) -> io::Result<(Vec<u8>, Profiles)> {
        none()
    }

    /// Says that there is none.
    pub fn encode(
        _rgba: &[u8],
        _size: (u32, u32),
        _quality: u8,
        _profiles: &Profiles,
    ) -> io::Result<Vec<u8>> {
        none()
    }
}

#[cfg(feature = "avif")]
mod library {
    use super::{Profiles, io};
    use std::ffi::{CStr, c_char, c_int, c_void};

    /// How hard the encoder tries, 10 for the least: ten times as fast as its default, for a tenth more bytes.
    const SPEED: c_int = 9;

    /// What takes bytes: the receiver, the kind, the bytes and how many.
    // SAFETY: whoever calls it passes a receiver of `take`'s kind, which only the calls below do.
    type Sink = unsafe extern "C" fn(*mut c_void, c_int, *const u8, usize);

    // SAFETY: these are the functions of avif.c, with the types that it gives them.
    unsafe extern "C" {
        fn gannet_avif_decode(
            file: *const u8,
            size: usize,
            width: u32,
            height: u32,
            pixels: *mut u8,
            give: Sink,
            receiver: *mut c_void,
        ) -> c_int;
        fn gannet_avif_encode(
            pixels: *const u8,
            width: u32,
            height: u32,
            opaque: c_int,
            quality: c_int,
            speed: c_int,
            profiles: *const *const u8,
            sizes: *const usize,
            give: Sink,
            receiver: *mut c_void,
        ) -> c_int;
        fn gannet_avif_reason(result: c_int) -> *const c_char;
    }

    /// What the calls give.
    #[derive(Default)]
    struct Received {
        file: Vec<u8>,
        profiles: Profiles,
    }

    /// # Safety
    /// `receiver` points to a `Received` that nobody else uses, and there are `size` bytes, or none.
    unsafe extern "C" fn take(receiver: *mut c_void, kind: c_int, bytes: *const u8, size: usize) {
        if bytes.is_null() || size == 0 {
            return;
        }
        // SAFETY: as the caller promises.
        let (received, bytes) = unsafe {
            (
                &mut *receiver.cast::<Received>(),
                std::slice::from_raw_parts(bytes, size),
            )
        };
        let place = match kind {
            0 => &mut received.file,
            1 => &mut received.profiles.icc,
            2 => &mut received.profiles.exif,
            _ => &mut received.profiles.xmp,
        };
        *place = bytes.to_vec();
    }

    fn bytes_of((width, height): (u32, u32)) -> io::Result<usize> {
        let bytes = (width as usize)
            .checked_mul(height as usize)
            .and_then(|pixels| pixels.checked_mul(4));
        let bytes = bytes.filter(|&bytes| bytes > 0 && width <= i32::MAX as u32 / 4);
        bytes.ok_or_else(|| io::Error::other("a size that cannot be"))
    }

    fn checked(result: c_int) -> io::Result<()> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: the text is a constant that ends with a zero.
        let reason = unsafe { CStr::from_ptr(gannet_avif_reason(result)) };
        Err(io::Error::other(format!(
            "libavif: {}",
            reason.to_string_lossy()
        )))
    }

    /// Red, green, blue and alpha of a file's primary picture, which must have this size before it is turned.
    pub fn decode(file: &[u8], size: (u32, u32)) -> io::Result<(Vec<u8>, Profiles)> {
        let mut pixels = vec![0; bytes_of(size)?];
        let mut received = Received::default();
        // SAFETY: there are as many pixels as the size says; the receiver is ours and outlives the call.
        let result = unsafe {
            gannet_avif_decode(
                file.as_ptr(),
                file.len(),
                size.0,
                size.1,
                pixels.as_mut_ptr(),
                take,
                (&raw mut received).cast(),
            )
        };
        checked(result)?;
        Ok((pixels, received.profiles))
    }

    /// A file. `quality` is 0 to 100.
    pub fn encode(
        rgba: &[u8],
        size: (u32, u32),
        quality: u8,
        profiles: &Profiles,
    ) -> io::Result<Vec<u8>> {
        if rgba.len() != bytes_of(size)? {
            return Err(io::Error::other("pixels of another size"));
        }
        let opaque = rgba.chunks_exact(4).all(|pixel| pixel[3] == 255);
        let parts = [&profiles.icc, &profiles.exif, &profiles.xmp];
        let (places, sizes) = (parts.map(|part| part.as_ptr()), parts.map(Vec::len));
        let mut received = Received::default();
        // SAFETY: there are as many pixels as the size says, and three profiles of the sizes told; the receiver is ours and
        // outlives the call.
        let result = unsafe {
            gannet_avif_encode(
                rgba.as_ptr(),
                size.0,
                size.1,
                c_int::from(opaque),
                c_int::from(quality.min(100)),
                SPEED,
                places.as_ptr(),
                sizes.as_ptr(),
                take,
                (&raw mut received).cast(),
            )
        };
        checked(result)?;
        Ok(received.file)
    }
}

pub use library::{decode, encode};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_come_back_nearly_as_they_were() {
        let pixels: Vec<u8> = (0..40 * 30)
            .flat_map(|at| [(at % 40 * 6) as u8, (at / 40 * 8) as u8, 90, 255])
            .collect();
        let profiles = Profiles {
            exif: b"MM\0*\0\0\0\x08\0\0\0\0\0\0".to_vec(),
            ..Profiles::default()
        };
        let made = encode(&pixels, (40, 30), 90, &profiles);
        if !IS_THERE {
            assert!(made.is_err() && decode(b"", (1, 1)).is_err());
            return;
        }
        let file = made.unwrap();
        assert_eq!(&file[4..12], b"ftypavif");
        let (back, found) = decode(&file, (40, 30)).unwrap();
        assert_eq!(found, profiles);
        let far = pixels.iter().zip(&back).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(far < Some(40), "{far:?}");
        assert!(decode(&file, (41, 30)).is_err());
        assert!(decode(&file[..file.len() / 2], (40, 30)).is_err());
        assert!(encode(&pixels, (41, 30), 90, &profiles).is_err());
    }
}
