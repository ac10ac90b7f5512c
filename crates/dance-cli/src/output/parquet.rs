//! Parquet output: one Parquet column for every column; lists are lists.

use std::io::Write;

use anyhow::bail;
use dance_page::frame::Frame;
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

/// A file whose frames are row groups.
pub(super) struct RowGroups<'w, W: Write + Send> {
    state: State<'w, W>,
}

/// The state of the file: its columns are known after the first frame.
enum State<'w, W: Write + Send> {
    Empty(&'w mut W),
    Begun(Box<ArrowWriter<&'w mut W>>),
    Failed,
}

impl<'w, W: Write + Send> RowGroups<'w, W> {
    pub(super) fn new(out: &'w mut W) -> Self {
        Self { state: State::Empty(out) }
    }

    /// Writes a frame. The first one defines the columns and the notes of the file.
    pub(super) fn write(&mut self, frame: &Frame) -> anyhow::Result<()> {
        let batch = frame.record_batch()?;
        let mut writer = match std::mem::replace(&mut self.state, State::Failed) {
            State::Empty(out) => {
                let notes = frame.notes.iter().map(|(key, text)| KeyValue::new((*key).to_owned(), text.clone()));
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_key_value_metadata(Some(notes.collect()))
                    .build();
                let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
                Box::new(ArrowWriter::try_new_with_options(out, batch.schema(), options)?)
            }
            State::Begun(writer) => writer,
            State::Failed => bail!("an earlier frame could not be written"),
        };
        writer.write(&batch)?;
        writer.flush()?;
        self.state = State::Begun(writer);
        Ok(())
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        if let State::Begun(writer) = self.state {
            writer.close()?;
        }
        Ok(())
    }
}
