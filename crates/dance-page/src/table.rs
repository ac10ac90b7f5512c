//! A table in four forms: aligned text, text with a terminal's styles, Markdown, and HTML that sorts.

use std::ops::Range;

use crate::html::escape;
use crate::text::{Align, escape_line, escape_markdown, pad, width};

/// The emphasis of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// The cell looks like all others.
    #[default]
    None,
    /// The cell is the best of its column: bold.
    Best,
    /// The cell is the second of its column: underlined.
    Second,
}

/// A text with the number it stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The text that is shown.
    pub text: String,
    /// The number that a page sorts by; without one it sorts by the text.
    pub value: Option<f64>,
    /// The emphasis of the text.
    pub emphasis: Emphasis,
}

impl Cell {
    /// Makes a cell of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Makes a cell of a number, shown with so many decimals.
    pub fn number(value: f64, decimals: usize) -> Self {
        Self { text: format!("{value:.decimals$}"), value: Some(value), emphasis: Emphasis::None }
    }

    /// Makes a cell of text that sorts as a number if it is one.
    pub fn parsed(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { value: text.parse().ok(), ..Self::text(text) }
    }

    /// Returns the number that is shown, which begins the text (`0.95 ± 0.01`); it may be rounded.
    fn shown_number(&self) -> Option<f64> {
        self.text.split(' ').next()?.parse().ok()
    }
}

/// Rows of cells under named columns, with a title and a note.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The title; empty for none.
    pub title: String,
    /// A text that explains the table; empty for none.
    pub note: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Makes a table of text without a title; cells that are numbers sort as numbers.
    pub fn from_text<Row>(
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Row>,
    ) -> Self
    where
        Row: IntoIterator<Item: Into<String>>,
    {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().map(|row| row.into_iter().map(Cell::parsed).collect()).collect(),
            ..Self::default()
        }
    }

    /// Returns the table without the columns of these names.
    pub fn without(mut self, names: &[&str]) -> Self {
        let kept: Vec<bool> = self.columns.iter().map(|name| !names.contains(&name.as_str())).collect();
        let mut flags = kept.iter();
        self.columns.retain(|_| flags.next() == Some(&true));
        for row in &mut self.rows {
            let mut flags = kept.iter();
            row.retain(|_| flags.next() == Some(&true));
        }
        self
    }

    /// Marks the smallest number of a column among `rows` as the best, and the next as the second.
    ///
    /// Numbers are compared as they are shown: those that look alike are equally good.
    pub fn mark_smallest(&mut self, column: usize, rows: Range<usize>) {
        let numbers = self.rows[rows.clone()].iter().filter(|row| row[column].value.is_some());
        let mut shown: Vec<f64> = numbers.filter_map(|row| row[column].shown_number()).collect();
        shown.sort_by(f64::total_cmp);
        shown.dedup();
        for row in &mut self.rows[rows] {
            row[column].emphasis = match row[column].shown_number() {
                Some(number) if shown.first() == Some(&number) => Emphasis::Best,
                Some(number) if shown.get(1) == Some(&number) => Emphasis::Second,
                _ => Emphasis::None,
            };
        }
    }

    /// Returns the table as Markdown, with the title as a heading.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        if !self.note.is_empty() {
            text += &format!("{}\n\n", self.note);
        }
        text += &format!("| {} |\n|{}\n", self.columns.join(" | "), "---|".repeat(self.columns.len()));
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell.emphasis {
                Emphasis::None => escape_markdown(&cell.text),
                Emphasis::Best => format!("**{}**", escape_markdown(&cell.text)),
                Emphasis::Second => format!("<u>{}</u>", escape_markdown(&cell.text)),
            });
            text += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        }
        text
    }

    /// Returns lines of aligned columns, indented by two spaces, below the title.
    ///
    /// The first column stands left, the others right. Control characters are written out.
    pub fn to_text(&self) -> String {
        self.aligned(|padded, _| padded)
    }

    /// Returns [`Table::to_text`] with the escape sequences of a terminal for bold and underline.
    pub fn to_styled_text(&self) -> String {
        self.aligned(|padded, emphasis| match emphasis {
            Emphasis::None => padded,
            Emphasis::Best => format!("\x1b[1m{padded}\x1b[0m"),
            Emphasis::Second => format!("\x1b[4m{padded}\x1b[0m"),
        })
    }

    /// Aligns the columns; `style` is given every padded cell.
    fn aligned(&self, style: impl Fn(String, Emphasis) -> String) -> String {
        let header = self.columns.iter().map(|name| (escape_line(name), Emphasis::None)).collect();
        let body =
            self.rows.iter().map(|row| row.iter().map(|cell| (escape_line(&cell.text), cell.emphasis)).collect());
        let lines: Vec<Vec<(String, Emphasis)>> = std::iter::once(header).chain(body).collect();

        // A column is as wide as its widest cell.
        let mut widths = vec![0; self.columns.len()];
        for line in &lines {
            for (widest, (text, _)) in widths.iter_mut().zip(line) {
                *widest = width(text).max(*widest);
            }
        }

        let mut text = if self.title.is_empty() { String::new() } else { format!("{}\n", escape_line(&self.title)) };
        for line in lines {
            let cells = line.into_iter().zip(&widths).enumerate().map(|(place, ((text, emphasis), &columns))| {
                style(pad(&text, columns, if place == 0 { Align::Left } else { Align::Right }), emphasis)
            });
            let line = format!("  {}", cells.collect::<Vec<_>>().join("  "));
            text += &format!("{}\n", line.trim_end());
        }
        text
    }

    /// Returns a section of a page with a table that the page's script sorts.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!("<section><h2>{title}</h2>");
        if !self.note.is_empty() {
            html += &format!("<p>{}</p>", escape(&self.note));
        }
        // A table that is wider than the page scrolls, with the keyboard too.
        html +=
            &format!("<div class=\"scroll\" role=\"region\" aria-label=\"{title}\" tabindex=\"0\"><table><thead><tr>");
        for name in &self.columns {
            html += &format!("<th scope=\"col\"><button>{}</button></th>", escape(name));
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            html += "<tr>";
            for (place, cell) in row.iter().enumerate() {
                let value = cell.value.map(|value| format!(" data-value=\"{value}\"")).unwrap_or_default();
                let text = escape(&cell.text);
                let text = match cell.emphasis {
                    Emphasis::None => text,
                    Emphasis::Best => format!("<strong>{text}</strong>"),
                    Emphasis::Second => format!("<u>{text}</u>"),
                };
                // The first cell names its row.
                let tag = if place == 0 { "th scope=\"row\"" } else { "td" };
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
        let mut table = Table { title: "a, b".into(), columns: vec!["m".into(), "size".into()], ..Table::default() };
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
        assert!(table.to_styled_text().contains("\x1b[1m"));
        assert!(!table.to_text().contains('\x1b'));
    }

    #[test]
    fn a_cell_stays_within_its_line() {
        let table = Table::from_text(["name", "n"], [["two\nlines\tand", "1"]]);
        assert_eq!(table.to_text(), "  name             n\n  two\\nlines\\tand  1\n");
    }

    #[test]
    fn columns_are_left_out_by_name() {
        let table = Table::from_text(["a", "b", "c"], [["1", "2", "3"]]).without(&["b"]);
        assert_eq!(table, Table::from_text(["a", "c"], [["1", "3"]]));
    }
}
