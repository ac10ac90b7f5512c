//! A table in four forms: Markdown, CSV, text for a terminal, and HTML that sorts.

use dance::data::io::csv_safe;

use crate::html::escape;
use crate::text::{markdown, visible};

/// How a cell stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// Not at all.
    #[default]
    None,
    /// The best of its column: bold.
    Best,
    /// The second: underlined.
    Second,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// What the column is sorted by; `None` sorts by the text.
    pub value: Option<f64>,
    /// How it stands out.
    pub emphasis: Emphasis,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number with so many decimals.
    pub fn number(value: f64, decimals: usize) -> Self {
        Self { text: format!("{value:.decimals$}"), value: Some(value), emphasis: Emphasis::None }
    }
}

/// A table with a title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The table without some of its columns.
    pub fn without(mut self, names: &[&str]) -> Self {
        let kept: Vec<bool> = self.columns.iter().map(|name| !names.contains(&name.as_str())).collect();
        let keep = |place: &mut usize| {
            *place += 1;
            kept[*place - 1]
        };
        let mut place = 0;
        self.columns.retain(|_| keep(&mut place));
        for row in &mut self.rows {
            place = 0;
            row.retain(|_| keep(&mut place));
        }
        self
    }

    /// Marks the smallest value of a column as the best and the next as the second, among `rows`.
    pub(crate) fn mark_smallest(&mut self, column: usize, rows: std::ops::Range<usize>) {
        // As shown: what prints the same is equally good.
        let mut shown: Vec<f64> = self.rows[rows.clone()]
            .iter()
            .filter(|row| row[column].value.is_some())
            .filter_map(|row| row[column].text.split(' ').next().and_then(|text| text.parse().ok()))
            .collect();
        shown.sort_by(f64::total_cmp);
        shown.dedup();
        for row in &mut self.rows[rows] {
            let value = row[column].text.split(' ').next().and_then(|text| text.parse::<f64>().ok());
            row[column].emphasis = match value {
                Some(value) if shown.first() == Some(&value) => Emphasis::Best,
                Some(value) if shown.get(1) == Some(&value) => Emphasis::Second,
                _ => Emphasis::None,
            };
        }
    }

    /// A Markdown table under its title.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        if !self.note.is_empty() {
            text += &format!("{}\n\n", self.note);
        }
        text += &format!("| {} |\n|{}\n", self.columns.join(" | "), "---|".repeat(self.columns.len()));
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .map(|cell| match cell.emphasis {
                    Emphasis::None => markdown(&cell.text),
                    Emphasis::Best => format!("**{}**", markdown(&cell.text)),
                    Emphasis::Second => format!("<u>{}</u>", markdown(&cell.text)),
                })
                .collect();
            text += &format!("| {} |\n", cells.join(" | "));
        }
        text
    }

    /// Lines of text with aligned columns; `styled` uses a terminal's bold and underline.
    pub fn to_text(&self, styled: bool) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| visible(&row[column].text).chars().count());
            cells.chain([self.columns[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let pad = |text: &str, column: usize| {
            let space = " ".repeat(widths[column] - text.chars().count());
            if column == 0 { format!("{text}{space}") } else { format!("{space}{text}") }
        };
        let mut text = format!("{}\n", self.title);
        let header: Vec<String> = self.columns.iter().enumerate().map(|(at, name)| pad(name, at)).collect();
        text += &format!("  {}\n", header.join("  "));
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(at, cell)| (cell.emphasis, pad(&visible(&cell.text), at)))
                .map(|(emphasis, text)| match (styled, emphasis) {
                    (true, Emphasis::Best) => format!("\x1b[1m{text}\x1b[0m"),
                    (true, Emphasis::Second) => format!("\x1b[4m{text}\x1b[0m"),
                    _ => text,
                })
                .collect();
            text += &format!("  {}\n", cells.join("  "));
        }
        text
    }

    /// Rows of comma-separated values, the title first in each.
    pub fn to_csv(&self) -> String {
        let quoted = |text: &str| {
            let text = &*csv_safe(text);
            if text.contains([',', '"', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let line = |cells: Vec<String>| format!("{},{}\n", quoted(&self.title), cells.join(","));
        let mut text = line(self.columns.iter().map(|name| quoted(name)).collect());
        for row in &self.rows {
            text += &line(row.iter().map(|cell| quoted(&cell.text)).collect());
        }
        text
    }

    /// A section of a page with a table that its script sorts.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!("<section><h2>{title}</h2>");
        if !self.note.is_empty() {
            html += &format!("<p>{}</p>", escape(&self.note));
        }
        // A table that is wider than the page scrolls, with the keyboard too.
        html += &format!(
            "<div class=\"scroll\" role=\"region\" aria-label=\"{title}\" tabindex=\"0\"><table><thead><tr>"
        );
        for name in &self.columns {
            html += &format!("<th scope=\"col\"><button>{}</button></th>", escape(name));
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            html += "<tr>";
            for (at, cell) in row.iter().enumerate() {
                let value = cell.value.map(|value| format!(" data-value=\"{value}\"")).unwrap_or_default();
                let text = escape(&cell.text);
                let text = match cell.emphasis {
                    Emphasis::None => text,
                    Emphasis::Best => format!("<strong>{text}</strong>"),
                    Emphasis::Second => format!("<u>{text}</u>"),
                };
                let tag = if at == 0 { "th scope=\"row\"" } else { "td" };
                html += &format!("<{tag}{value}>{text}</{}>", &tag[..2]);
            }
            html += "</tr>";
        }
        html + "</tbody></table></div></section>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_and_second_are_marked_as_shown() {
        let mut table =
            Table { title: "a, b".into(), columns: vec!["m".into(), "size".into()], ..Table::default() };
        for value in [2.004, 1.0, 2.001, 3.0] {
            table.rows.push(vec![Cell::text("<x>"), Cell::number(value, 2)]);
        }
        table.rows.push(vec![Cell::text("y"), Cell::text("needs prototypes")]);
        table.mark_smallest(1, 0..5);
        let marks: Vec<Emphasis> = table.rows.iter().map(|row| row[1].emphasis).collect();
        let [best, second, none] = [Emphasis::Best, Emphasis::Second, Emphasis::None];
        assert_eq!(marks, [second, best, second, none, none]);
        assert!(table.to_markdown().contains("| &lt;x> | **1.00** |"));
        assert!(table.to_html().contains("&lt;x&gt;"));
        assert!(table.to_csv().starts_with("\"a, b\",m,size\n"));
        assert!(table.to_text(true).contains("\x1b[1m"));
        assert!(!table.to_text(false).contains('\x1b'));
    }
}
