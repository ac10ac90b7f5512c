//! The readers that only the binary has, for the fuzz targets: any bytes give a value or an error.

use std::path::Path;

use dance::data::PointShape;
use dance::data::io::{JsonKeys, ReadOptions};

use crate::config_file;
use crate::stream::{Next, Points};

/// Bytes as a stream of JSON lines for a model of so many dimensions: every line is answered or refused, in the order of the
/// lines, and what is answered has finite numbers.
pub fn json_lines(bytes: &[u8], dimensions: usize) {
    let shape = PointShape { dimensions, directed: true };
    let mut points =
        Points::new(bytes, "fuzz".into(), JsonKeys::from(&ReadOptions::default()), shape).with_labels();
    let (mut rows, mut last) = (0, 0);
    let mut comes = |row: usize, line: usize| {
        assert!(row == rows && line > last, "row {row}, line {line} after {rows} rows, line {last}");
        (rows, last) = (row + 1, line);
    };
    while let Ok(next) = points.next() {
        match next {
            Next::Points(group) => {
                assert!(group.ids.len() == group.lines.len() && group.points.cols() == dimensions);
                assert!(group.points.as_slice().iter().all(|value| value.is_finite()));
                for (place, &line) in group.lines.iter().enumerate() {
                    comes(group.first + place, line);
                }
            }
            Next::Told(told) => comes(told.row, told.line),
            Next::Bad(bad) => comes(bad.row, bad.line.unwrap_or_default()),
            Next::End => break,
        }
    }
    let text = bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    assert_eq!(rows, text.count());
}

/// The options in a file, for a command.
pub fn options(command: &str, file: &Path) {
    let _ = config_file::from_file(&["dance".into(), command.into(), "--config".into(), file.into()]);
}
