//! Files that pages share: charts, and how they look. Reports hold them, and the server's page is made with them.

/// Observable Plot with the parts of D3 it needs, as one script that defines `Plot`.
pub const PLOT: &str = include_str!("page/plot.js");
/// Our charts, made with it.
pub const CHARTS: &str = include_str!("page/charts.js");
/// How pages and charts look.
pub const STYLE: &str = include_str!("page/charts.css");
