//! Styles and scripts of pages: reports inline them, the server serves them.

/// Observable Plot with the parts of D3 that it needs, as one script that defines `Plot`.
pub const PLOT_JS: &str = include_str!("../assets/plot.js");
/// The charts of one model, as a script that defines `Charts` and uses `Plot`.
pub const CHARTS_JS: &str = include_str!("../assets/charts.js");
/// The charts that compare methods, as a script that adds to `Charts`.
pub const COMPARISONS_JS: &str = include_str!("../assets/comparisons.js");
/// The script of a report, which draws its charts and sorts its tables.
pub const REPORT_JS: &str = include_str!("../assets/report.js");
/// The colours and type of every page, and the look of charts.
pub const CHARTS_CSS: &str = include_str!("../assets/charts.css");
/// The layout of a report, which adds to [`CHARTS_CSS`].
pub const REPORT_CSS: &str = include_str!("../assets/report.css");
