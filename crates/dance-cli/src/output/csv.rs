//! CSV: a list is a JSON array in its cell, vectors take one column per dimension. A text that a spreadsheet would run as a
//! formula gets an apostrophe in front.

use std::io::Write;

use dance::data::io::csv_safe;
use serde_json::json;

use super::{Column, Frame};

pub(super) fn write(out: &mut impl Write, frame: &Frame) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let mut header = Vec::new();
    for (name, column) in &frame.columns {
        match column {
            Column::Vectors(matrix) => header.extend((0..matrix.cols()).map(|at| format!("x{at}"))),
            _ => header.push((*name).to_owned()),
        }
    }
    writer.write_record(&header)?;
    for row in 0..frame.rows() {
        for (_, column) in &frame.columns {
            match column {
                Column::Integers(values) => writer.write_field(values[row].to_string())?,
                Column::Numbers(values) => writer.write_field(values[row].to_string())?,
                Column::Texts(values) => writer.write_field(&*csv_safe(&values[row]))?,
                Column::TextLists(values) => writer.write_field(json!(values[row]).to_string())?,
                Column::NumberLists(values) => writer.write_field(json!(values[row]).to_string())?,
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
