#![no_main]
//! Parameters of pictures in a URL, and the arithmetic on them: nothing lies outside the picture, whatever is asked for.

use libfuzzer_sys::fuzz_target;
use server::image::small_light::geometry::{Outcome, outcome};
use server::image::small_light::parameters::{Parameters, list};
use server::image::small_light::wish::Wish;

fuzz_target!(|input: (u32, u32, bool, &[u8])| {
    let (width, height, is_jpeg, text) = input;
    let (width, height) = (width.max(1), height.max(1));
    let mut parameters = Parameters::default();
    let _pattern = parameters.add_list(list(text).unwrap_or(text));
    let _pattern = parameters.add_arguments(text);
    let Outcome::Made(made) = outcome(&Wish::new(&parameters), width, height, is_jpeg) else {
        return;
    };
    if let Some(scale) = made.scale {
        let part = scale.part;
        assert!(part.width > 0 && part.height > 0 && scale.width > 0 && scale.height > 0);
        assert!(u64::from(part.x) + u64::from(part.width) <= u64::from(width));
        assert!(u64::from(part.y) + u64::from(part.height) <= u64::from(height));
    }
});
