//! Columns of a Parquet file that are not embeddings: what pictures and texts are embedded from. A field is a value per row, by
//! itself or within a record (`image.bytes`), and comes as bytes: text and binary as they are, integers as they print.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Type;
use parquet::data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type};

use super::Part;
use super::parquet::{Column, Columns};
use crate::error::{Error, Result};

/// What a value takes beside its bytes.
const VALUE: u64 = 32;

/// A Parquet file whose fields are read one by one.
pub struct ParquetFields<'a> {
    columns: Columns<'a>,
}

impl std::fmt::Debug for ParquetFields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetFields").field("path", &self.columns.path).finish_non_exhaustive()
    }
}

impl<'a> ParquetFields<'a> {
    /// Opens a file.
    pub fn open(path: &'a Path) -> Result<Self> {
        let file = super::open::open(path, "parquet")?;
        guarded(path, || Ok(Self { columns: Columns::open(path, file)? }))
    }

    /// The names of all fields: `label`, `image.bytes`.
    pub fn names(&self) -> Vec<String> {
        let leaves = self.columns.metadata.file_metadata().schema_descr().columns().iter();
        leaves.map(|leaf| leaf.path().string()).collect()
    }

    /// What the file says of itself under this key.
    pub fn note(&self, key: &str) -> Option<&str> {
        let notes = self.columns.metadata.file_metadata().key_value_metadata().into_iter().flatten();
        notes.filter(|note| note.key == key).find_map(|note| note.value.as_deref())
    }

    /// The values of a field, `None` where there is none.
    pub fn read(&self, name: &str) -> Result<Vec<Option<Vec<u8>>>> {
        guarded(self.columns.path, || self.decode(name))
    }

    fn decode(&self, name: &str) -> Result<Vec<Option<Vec<u8>>>> {
        let part = Part { path: self.columns.path, name };
        let leaves = self.columns.metadata.file_metadata().schema_descr().columns();
        let place = leaves.iter().position(|leaf| leaf.path().string() == name);
        let Some((place, leaf)) = place.and_then(|place| Some((place, leaves.get(place)?.clone()))) else {
            return Err(part.error("is not there"));
        };
        if leaf.max_rep_level() != 0 {
            return Err(part.error("holds lists; one value per row is needed"));
        }
        let column = Column { place, leaf, alone: true, part };
        let text = |value: &dyn ToString| value.to_string().into_bytes();
        match column.leaf.physical_type() {
            Type::BYTE_ARRAY => self.values::<ByteArrayType>(&column, |value| value.data().to_vec()),
            Type::INT32 => self.values::<Int32Type>(&column, |value| text(value)),
            Type::INT64 => self.values::<Int64Type>(&column, |value| text(value)),
            Type::BOOLEAN => self.values::<BoolType>(&column, |value| text(value)),
            other => Err(part.error(format!("holds {other}; text, bytes or integers are needed"))),
        }
    }

    fn values<T: DataType>(
        &self,
        column: &Column<'_>,
        convert: impl Fn(&T::T) -> Vec<u8>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let full = column.leaf.max_def_level();
        let mut all = Vec::new();
        self.columns.each_batch::<T>(column, |values, definitions, _| {
            let count = values.len();
            let mut values = values.iter();
            let mut push = |there: bool| {
                let value = if there { values.next().map(&convert) } else { None };
                let length = value.as_ref().map_or(0, Vec::len) as u64;
                self.columns.take(column, length + VALUE)?;
                all.push(value);
                Ok(())
            };
            if full == 0 {
                // A field that is always there has no levels.
                for _ in 0..count {
                    push(true)?;
                }
                return Ok(());
            }
            definitions.iter().try_for_each(|&definition| push(definition == full))
        })?;
        self.columns.check_rows(column, all.len())?;
        Ok(all)
    }
}

/// The crate answers some damaged files with a panic; see `parquet`.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Error::format(path, "is damaged: it cannot be decoded. Save it again")))
}
