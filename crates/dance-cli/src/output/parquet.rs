//! Parquet: one column for every column, lists as lists. Written without Arrow, as files are read (see the library's reader).

use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::frame::Cells;
use super::{Column, Frame};

pub(super) fn write(out: &mut (impl Write + Send), frame: &Frame) -> anyhow::Result<()> {
    let mut groups = RowGroups::new(out);
    groups.write(frame)?;
    groups.finish()
}

/// A file that is written in frames, each a row group.
pub(super) struct RowGroups<'w, W: Write + Send> {
    begun: Begun<'w, W>,
}

enum Begun<'w, W: Write + Send> {
    No(&'w mut W),
    Yes(SerializedFileWriter<&'w mut W>),
    Failed,
}

impl<'w, W: Write + Send> RowGroups<'w, W> {
    pub(super) fn new(out: &'w mut W) -> Self {
        Self { begun: Begun::No(out) }
    }

    pub(super) fn write(&mut self, frame: &Frame) -> anyhow::Result<()> {
        let mut writer = match std::mem::replace(&mut self.begun, Begun::Failed) {
            Begun::No(out) => begin(out, frame)?,
            Begun::Yes(writer) => writer,
            Begun::Failed => bail!("the file could not be written before"),
        };
        write_group(&mut writer, frame)?;
        self.begun = Begun::Yes(writer);
        Ok(())
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        if let Begun::Yes(writer) = self.begun {
            writer.close()?;
        }
        Ok(())
    }
}

/// The first frame says what the columns are, and what holds for all rows.
fn begin<W: Write + Send>(out: W, frame: &Frame) -> anyhow::Result<SerializedFileWriter<W>> {
    let fields: String = frame.columns.iter().map(|(name, column)| field(name, column)).collect();
    let schema = Arc::new(parse_message_type(&format!("message schema {{ {fields}}}"))?);
    let notes = frame.notes.iter().map(|(key, text)| KeyValue::new((*key).to_owned(), text.clone()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(notes.collect()))
        .build();
    Ok(SerializedFileWriter::new(out, schema, Arc::new(properties))?)
}

fn write_group<W: Write + Send>(writer: &mut SerializedFileWriter<W>, frame: &Frame) -> anyhow::Result<()> {
    let mut group = writer.next_row_group()?;
    let mut columns = frame.columns.iter();
    while let Some(mut place) = group.next_column()? {
        let Some((_, column)) = columns.next() else { break };
        match column {
            Column::Flat(cells) => write_cells(&mut place, cells, None)?,
            Column::Lists(cells, lengths) => {
                write_cells(&mut place, cells, Some(&levels(lengths.iter().copied())))?;
            }
            Column::Vectors(matrix) => {
                let levels = levels(std::iter::repeat_n(matrix.cols(), matrix.rows()));
                write_values::<FloatType>(&mut place, matrix.as_slice(), Some(&levels))?;
            }
        }
        place.close()?;
    }
    group.close()?;
    Ok(())
}

fn field(name: &str, column: &Column) -> String {
    let kind = |cells: &Cells, name: &str| match cells {
        Cells::Integers(_) => format!("int64 {name}"),
        Cells::Numbers(_) => format!("double {name}"),
        Cells::Booleans(_) => format!("boolean {name}"),
        Cells::Texts(_) => format!("binary {name} (UTF8)"),
    };
    let list = |kind: &str| {
        format!("required group {name} (LIST) {{ repeated group list {{ required {kind}; }} }} ")
    };
    match column {
        Column::Flat(cells) => format!("required {}; ", kind(cells, name)),
        Column::Lists(cells, _) => list(&kind(cells, "element")),
        Column::Vectors(_) => list("float element"),
    }
}

/// Definition and repetition levels of lists: definition level 0 is an empty list, repetition level 0 begins a row.
type Levels = (Vec<i16>, Vec<i16>);

fn levels(lengths: impl Iterator<Item = usize>) -> Levels {
    let (mut definition, mut repetition) = (Vec::new(), Vec::new());
    for length in lengths {
        definition.extend(std::iter::repeat_n(i16::from(length > 0), length.max(1)));
        repetition.push(0);
        repetition.extend(std::iter::repeat_n(1, length.saturating_sub(1)));
    }
    (definition, repetition)
}

fn write_cells(
    place: &mut SerializedColumnWriter<'_>,
    cells: &Cells,
    levels: Option<&Levels>,
) -> anyhow::Result<()> {
    match cells {
        Cells::Integers(values) => write_values::<Int64Type>(place, values, levels),
        Cells::Numbers(values) => write_values::<DoubleType>(place, values, levels),
        Cells::Booleans(values) => write_values::<BoolType>(place, values, levels),
        Cells::Texts(values) => {
            let texts: Vec<ByteArray> = values.iter().map(|text| ByteArray::from(text.as_str())).collect();
            write_values::<ByteArrayType>(place, &texts, levels)
        }
    }
}

fn write_values<T: DataType>(
    place: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&Levels>,
) -> anyhow::Result<()> {
    let (definition, repetition) =
        levels.map(|(definition, repetition)| (&definition[..], &repetition[..])).unzip();
    place.typed::<T>().write_batch(values, definition, repetition)?;
    Ok(())
}
