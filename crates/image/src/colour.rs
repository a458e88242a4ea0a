//! Colour profiles: pictures become sRGB, which everything shows.

use crate::raster::Raster;
use moxcms::{ColorProfile, DataColorSpace, Layout, TransformOptions};

/// Whether a profile is other than sRGB, as far as its name tells.
pub fn differs(icc: &[u8]) -> bool {
    let named = |name: &[u8]| memchr::memmem::find(icc, name).is_some();
    // Version 4 writes names in UTF-16.
    !named(b"sRGB") && !named(b"\0s\0R\0G\0B")
}

/// A picture's colours in sRGB. One whose profile cannot be read stays as it is.
pub fn to_srgb(raster: Raster, icc: &[u8]) -> Raster {
    let layout = match raster.channels {
        3 => Layout::Rgb,
        4 => Layout::Rgba,
        _ => return raster,
    };
    let Ok(profile) = ColorProfile::new_from_slice(icc) else {
        return raster;
    };
    if profile.color_space != DataColorSpace::Rgb {
        return raster;
    }
    let srgb = ColorProfile::new_srgb();
    let options = TransformOptions::default();
    let Ok(transform) = profile.create_transform_8bit(layout, &srgb, layout, options) else {
        return raster;
    };
    let mut data = vec![0; raster.data.len()];
    match transform.transform(&raster.data, &mut data) {
        Ok(()) => Raster { data, ..raster },
        Err(_) => raster,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_colours_become_srgb_and_nonsense_changes_nothing() {
        let adobe = ColorProfile::new_adobe_rgb().encode().expect("a profile");
        assert!(differs(&adobe));
        let green = Raster::filled(2, 2, &[100, 200, 100]);
        let converted = to_srgb(green.clone(), &adobe);
        assert!(converted.data[0] < 90, "{:?}", &converted.data[..3]);
        assert_eq!(to_srgb(green.clone(), b"nonsense"), green);
        assert_eq!(to_srgb(green.clone(), &adobe[..200]), green);
        assert!(!differs(
            &ColorProfile::new_srgb().encode().expect("a profile")
        ));
    }
}
