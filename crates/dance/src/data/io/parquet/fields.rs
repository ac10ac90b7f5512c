//! Fields of a Parquet file, such as pictures and texts to embed. A field has one value per row, at the top level or
//! within a record (`image.bytes`). Values are returned as bytes: text and binary unchanged, integers and booleans as
//! they are printed.

use std::path::Path;

use parquet::basic::Type;
use parquet::data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type};

use crate::data::io::FilePart;
use crate::data::io::parquet::cursor::{Column, ColumnCursor, ParquetFile};
use crate::data::io::parquet::guard::catch_panics;
use crate::error::Result;

/// The number of bytes of memory that a field's value takes in addition to its contents.
const VALUE: u64 = 32;

/// A Parquet file whose fields are read one by one. A field has one value per row, at the top level or within a record,
/// as `image.bytes` has.
pub struct ParquetFields {
    file: ParquetFile,
}

impl std::fmt::Debug for ParquetFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetFields").field("path", &self.file.path).finish_non_exhaustive()
    }
}

impl ParquetFields {
    /// Opens a Parquet file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = crate::data::io::open::open(path, "parquet")?;
        catch_panics(path, || Ok(Self { file: ParquetFile::open(path, file)? }))
    }

    /// Returns the names of all fields, such as `label` and `image.bytes`.
    pub fn names(&self) -> Vec<String> {
        let leaves = self.file.metadata.file_metadata().schema_descr().columns().iter();
        leaves.map(|leaf| leaf.path().string()).collect()
    }

    /// Returns the text under this `key` in the file's metadata, if there is one.
    pub fn note(&self, key: &str) -> Option<&str> {
        self.file.note(key)
    }

    /// Reads the values of the field `name`, one per row; `None` is a null.
    pub fn read(&self, name: &str) -> Result<Vec<Option<Vec<u8>>>> {
        catch_panics(&self.file.path, || self.decode(name))
    }

    fn decode(&self, name: &str) -> Result<Vec<Option<Vec<u8>>>> {
        let part = FilePart { path: &self.file.path, name };
        let leaves = self.file.metadata.file_metadata().schema_descr().columns();
        let place = leaves.iter().position(|leaf| leaf.path().string() == name);
        let Some((place, leaf)) = place.and_then(|place| Some((place, leaves.get(place)?.clone()))) else {
            return Err(part.error("is not a field of the file"));
        };
        if leaf.max_rep_level() != 0 {
            return Err(part.error("holds lists; one value per row is needed"));
        }
        let column = Column { place, leaf, only: true, name: name.to_owned() };
        let text = |value: &dyn ToString| value.to_string().into_bytes();
        match column.leaf.physical_type() {
            Type::BYTE_ARRAY => self.values::<ByteArrayType>(column, |value| value.data().to_vec()),
            Type::INT32 => self.values::<Int32Type>(column, |value| text(value)),
            Type::INT64 => self.values::<Int64Type>(column, |value| text(value)),
            Type::BOOLEAN => self.values::<BoolType>(column, |value| text(value)),
            other => Err(part.error(format!("holds {other}; text, bytes or integers are needed"))),
        }
    }

    fn values<T: DataType>(&self, column: Column, convert: impl Fn(&T::T) -> Vec<u8>) -> Result<Vec<Option<Vec<u8>>>> {
        let full = column.leaf.max_def_level();
        let mut cursor = ColumnCursor::<T>::new(&self.file, column);
        let mut all: Vec<Option<Vec<u8>>> = Vec::new();
        while let Some((values, definitions, _)) = cursor.next(usize::MAX)? {
            let begin = all.len();
            let mut values = values.iter();
            if full == 0 {
                // A field that cannot be null has no levels.
                all.extend(values.map(|value| Some(convert(value))));
            } else {
                let value = |&definition: &i16| if definition == full { values.next().map(&convert) } else { None };
                all.extend(definitions.iter().map(value));
            }
            let bytes: u64 = all[begin..].iter().map(|value| value.as_ref().map_or(0, Vec::len) as u64 + VALUE).sum();
            cursor.take(bytes)?;
        }
        cursor.check_rows(all.len())?;
        Ok(all)
    }
}
