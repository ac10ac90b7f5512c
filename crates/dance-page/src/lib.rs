//! Shows results: answers as records and columns, charts, tables, HTML pages and text for terminals.
//!
//! The server, the reports and the command line share this crate. Only [`answers`] and [`frame`] use the library of
//! prediction sets: an [`answers::Answer`] is the result for one point, and a [`frame::Frame`] holds results as columns
//! for files and Arrow streams. A [`table::Table`] has four forms: aligned text, aligned text with bold and underline,
//! Markdown and HTML. A [`chart::Chart`] is a headline with the numbers that a script draws. An [`html::Document`] is a
//! page that needs no network: the styles and scripts of [`assets`] are inside it.
//!
//! ```
//! use dance_page::html::Document;
//! use dance_page::table::Table;
//!
//! let table = Table::from_text(["class", "coverage"], [["cat", "0.95"], ["犬", "0.9"]]);
//! assert_eq!(table.to_text(), "  class  coverage\n  cat        0.95\n  犬          0.9\n");
//!
//! let page = Document { title: "Coverage", marker: "my report", body: &table.to_html() }.to_html();
//! assert!(page.contains("<td data-value=\"0.95\">0.95</td>"));
//! ```

pub mod answers;
pub mod assets;
pub mod chart;
pub mod frame;
#[cfg(feature = "arrow")]
mod frame_arrow;
pub mod html;
pub mod table;
pub mod terminal;
pub mod text;
