//! Numbers and words for people: aligned columns, the first to the left, numbers to the right.

use std::io::{self, Write};

use crate::screen::line as line_of;

/// Writes `rows` under `header`, indented by two spaces. A cell stays within its line, whatever is in it.
pub(crate) fn write(out: &mut dyn Write, header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| line_of(cell)).collect()).collect();
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::from(" ");
        for (place, (cell, width)) in cells.zip(&widths).enumerate() {
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            text += if place == 0 { " " } else { "  " };
            text += &if place == 0 { format!("{cell}{padding}") } else { format!("{padding}{cell}") };
        }
        text.trim_end().to_owned()
    };
    writeln!(out, "{}", line(&mut header.iter().copied()))?;
    for row in &rows {
        writeln!(out, "{}", line(&mut row.iter().map(String::as_str)))?;
    }
    Ok(())
}

/// `1 round`, `2 rounds`.
pub(crate) fn rounds(count: usize) -> String {
    counted(count, "round", "rounds")
}

/// `1 class`, `2 classes`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Columns that a terminal has at least.
const WIDTH: usize = 100;

/// Text behind a heading, on as many lines as it takes, each within a terminal's width and indented like the first.
pub(crate) fn paragraph(heading: &str, text: &str) -> String {
    let indent = heading.chars().count();
    let (mut lines, mut line) = (String::new(), heading.to_owned());
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &format!("{line}\n");
            line = " ".repeat(indent);
            empty = true;
        }
        line += &format!("{}{word}", if empty { "" } else { " " });
        empty = false;
    }
    lines + &line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_stays_within_its_line() {
        let mut out = Vec::new();
        write(&mut out, &["name", "n"], &[vec!["two\nlines\tand".into(), "1".into()]]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "  name               n\n  two\\nlines\\tand  1\n");
    }

    #[test]
    fn paragraphs_fit_a_terminal() {
        let text = "word ".repeat(60);
        let told = paragraph("  kernel       ", &text);
        assert_eq!(told.split_whitespace().count(), 61);
        assert!(told.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(told.lines().skip(1).all(|line| line.starts_with("               word")));
        assert_eq!(paragraph("a ", ""), "a ");
    }
}
