//! Charts: a headline in words, and the numbers that a page's script draws.

use serde_json::Value;

use crate::html::escape;

/// A drawing that the scripts of [`crate::assets`] know; each needs its own JSON object.
///
/// Numbers of methods are objects with a `name`; the one with `"ours": true` is drawn in the accent colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Draws a row for each of `rows`: a dot or (`bars`) a bar at `value`, with a range from `least` to `most`.
    Rows,
    /// Draws lines through the `points` of each of `series`, with their names at their ends.
    Lines,
    /// Draws dots at the `x` and `y` of each of `points`, with their names beside them.
    Scatter,
    /// Draws a bar of 100 % for each of `rows`, divided by its `shares` of `sizes`.
    Shares,
    /// Draws a histogram of set sizes from an array of counts.
    Sizes,
    /// Draws `points` (x, y and class) in the plane and names the `classes`.
    Plane,
}

impl Kind {
    /// Returns the name of the function of `Charts` that draws it.
    fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Lines => "lines",
            Self::Scatter => "scatter",
            Self::Shares => "shares",
            Self::Sizes => "sizes",
            Self::Plane => "plane",
        }
    }
}

/// A figure with its headline above it and its numbers inside.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The drawing.
    pub kind: Kind,
    /// The id of the figure in its page.
    pub id: String,
    /// The finding, in one sentence with its number.
    pub headline: String,
    /// A text below the chart that explains it; empty for none.
    pub caption: String,
    /// The numbers, in the shape that [`Kind`] needs.
    pub data: Value,
}

impl Chart {
    /// Returns the figure; the scripts of an [`html::Document`](crate::html::Document) draw it.
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
            self.kind.name(),
            // A number and its sign stay on one line.
            escape(&self.headline).replace(" %", "\u{a0}%"),
            self.data.to_string().replace('<', "\\u003c")
        )
    }
}

/// Returns charts side by side, as many as there is room for.
pub fn figures<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> String {
    format!("<div class=\"figures\">{}</div>", charts.into_iter().map(Chart::to_html).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_data_stay_names() {
        let chart = Chart {
            kind: Kind::Rows,
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

    #[test]
    fn every_kind_has_a_function_that_draws_it() {
        use crate::assets::{CHARTS_JS, COMPARISONS_JS};
        for kind in [Kind::Rows, Kind::Lines, Kind::Scatter, Kind::Shares, Kind::Sizes, Kind::Plane] {
            let function = format!("function {}(", kind.name());
            assert!(CHARTS_JS.contains(&function) || COMPARISONS_JS.contains(&function), "{kind:?}");
        }
    }
}
