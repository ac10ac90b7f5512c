//! A chart of a report: what it says in words, and the numbers that the page's script draws (`page/comparisons.js`).

use serde_json::Value;

use crate::html::escape;

/// A figure with its headline above it.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Which of the script's charts it is.
    pub kind: &'static str,
    /// Its name in the page.
    pub id: String,
    /// What it shows, in one sentence with its number.
    pub headline: String,
    /// How to read it.
    pub caption: String,
    /// What is drawn, as the script wants it.
    pub data: Value,
}

impl Chart {
    /// The figure; the script of [`crate::html::document`] draws it.
    pub fn to_html(&self) -> String {
        let caption = match self.caption.as_str() {
            "" => String::new(),
            words => format!("<figcaption>{}</figcaption>", escape(words)),
        };
        // Within a script, `<` could begin its end; JSON has another way to write it.
        format!(
            "<figure class=\"chart card\" id=\"{}\" data-chart=\"{}\"><h3>{}</h3><div class=\"plot\"></div>{caption}\
             <script type=\"application/json\">{}</script></figure>",
            escape(&self.id),
            self.kind,
            // A number and its sign stay on one line.
            escape(&self.headline).replace(" %", "\u{a0}%"),
            self.data.to_string().replace('<', "\\u003c")
        )
    }
}

/// Charts side by side where there is room.
pub fn figures<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> String {
    format!("<div class=\"figures\">{}</div>", charts.into_iter().map(Chart::to_html).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_data_stay_names() {
        let chart = Chart {
            kind: "rows",
            id: "a\"b".into(),
            headline: "<i>".into(),
            caption: String::new(),
            data: serde_json::json!({ "name": "</script><b>", "value": f64::NAN }),
        };
        let html = chart.to_html();
        assert_eq!(html.matches("</script>").count(), 1, "{html}");
        assert!(html.contains("&lt;i&gt;") && html.contains("a&quot;b") && !html.contains("<b>"), "{html}");
        let inside = html.split("json\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
        let data: Value = serde_json::from_str(inside).unwrap();
        assert_eq!(data, serde_json::json!({ "name": "</script><b>", "value": null }));
    }
}
