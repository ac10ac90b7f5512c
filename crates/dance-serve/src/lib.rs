//! Prediction sets as a service: an HTTP API for machines and a page for people, over one model file.
//!
//! The way of a request, one file each:
//!
//! 1. [`server`](self): takes connections, and on the way out finishes what it has taken.
//! 2. `guard`: who may ask, how many at once, for how long; a request id, a line of the log and a count for every request.
//! 3. `routes`: which path is answered by whom; `body` reads what was sent, within its limits.
//! 4. `points`: embeddings from JSON (`arrow`: from Arrow IPC), a wrong row set aside with its reason.
//! 5. `gather`: concurrent requests become one batch for the model.
//! 6. `predict`, `explain`, `labels`, …: what is made of the answer; `problem`: what is said where there is none.
//!    `encode` makes a point of a picture or a text, with an encoder that whoever starts the server brings.
//!
//! `served` is a model with everything that is known about the points of the page; a new one takes its place in one step.
//! `journal` keeps labels that became known. The page itself is in `page/`, its files inside the binary.

#![allow(clippy::unused_async)] // what a route calls is async, whether it waits or not

#[cfg(feature = "arrow")]
mod arrow;
mod body;
mod clock;
mod decimal;
mod encode;
mod explain;
mod gather;
mod guard;
mod health;
mod images;
pub mod journal;
mod keys;
mod labels;
mod level;
mod members;
mod model;
mod monitor;
mod one_point;
mod openapi;
mod page;
mod points;
mod predict;
mod problem;
mod promise;
mod reviewable;
mod routes;
mod served;
mod server;
mod settings;
mod state;
mod telemetry;
mod watch;

pub use encode::{Encode, OpenEncoder, Takes};
pub use keys::Keys;
pub use reviewable::Reviewable;
pub use server::{Server, Signal};
pub use settings::{Images, Limits, Settings};
