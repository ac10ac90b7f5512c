//! Prediction sets as a service: an HTTP API for programs and a page for people, over one model file.
//!
//! A request passes these files in turn:
//!
//! 1. [`server`](self) accepts connections and finishes the requests in progress before it ends.
//! 2. `guard` gives every request an id, admits it, limits its time, and logs and counts it. `routes` is the table of
//!    all paths that it, the router and the description of the API read.
//! 3. `body` reads what a request sends, within the limits.
//! 4. `points` reads embeddings from JSON (`arrow`: from Arrow IPC) and sets invalid rows aside with their problems.
//! 5. `batching` scores the points of concurrent requests together.
//! 6. `predict`, `explain`, `labels` … make the response, and `problem` the error response. `encode` makes an
//!    embedding of a picture or a text, by an encoder that the program provides. `inference` speaks the Open Inference
//!    Protocol.
//!
//! `served` is the model with the scores of the points of the page; a reload replaces it in one step. `journal` keeps
//! labels that became known, and `change` tests whether they have changed. The files of the page are in `page/`,
//! compiled into the binary.

#![allow(clippy::unused_async)] // axum's handlers are async, whether they wait or not

#[cfg(feature = "arrow")]
mod arrow;
mod batching;
mod body;
mod change;
mod clock;
mod coverage;
mod decimal;
mod encode;
mod explain;
mod guard;
mod health;
mod images;
mod inference;
pub mod journal;
mod keys;
mod labels;
mod level;
mod members;
mod models;
mod monitor;
mod names;
mod one_point;
mod openapi;
mod page;
mod points;
mod predict;
mod problem;
mod process;
mod reviewable;
mod routes;
mod served;
mod server;
mod settings;
mod state;
mod telemetry;
#[cfg(test)]
mod tests;

pub use encode::{Encode, OpenEncoder, Takes};
pub use reviewable::Reviewable;
pub use server::{Server, Signal};
pub use settings::{Limits, Pictures, Settings};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
