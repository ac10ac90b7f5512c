//! HTML pages that need no network: styles, scripts and charts are inside, and text from data is escaped.

use crate::assets::{CHARTS_CSS, CHARTS_JS, COMPARISONS_JS, PLOT_JS, REPORT_CSS, REPORT_JS};

/// The content security policy of a page: browsers load nothing from outside it.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// Escapes text for an element or for an attribute in quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

/// A whole HTML page: a body with the styles and scripts that draw its charts and sort its tables.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// The title, as plain text.
    pub title: &'a str,
    /// A comment in the second line, by which a program recognises its own pages.
    pub marker: &'a str,
    /// The content of `<main>`, as HTML.
    pub body: &'a str,
}

impl Document<'_> {
    /// Returns the page as one self-contained file.
    pub fn to_html(&self) -> String {
        let scripts: String = [PLOT_JS, CHARTS_JS, COMPARISONS_JS, REPORT_JS]
            .iter()
            .map(|script| format!("<script>{script}</script>"))
            .collect();
        format!(
            "{}<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title>\
             <link rel=\"icon\" href=\"data:,\"><style>{CHARTS_CSS}{REPORT_CSS}</style></head><body><main>{}</main>\
             {scripts}</body></html>\n",
            first_lines(self.marker),
            escape(self.title),
            self.body,
        )
    }
}

/// Checks if a file is a [`Document`] with this marker.
pub fn has_marker(file: &[u8], marker: &str) -> bool {
    file.starts_with(first_lines(marker).as_bytes())
}

fn first_lines(marker: &str) -> String {
    format!("<!doctype html>\n<!-- {marker} -->\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_its_marker_and_its_title_is_text() {
        let page = Document { title: "<b>", marker: "ours", body: "<p>text</p>" }.to_html();
        assert!(has_marker(page.as_bytes(), "ours") && !has_marker(page.as_bytes(), "other"));
        assert!(page.contains("<title>&lt;b&gt;</title>") && page.contains("<main><p>text</p></main>"));
    }

    #[test]
    fn a_page_loads_nothing() {
        let page = Document { title: "", marker: "", body: "" }.to_html();
        assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none';"));
        assert!(!page.contains("src=") && !page.contains("@import"));
    }
}
