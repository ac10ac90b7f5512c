//! Text for people: escaped control characters, widths in terminal columns, wrapped lines.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The width of paragraphs, in columns.
pub const COLUMNS: usize = 100;

/// Replaces control characters by escapes such as `\x1b`, except tabs and line ends.
///
/// Terminals execute control characters, and ids and class names from files may hold any.
pub fn escape_controls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            // Characters that change the reading direction rewrite their neighbors.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => shown.extend(character.escape_unicode()),
            _ if character.is_control() => shown += &format!("\\x{:02x}", character as u32),
            _ => shown.push(character),
        }
    }
    shown
}

/// Replaces control characters by escapes, tabs and line ends too, so that the text stays within its line.
pub fn escape_line(text: &str) -> String {
    escape_controls(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Escapes text for a cell of a Markdown table: it neither ends the cell nor becomes HTML.
pub(crate) fn escape_markdown(text: &str) -> String {
    escape_controls(text).replace('\n', " ").replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|")
}

/// Returns the columns that text takes on a terminal: two for an East Asian ideograph, none for a combining accent.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The side of its column to which text is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To the left, for words.
    Left,
    /// To the right, for numbers.
    Right,
}

/// Fills text with spaces to so many columns; longer text stays as it is.
pub fn pad(text: &str, columns: usize, align: Align) -> String {
    let spaces = " ".repeat(columns.saturating_sub(width(text)));
    match align {
        Align::Left => format!("{text}{spaces}"),
        Align::Right => format!("{spaces}{text}"),
    }
}

/// Cuts text to so many columns, the last of which is then an ellipsis.
pub fn truncate(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut kept = String::new();
    let mut used = 1; // the ellipsis
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > columns {
            break;
        }
        kept.push(character);
    }
    Cow::Owned(kept + "…")
}

/// Wraps text behind a heading: lines of at most [`COLUMNS`], the further ones indented by the heading's width.
pub fn paragraph(heading: &str, text: &str) -> String {
    let indent = width(heading);
    let (mut lines, mut line) = (String::new(), heading.to_owned());
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && width(&line) + 1 + width(word) > COLUMNS {
            lines += &format!("{line}\n");
            line = " ".repeat(indent);
            empty = true;
        }
        line += &format!("{}{word}", if empty { "" } else { " " });
        empty = false;
    }
    lines + &line
}

/// Returns a number with its noun: `1 class`, `2 classes`.
pub fn pluralize(number: usize, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(
            escape_controls("a\x1b]0;owned\x07b\n\tc\r\x7f\u{9b}31m"),
            "a\\x1b]0;owned\\x07b\n\tc\\x0d\\x7f\\x9b31m"
        );
        assert_eq!(escape_controls("µ–é\u{202e}"), "µ–é\\u{202e}");
        assert_eq!(escape_line("a\tb\nc"), "a\\tb\\nc");
        assert_eq!(escape_markdown("a|b\n<img src=x>"), "a\\|b &lt;img src=x>");
    }

    #[test]
    fn widths_are_those_of_a_terminal() {
        assert_eq!(["cat", "犬", "e\u{301}", ""].map(width), [3, 2, 1, 0]);
        assert_eq!(pad("犬", 4, Align::Right), "  犬");
        assert_eq!(pad("犬", 1, Align::Left), "犬");
    }

    #[test]
    fn truncated_text_fits() {
        assert_eq!(truncate("cats", 4), "cats");
        assert_eq!(truncate("kittens", 4), "kit…");
        assert_eq!(truncate("犬犬犬", 4), "犬…");
        assert_eq!(truncate("犬", 1), "…");
    }

    #[test]
    fn paragraphs_fit_a_terminal() {
        let text = "word ".repeat(60);
        let wrapped = paragraph("  kernel       ", &text);
        assert_eq!(wrapped.split_whitespace().count(), 61);
        assert!(wrapped.lines().all(|line| width(line) <= COLUMNS));
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with("               word")));
        assert_eq!(paragraph("a ", ""), "a ");
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!(pluralize(1, "data set", "data sets"), "1 data set");
        assert_eq!(pluralize(0, "class", "classes"), "0 classes");
    }
}
