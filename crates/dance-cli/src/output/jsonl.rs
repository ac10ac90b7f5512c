//! JSON lines output: one object per row, with the columns in their order.

use std::io::Write;

use serde_json::Value;

use super::{Column, Frame, offsets};

pub(super) fn write(out: &mut impl Write, frame: &Frame) -> anyhow::Result<()> {
    let begins: Vec<Vec<usize>> = frame
        .columns
        .iter()
        .map(
            |(_, column)| {
                if let (Column::Lists(_, lengths), _) = column.parts() { offsets(lengths) } else { Vec::new() }
            },
        )
        .collect();
    for row in 0..frame.rows() {
        for (place, (name, column)) in frame.columns.iter().enumerate() {
            write!(out, "{}\"{name}\":", if place == 0 { "{" } else { "," })?;
            let (column, there) = column.parts();
            match column {
                _ if there.is_some_and(|there| !there[row]) => write!(out, "null")?,
                Column::Partly(..) => {} // `parts` has unwrapped it
                Column::Flat(cells) => write!(out, "{}", cells.json(row))?,
                Column::Lists(cells, _) => {
                    let list = (begins[place][row]..begins[place][row + 1]).map(|at| cells.json(at));
                    write!(out, "{}", Value::from(list.collect::<Vec<_>>()))?;
                }
                Column::Vectors(matrix) => serde_json::to_writer(&mut *out, matrix.row(row))?,
            }
        }
        writeln!(out, "}}")?;
    }
    out.flush()?;
    Ok(())
}
