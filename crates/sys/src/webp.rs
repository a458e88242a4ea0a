//! WebP with loss, still and animated, by libwebp: pixels in, a file out.

use libwebp_sys::{
    WebPAnimEncoder, WebPAnimEncoderAdd, WebPAnimEncoderAssemble, WebPAnimEncoderDelete,
    WebPAnimEncoderNewInternal, WebPAnimEncoderOptions, WebPAnimEncoderOptionsInitInternal,
    WebPConfig, WebPData, WebPEncode, WebPFree, WebPGetMuxABIVersion, WebPMemoryWrite,
    WebPMemoryWriter, WebPMemoryWriterClear, WebPMemoryWriterInit, WebPPicture, WebPPictureFree,
    WebPPictureImportRGBA,
};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// The most pixels of a side.
pub const SIDE_MAX: u32 = 16_383;
/// How hard the encoder tries, 0 to 6: libwebp's own default.
const METHOD: i32 = 4;

fn failed(what: &str) -> io::Error {
    io::Error::other(format!("libwebp: {what}"))
}

/// Makes one file; frames are given one after the other.
pub struct Encoder {
    width: i32,
    height: i32,
    config: WebPConfig,
    form: Form,
}

enum Form {
    Still(Vec<u8>),
    Animated(Animation),
}

/// libwebp's encoder of animations, deleted when dropped.
struct Animation {
    encoder: NonNull<WebPAnimEncoder>,
    /// When the next frame is shown, in milliseconds.
    at_ms: i32,
}

impl Drop for Animation {
    fn drop(&mut self) {
        // SAFETY: the pointer is an encoder that nobody else deletes.
        unsafe { WebPAnimEncoderDelete(self.encoder.as_ptr()) }
    }
}

/// Memory of a picture, freed when dropped.
struct Picture(WebPPicture);

impl Drop for Picture {
    fn drop(&mut self) {
        // SAFETY: the picture was initialised, and its memory is its own.
        unsafe { WebPPictureFree(&mut self.0) }
    }
}

impl Encoder {
    /// `quality` is 0 to 100. An animation is shown `repeats` times, 0 is for ever.
    pub fn new(
        (width, height): (u32, u32),
        quality: u8,
        animation: Option<u16>,
    ) -> io::Result<Encoder> {
        if !(1..=SIDE_MAX).contains(&width) || !(1..=SIDE_MAX).contains(&height) {
            return Err(failed("a side that is too long"));
        }
        let (width, height) = (width as i32, height as i32);
        let mut config = WebPConfig::new().map_err(|()| failed("another version"))?;
        config.quality = f32::from(quality.min(100));
        config.method = METHOD;
        let form = match animation {
            None => Form::Still(Vec::new()),
            Some(repeats) => Form::Animated(Animation::new(width, height, repeats)?),
        };
        Ok(Encoder {
            width,
            height,
            config,
            form,
        })
    }

    /// Red, green, blue and alpha of each pixel, without gaps; of a still picture the last frame counts.
    pub fn add(&mut self, rgba: &[u8], delay_ms: u32) -> io::Result<()> {
        if rgba.len() != self.width as usize * self.height as usize * 4 {
            return Err(failed("pixels of another size"));
        }
        let mut picture = Picture(WebPPicture::new().map_err(|()| failed("another version"))?);
        picture.0.width = self.width;
        picture.0.height = self.height;
        // Animations are compared frame by frame in RGB.
        picture.0.use_argb = i32::from(matches!(self.form, Form::Animated(_)));
        // SAFETY: there are `height` rows of `width` pixels of four bytes, as was checked above; the picture is ours.
        let imported =
            unsafe { WebPPictureImportRGBA(&mut picture.0, rgba.as_ptr(), self.width * 4) };
        if imported == 0 {
            return Err(failed("out of memory"));
        }
        match &mut self.form {
            Form::Still(out) => still(&mut picture.0, &self.config, out),
            Form::Animated(animation) => animation.add(&mut picture.0, &self.config, delay_ms),
        }
    }

    /// The file.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.form {
            Form::Still(out) if out.is_empty() => Err(failed("no frame")),
            Form::Still(out) => Ok(out),
            Form::Animated(animation) => animation.finish(),
        }
    }
}

