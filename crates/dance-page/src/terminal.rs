//! Output to terminals. Class names, ids and file names may hold control characters, so all text for people passes
//! through one writer that escapes them.

use std::io::{self, Write};

use crate::text::escape_controls;

/// A writer that escapes control characters before it passes text on.
#[derive(Debug)]
pub struct Terminal<W>(pub W);

/// Opens stdout: escaped for people or, if `raw`, unchanged for JSON, which has escapes of its own.
pub fn stdout(raw: bool) -> Box<dyn Write> {
    let out = io::stdout().lock();
    if raw { Box::new(out) } else { Box::new(Terminal(out)) }
}

impl<W: Write> Write for Terminal<W> {
    /// Writes whole characters: `write!` and `writeln!` never cut one.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(escape_controls(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        let mut out = Vec::new();
        let name = "x\x1b[2J";
        write!(Terminal(&mut out), "{name}: {}", 3).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "x\\x1b[2J: 3");
    }
}
