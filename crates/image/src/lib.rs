//! Pictures: what a file says of itself (`probe`), and a picture made of it by a plan (`render`). Bytes in, bytes out;
//! this crate knows nothing of HTTP. Everything is bounded by `Limits`, which are checked before anything is decoded.

#![forbid(unsafe_code)]

/// What can go wrong.
pub mod error;
/// What a picture may cost.
pub mod limits;
/// What is to be done with a picture, in whole pixels.
pub mod plan;
/// What a file's header says, without decoding.
pub mod probe;
/// From source and plan to a picture.
pub mod render;

mod colour;
mod decode;
mod encode;
mod jpeg;
mod planar;
mod raster;
mod steps;

pub use decode::{DecodeElsewhere, Decoded, Foreign, Profiles};
pub use encode::{EncodeElsewhere, Frames};
pub use error::Error;
pub use limits::Limits;
pub use plan::{
    Colour, Crop, Metadata, Output, Overlay, Plan, Quality, Resampling, Rotation, Sampling, Step,
};
pub use probe::{Facts, Format, Model, probe};
pub use render::{Aids, Master, Picture, Rendered, render, render_with};
