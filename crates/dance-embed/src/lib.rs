#![doc = include_str!("../README.md")]
//!
//! The way of a picture or a text:
//! 1. [`items`]: what is to be embedded, from a folder, a manifest, a data set of Hugging Face's or lines of text.
//! 2. [`encoders`]: names of encoders, and where their files are; [`hub`] fetches them.
//! 3. [`settings`]: what the encoder's files say about sizes, normalisation, tokens and pooling.
//! 4. [`picture`]: decoded, resized as Pillow does, cropped and normalised; `text`: tokens.
//! 5. [`Encoder`]: a session of ONNX Runtime for every worker.
//! 6. [`embed()`]: batches of all of them, in parallel, kept in parts that survive a stop.

mod embed;
mod encoder;
pub mod encoders;
pub mod hub;
pub mod items;
mod parts;
pub mod picture;
pub mod runtime;
mod session;
pub mod settings;
mod text;

pub use embed::{Bad, EmbedOptions, Embedded, embed, prototypes};
pub use encoder::{Encoder, EncoderOptions, Processor};
pub use items::{Content, Items, Modality};
