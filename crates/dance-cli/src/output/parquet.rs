//! Parquet: one column for every column, lists as lists.

use std::io::Write;

use anyhow::bail;
use dance::data::Frame;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

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
    Yes(Box<ArrowWriter<&'w mut W>>),
    Failed,
}

impl<'w, W: Write + Send> RowGroups<'w, W> {
    pub(super) fn new(out: &'w mut W) -> Self {
        Self { begun: Begun::No(out) }
    }

    /// The first frame says what the columns are, and what holds for all rows.
    pub(super) fn write(&mut self, frame: &Frame) -> anyhow::Result<()> {
        let batch = frame.record_batch()?;
        let mut writer = match std::mem::replace(&mut self.begun, Begun::Failed) {
            Begun::No(out) => {
                let notes =
                    frame.notes.iter().map(|(key, text)| KeyValue::new((*key).to_owned(), text.clone()));
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_key_value_metadata(Some(notes.collect()))
                    .build();
                let options =
                    ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
                Box::new(ArrowWriter::try_new_with_options(out, batch.schema(), options)?)
            }
            Begun::Yes(writer) => writer,
            Begun::Failed => bail!("the file could not be written before"),
        };
        writer.write(&batch)?;
        writer.flush()?;
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
