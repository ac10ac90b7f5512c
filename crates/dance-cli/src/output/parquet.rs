//! Parquet: one column for every column, lists as lists. Written without Arrow, as files are read (see the library's reader).

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::{Column, Frame};

pub(super) fn write(out: &mut (impl Write + Send), frame: &Frame) -> anyhow::Result<()> {
    let fields: String = frame.columns.iter().map(|(name, column)| field(name, column)).collect();
    let schema = Arc::new(parse_message_type(&format!("message schema {{ {fields}}}"))?);
    let notes = frame.notes.iter().map(|(key, text)| KeyValue::new((*key).to_owned(), text.clone()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(notes.collect()))
        .build();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let mut columns = frame.columns.iter();
    while let Some(mut place) = group.next_column()? {
        let Some((_, column)) = columns.next() else { break };
        match column {
            Column::Integers(values) => flat::<Int64Type>(&mut place, values)?,
            Column::Numbers(values) => flat::<DoubleType>(&mut place, values)?,
            Column::Texts(values) => flat::<ByteArrayType>(&mut place, &texts(values))?,
            Column::TextLists(lists) => {
                let values: Vec<ByteArray> = lists.iter().flat_map(|list| texts(list)).collect();
                nested::<ByteArrayType>(&mut place, &values, lists.iter().map(Vec::len))?;
            }
            Column::NumberLists(lists) => {
                nested::<DoubleType>(&mut place, &lists.concat(), lists.iter().map(Vec::len))?;
            }
            Column::Vectors(matrix) => {
                let lengths = std::iter::repeat_n(matrix.cols(), matrix.rows());
                nested::<FloatType>(&mut place, matrix.as_slice(), lengths)?;
            }
        }
        place.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

fn field(name: &str, column: &Column) -> String {
    let list = |kind: &str| {
        format!("required group {name} (LIST) {{ repeated group list {{ required {kind}; }} }} ")
    };
    match column {
        Column::Integers(_) => format!("required int64 {name}; "),
        Column::Numbers(_) => format!("required double {name}; "),
        Column::Texts(_) => format!("required binary {name} (UTF8); "),
        Column::TextLists(_) => list("binary element (UTF8)"),
        Column::NumberLists(_) => list("double element"),
        Column::Vectors(_) => list("float element"),
    }
}

fn texts(values: &[String]) -> Vec<ByteArray> {
    values.iter().map(|text| ByteArray::from(text.as_str())).collect()
}

fn flat<T: DataType>(place: &mut SerializedColumnWriter<'_>, values: &[T::T]) -> anyhow::Result<()> {
    place.typed::<T>().write_batch(values, None, None)?;
    Ok(())
}

/// Lists: definition level 0 is an empty list, repetition level 0 begins a row.
fn nested<T: DataType>(
    place: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    lengths: impl Iterator<Item = usize>,
) -> anyhow::Result<()> {
    let (mut definition, mut repetition) = (Vec::new(), Vec::new());
    for length in lengths {
        definition.extend(std::iter::repeat_n(i16::from(length > 0), length.max(1)));
        repetition.push(0);
        repetition.extend(std::iter::repeat_n(1, length.saturating_sub(1)));
    }
    place.typed::<T>().write_batch(values, Some(&definition), Some(&repetition))?;
    Ok(())
}
