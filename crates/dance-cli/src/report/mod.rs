//! The report of the demo: a page of its own, drawn by hand, that needs no network.

mod html;
mod svg;

pub(crate) use html::{MARK, escape, page, table};
pub(crate) use svg::{Line, bars, curves, picture};
