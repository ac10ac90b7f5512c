//! Text for people, on stdout and stderr: the one place through which it goes. Names of classes, ids, cells and files come
//! from anywhere, and a control character among them would reach the terminal as a command, so they are written out.

use std::io::{self, Write};

use dance_bench::text::visible;

/// Writes text with its control characters made visible.
pub(crate) struct Screen<W>(pub(crate) W);

/// A name within a line: what would begin another line, or jump in this one, is written out too.
pub(crate) fn line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Stdout: as it is for JSON, which has escapes of its own, and made harmless for people.
pub(crate) fn out(json: bool) -> Box<dyn Write> {
    let out = io::stdout().lock();
    if json { Box::new(out) } else { Box::new(Screen(out)) }
}

impl<W: Write> Write for Screen<W> {
    /// Takes whole characters: `write!` and `writeln!` hand them over so.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(visible(&String::from_utf8_lossy(bytes)).as_bytes())?;
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
    fn what_is_written_is_shown_and_not_obeyed() {
        let mut out = Vec::new();
        let name = "x\x1b[2J";
        write!(Screen(&mut out), "{name}: {}", 3).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "x\\x1b[2J: 3");
    }
}
