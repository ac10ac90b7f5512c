//! Text from anywhere (names of classes, ids, file names), made harmless where it is shown.

/// The text with every control character but tabs and ends of lines written out (`\x1b`): a terminal would obey them.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            // Letters that turn the reading direction rewrite what stands beside them.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => shown.extend(character.escape_unicode()),
            _ if character.is_control() => shown += &format!("\\x{:02x}", character as u32),
            _ => shown.push(character),
        }
    }
    shown
}

/// The text of a cell of a Markdown table, which neither ends the cell nor becomes HTML.
pub fn markdown(text: &str) -> String {
    visible(text).replace('\n', " ").replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|")
}

/// A number with what is counted: `1 seed`, `5 seeds`.
pub fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!((counted(1, "data set"), counted(0, "seed")), ("1 data set".into(), "0 seeds".into()));
    }

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(
            visible("a\x1b]0;owned\x07b\n\tc\r\x7f\u{9b}31m"),
            "a\\x1b]0;owned\\x07b\n\tc\\x0d\\x7f\\x9b31m"
        );
        assert_eq!(visible("µ–é\u{202e}"), "µ–é\\u{202e}");
        assert_eq!(markdown("a|b\n<img src=x>"), "a\\|b &lt;img src=x>");
    }
}
