//! Escaping of text in CSV cells. Spreadsheets run a cell that starts with `=`, `+`, `-` or `@` as a formula, unless an
//! apostrophe precedes it. Cells written with the apostrophe are read back without it.

use std::borrow::Cow;

fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err()
}

/// Escapes a text for a cell: a spreadsheet formula gets an apostrophe in front.
pub fn csv_safe(text: &str) -> Cow<'_, str> {
    // A formula that already has an apostrophe gets another, since reading removes one.
    if is_formula(text) || text.strip_prefix('\'').is_some_and(|rest| is_formula(rest.trim_start_matches('\''))) {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the text of a cell without the apostrophe that [`csv_safe`] may have added.
pub(super) fn unescape(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_formula(text.trim_start_matches('\'')) => text,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_escaped_and_restored() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("@cmd", "'@cmd"),
            ("-x", "'-x"),
            ("+a", "'+a"),
            ("'=1", "''=1"),
            ("-1", "-1"),
            ("+2.5", "+2.5"),
            ("cat", "cat"),
            ("'t is", "'t is"),
            ("", ""),
        ] {
            assert_eq!(csv_safe(text), cell);
            assert_eq!(unescape(&csv_safe(text)), text);
        }
    }
}
