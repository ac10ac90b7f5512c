//! Readers of the binary, for the fuzz targets: any bytes give a value or an error.

use std::path::Path;

use dance::data::PointShape;
use dance::data::io::ReadOptions;

use crate::config_file;
use crate::json_lines::{Next, Points};

/// Reads bytes as JSON lines for a model with `dimensions`, and asserts that every line is a point with finite numbers,
/// a label or a refusal, in the order of the lines.
pub fn json_lines(bytes: &[u8], dimensions: usize) {
    let shape = PointShape { dimensions, directed: true };
    let mut points = Points::new(bytes, "fuzz".into(), ReadOptions::default(), shape).with_late_labels();
    let (mut rows, mut last) = (0, 0);
    let mut check_place = |row: usize, line: usize| {
        assert!(row == rows && line > last, "row {row}, line {line} after {rows} rows, line {last}");
        (rows, last) = (row + 1, line);
    };
    while let Ok(next) = points.next() {
        match next {
            Next::Points(group) => {
                assert!(group.ids.len() == group.lines.len() && group.points.cols() == dimensions);
                assert!(group.points.as_slice().iter().all(|value| value.is_finite()));
                for (place, &line) in group.lines.iter().enumerate() {
                    check_place(group.first + place, line);
                }
            }
            Next::Label(label) => check_place(label.row, label.line),
            Next::Invalid(refusal) => check_place(refusal.row, refusal.line.unwrap_or_default()),
            Next::End => break,
        }
    }
    let text = bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    assert_eq!(rows, text.count());
}

/// Reads a file of options for a command.
pub fn options(command: &str, file: &Path) {
    let _ = config_file::from_file(&["dance".into(), command.into(), "--config".into(), file.into()]);
}
