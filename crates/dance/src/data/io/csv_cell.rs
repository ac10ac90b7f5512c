//! Text in the cells of a CSV file. Spreadsheets take a cell that begins with `=`, `+`, `-` or `@` for a formula and run it; a
//! leading apostrophe makes it text again. What we write so, we read back as it was.

use std::borrow::Cow;

fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err()
}

/// The text of a cell as it may be written: with an apostrophe before what a spreadsheet would run.
pub fn csv_safe(text: &str) -> Cow<'_, str> {
    // An apostrophe that was there would be taken for ours.
    if is_formula(text)
        || text.strip_prefix('\'').is_some_and(|rest| is_formula(rest.trim_start_matches('\'')))
    {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// What [`csv_safe`] was given.
pub(super) fn restored(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_formula(text.trim_start_matches('\'')) => text,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text_and_come_back() {
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
            assert_eq!(restored(&csv_safe(text)), text);
        }
    }
}
