//! Tables that are written frame by frame, all with the same columns.

use std::io::Write;

use anyhow::bail;

use super::{Format, Frame, csv};

/// A writer of frames, which keeps none of them in memory.
pub(crate) struct Frames<'w, W: Write + Send> {
    out: Out<'w, W>,
    any: bool,
}

enum Out<'w, W: Write + Send> {
    Csv(&'w mut W),
    #[cfg(feature = "parquet")]
    Parquet(super::parquet::RowGroups<'w, W>),
    Other,
}

impl<'w, W: Write + Send> Frames<'w, W> {
    pub(crate) fn new(out: &'w mut W, format: Format) -> Self {
        let out = match format {
            Format::Csv => Out::Csv(out),
            #[cfg(feature = "parquet")]
            Format::Parquet => Out::Parquet(super::parquet::RowGroups::new(out)),
            _ => Out::Other,
        };
        Self { out, any: false }
    }

    pub(crate) fn write(&mut self, frame: &Frame) -> anyhow::Result<()> {
        match &mut self.out {
            Out::Csv(out) => csv::write(out, frame, !self.any)?,
            #[cfg(feature = "parquet")]
            Out::Parquet(groups) => groups.write(frame)?,
            Out::Other => bail!("this format cannot be written frame by frame"),
        }
        self.any = true;
        Ok(())
    }

    /// Ends the table. Without any frame, the columns are those of `empty`.
    pub(crate) fn finish(mut self, empty: &Frame) -> anyhow::Result<()> {
        if !self.any {
            self.write(empty)?;
        }
        match self.out {
            #[cfg(feature = "parquet")]
            Out::Parquet(groups) => groups.finish(),
            _ => Ok(()),
        }
    }
}