fn still(picture: &mut WebPPicture, config: &WebPConfig, out: &mut Vec<u8>) -> io::Result<()> {
    let mut writer = MaybeUninit::<WebPMemoryWriter>::uninit();
    // SAFETY: the call initialises all of the writer.
    let mut writer = unsafe {
        WebPMemoryWriterInit(writer.as_mut_ptr());
        writer.assume_init()
    };
    picture.writer = Some(WebPMemoryWrite);
    picture.custom_ptr = (&raw mut writer).cast();
    // SAFETY: picture and configuration are initialised, and the writer outlives the call.
    let encoded = unsafe { WebPEncode(config, picture) };
    if encoded != 0 && !writer.mem.is_null() {
        // SAFETY: the writer says where its bytes are and how many; they are copied before they are freed.
        *out = unsafe { std::slice::from_raw_parts(writer.mem, writer.size) }.to_vec();
    }
    picture.custom_ptr = ptr::null_mut();
    // SAFETY: the writer was initialised; this frees what it holds.
    unsafe { WebPMemoryWriterClear(&mut writer) };
    match encoded {
        0 => Err(failed(&format!("{:?}", picture.error_code))),
        _ => Ok(()),
    }
}

impl Animation {
    fn new(width: i32, height: i32, repeats: u16) -> io::Result<Animation> {
        let version = WebPGetMuxABIVersion();
        let mut options = MaybeUninit::<WebPAnimEncoderOptions>::uninit();
        // SAFETY: the call initialises all of the options, or says that it did not.
        let mut options = unsafe {
            if WebPAnimEncoderOptionsInitInternal(options.as_mut_ptr(), version) == 0 {
                return Err(failed("another version"));
            }
            options.assume_init()
        };
        options.anim_params.loop_count = i32::from(repeats);
        // Each frame with or without loss, whichever is smaller.
        options.allow_mixed = 1;
        // SAFETY: the options are initialised and live through the call.
        let encoder = unsafe { WebPAnimEncoderNewInternal(width, height, &options, version) };
        Ok(Animation {
            encoder: NonNull::new(encoder).ok_or_else(|| failed("out of memory"))?,
            at_ms: 0,
        })
    }

    fn add(
        &mut self,
        picture: &mut WebPPicture,
        config: &WebPConfig,
        delay_ms: u32,
    ) -> io::Result<()> {
        // SAFETY: encoder, picture and configuration are alive; the encoder copies what it keeps.
        let added =
            unsafe { WebPAnimEncoderAdd(self.encoder.as_ptr(), picture, self.at_ms, config) };
        let delay_ms = i32::try_from(delay_ms).unwrap_or(i32::MAX);
        self.at_ms = self.at_ms.saturating_add(delay_ms);
        match added {
            0 => Err(failed("a frame that does not fit")),
            _ => Ok(()),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        let encoder = self.encoder.as_ptr();
        let mut data = WebPData::default();
        // SAFETY: the encoder is alive; null pointers tell when the last frame ends.
        let ended =
            unsafe { WebPAnimEncoderAdd(encoder, ptr::null_mut(), self.at_ms, ptr::null()) };
        // SAFETY: the encoder is alive, and `data` is ours.
        if ended == 0 || unsafe { WebPAnimEncoderAssemble(encoder, &mut data) } == 0 {
            return Err(failed("no animation"));
        }
        if data.bytes.is_null() {
            return Err(failed("out of memory"));
        }
        // SAFETY: libwebp says where its bytes are and how many.
        let bytes = unsafe { std::slice::from_raw_parts(data.bytes, data.size) }.to_vec();
        // SAFETY: the bytes are libwebp's, were copied, and are freed once.
        unsafe { WebPFree(data.bytes.cast_mut().cast()) };
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seed: usize) -> Vec<u8> {
        (0..32 * 20)
            .flat_map(|at| [(at + seed) as u8, (at * 3) as u8, 90, 255])
            .collect()
    }

    #[test]
    fn stills_and_animations_are_files() {
        let mut encoder = Encoder::new((32, 20), 80, None).unwrap();
        encoder.add(&frame(0), 0).unwrap();
        let still = encoder.finish().unwrap();
        assert_eq!(
            (&still[..4], &still[8..16]),
            (&b"RIFF"[..], &b"WEBPVP8 "[..])
        );
        let mut encoder = Encoder::new((32, 20), 80, Some(2)).unwrap();
        for number in 0..3 {
            encoder.add(&frame(number * 50), 100).unwrap();
        }
        let animated = encoder.finish().unwrap();
        assert_eq!(&animated[8..16], b"WEBPVP8X");
        assert_eq!(
            animated.windows(4).filter(|name| name == b"ANMF").count(),
            3
        );
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert!(Encoder::new((16_384, 1), 80, None).is_err());
        assert!(Encoder::new((0, 1), 80, None).is_err());
        let mut encoder = Encoder::new((32, 20), 80, None).unwrap();
        assert!(encoder.add(&[0; 10], 0).is_err());
        assert!(encoder.finish().is_err());
    }
}
