#![doc = include_str!("../README.md")]
//!
//! The steps from a picture or a text to an embedding:
//! 1. [`items`]: inputs, from a folder, a table, a data set of Hugging Face or lines of text.
//! 2. [`encoders`]: named encoders and their files; [`hub`] downloads them.
//! 3. [`settings`]: sizes, normalisation, tokens and pooling, from the encoder's files.
//! 4. [`picture`]: decoding, resizing as Pillow does, cropping and normalisation; `text`: tokens.
//! 5. [`Encoder`]: a session of ONNX Runtime for every worker.
//! 6. [`embed()`]: parallel batches, kept in parts on disk so that an interrupted run can continue.

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
