//! Pages that need no network: style and script inlined, names from data files escaped.

pub(crate) const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

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
    format!(
        "<!doctype html>\n<!-- {mark} -->\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title>\
         <link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style></head><body><main>{body}</main>\
         <script>{SCRIPT}</script></body></html>\n",
        escape(title)
    )
}
