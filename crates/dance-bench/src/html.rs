//! Pages that need no network: styles, scripts and charts inlined, names from data files escaped.

use crate::page::{CHARTS, PLOT, STYLE};

const COMPARISONS: &str = include_str!("page/comparisons.js");
const REPORT: &str = include_str!("page/report.js");
const REPORT_STYLE: &str = include_str!("page/report.css");
/// What the page may load: nothing that is not in it.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// Text as it may stand in a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// A whole page. `mark` is a comment in its second line, by which a program knows its own pages.
pub fn document(title: &str, mark: &str, body: &str) -> String {
    let scripts: String = [PLOT, CHARTS, COMPARISONS, REPORT]
        .iter()
        .map(|script| format!("<script>{script}</script>"))
        .collect();
    format!(
        "<!doctype html>\n<!-- {mark} -->\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title>\
         <link rel=\"icon\" href=\"data:,\"><style>{STYLE}{REPORT_STYLE}</style></head><body><main>{body}</main>\
         {scripts}</body></html>\n",
        escape(title)
    )
}
