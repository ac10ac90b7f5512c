//! CSV output: a list is a JSON array in its cell, and a vector has one column per dimension. A text that a spreadsheet
//! would run as a formula gets an apostrophe in front.

use std::io::Write;

use dance::data::io::csv_safe;
use serde_json::Value;

use super::{Cells, Column, Frame, offsets};

pub(super) fn write(out: &mut impl Write, frame: &Frame, with_header: bool) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let (mut header, mut begins) = (Vec::new(), Vec::new());
    for (name, column) in &frame.columns {
        let (column, _) = column.parts();
        match column {
            Column::Vectors(matrix) => header.extend((0..matrix.cols()).map(|at| format!("x{at}"))),
            _ => header.push((*name).to_owned()),
        }
        begins.push(if let Column::Lists(_, lengths) = column { offsets(lengths) } else { Vec::new() });
    }
    if with_header {
        writer.write_record(&header)?;
    }
    for row in 0..frame.rows() {
        for ((_, column), begins) in frame.columns.iter().zip(&begins) {
            let (column, there) = column.parts();
            if there.is_some_and(|there| !there[row]) {
                writer.write_field("")?;
                continue;
            }
            match column {
                Column::Flat(Cells::Texts(values)) => writer.write_field(&*csv_safe(&values[row]))?,
                Column::Flat(Cells::Integers(values)) => writer.write_field(values[row].to_string())?,
                Column::Flat(Cells::Numbers(values)) => writer.write_field(values[row].to_string())?,
                // Python's names of booleans, which are also the names of such labels.
                Column::Flat(Cells::Booleans(values)) => {
                    writer.write_field(if values[row] { "True" } else { "False" })?;
                }
                Column::Lists(cells, _) => {
                    let list = (begins[row]..begins[row + 1]).map(|at| cells.json(at));
                    writer.write_field(Value::from(list.collect::<Vec<_>>()).to_string())?;
                }
                Column::Partly(..) => {} // `parts` has unwrapped it
                Column::Vectors(matrix) => {
                    for value in matrix.row(row) {
                        writer.write_field(value.to_string())?;
                    }
                }
            }
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()?;
    Ok(())
}
