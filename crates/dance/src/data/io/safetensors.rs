//! `.safetensors` files: tensors `embeddings`, `labels`, `ids` and `prototypes`. Strings cannot be tensors, so class
//! names, and labels or ids that are strings, are JSON arrays in the file's metadata:
//!
//! ```python
//! metadata = {"class_names": json.dumps(["cat", "dog"])}
//! save_file({"embeddings": x, "labels": y}, "animals.safetensors", metadata=metadata)
//! ```
//!
//! The `safetensors` crate parses only the header here, since for tensors it needs the whole file in memory or mapped.
//! Tensors are read one by one, each directly into the result.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::scalar::{self, Endian, Scalar};
use super::table_source::{TableSource, read_table};
use super::{FilePart, ReadOptions, Shape};
use crate::data::dataset::PROVENANCE;
use crate::data::{EncoderIdentity, Kind, RawLabels, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// The largest length of a header, in bytes, that the `safetensors` crate accepts.
const LONGEST_HEADER: u64 = 100_000_000;

/// The number of bytes at the beginning of the file that hold the length of the header.
const PREFIX: u64 = 8;

/// Reads a safetensors file.
pub(super) fn read(path: &Path, file: &File, options: &ReadOptions) -> Result<Table> {
    const HELP: &str = "Save it with save_file({\"embeddings\": ..., \"labels\": ...}, path), or name the tensor by \
                        the setting `embedding_column`";
    read_table(path, &mut Tensors::open(path, file)?, options, HELP)
}

/// A safetensors file whose header has been read.
struct Tensors<'a> {
    path: &'a Path,
    file: &'a File,
    header: Metadata,
    /// The offset in the file at which the tensors' bytes begin.
    data: u64,
}

impl<'a> Tensors<'a> {
    /// Reads the header, and checks that the tensors fill the rest of the file.
    fn open(path: &'a Path, mut file: &'a File) -> Result<Self> {
        let wrong = |problem: String| Error::format(path, format!("{problem}; save it again with safetensors"));
        let size = file.metadata().map_err(|error| Error::io(path, error))?.len();
        let mut length = [0; PREFIX as usize];
        file.read_exact(&mut length).map_err(|_| wrong("is too short to be a safetensors file".into()))?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER || length > size.saturating_sub(PREFIX) {
            return Err(wrong(format!(
                "claims a header of {length} bytes in a file of {size}: not a safetensors file, or truncated"
            )));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(|error| Error::io(path, error))?;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| wrong(format!("has a header that cannot be parsed ({error})")))?;
        let (claimed, there) = (header.data_len() as u64, size - PREFIX - length);
        if claimed != there {
            return Err(wrong(format!(
                "should hold {claimed} bytes of tensors but holds {there}: it is truncated or damaged"
            )));
        }
        Ok(Self { path, file, header, data: PREFIX + length })
    }

    /// Returns the number type, the shape and a reader of the bytes of the tensor `name`; `None` if the file has no
    /// such tensor. All bytes exist, since [`open`](Self::open) has checked the sizes.
    fn tensor(&self, name: &str) -> Result<Option<(Scalar, Vec<u64>, impl Read)>> {
        let Some(info) = self.header.info(name) else { return Ok(None) };
        let scalar = match info.dtype {
            Dtype::F16 => Scalar::F16,
            Dtype::BF16 => Scalar::Bf16,
            Dtype::F32 => Scalar::F32,
            Dtype::F64 => Scalar::F64,
            Dtype::I8 => Scalar::I8,
            Dtype::I16 => Scalar::I16,
            Dtype::I32 => Scalar::I32,
            Dtype::I64 => Scalar::I64,
            Dtype::U8 => Scalar::U8,
            Dtype::U16 => Scalar::U16,
            Dtype::U32 => Scalar::U32,
            Dtype::U64 => Scalar::U64,
            Dtype::BOOL => Scalar::Bool,
            other => {
                return Err(self.part(name).error(format!("has dtype {other:?}, which cannot be read; save F32")));
            }
        };
        let mut file = self.file;
        let start = self.data + info.data_offsets.0 as u64;
        file.seek(SeekFrom::Start(start)).map_err(|error| Error::io(self.path, error))?;
        let shape = info.shape.iter().map(|&size| size as u64).collect();
        Ok(Some((scalar, shape, BufReader::new(file))))
    }

    /// Reads a one-dimensional tensor of labels or ids that are numbers; `None` if the file has no tensor of this name.
    fn numbers(&self, name: &str) -> Result<Option<RawLabels>> {
        let Some((scalar, shape, reader)) = self.tensor(name)? else { return Ok(None) };
        let part = self.part(name);
        let &[count] = shape.as_slice() else {
            return Err(part.error(format!("has the shape {}; it must have one dimension", Shape(&shape))));
        };
        part.labels(reader, scalar, Endian::Little, count as usize).map(Some)
    }

    /// Returns the text under this `key` in the file's metadata, if there is one.
    fn note(&self, key: &str) -> Option<&String> {
        self.header.metadata().as_ref().and_then(|map: &HashMap<_, _>| map.get(key))
    }

    /// Reads the strings of a JSON array, which the metadata hold under this `key`; `None` if they do not.
    fn strings(&self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(text) = self.note(key) else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|error| {
            self.part(key).error(format!("in the metadata must be a JSON array of strings, [\"a\", \"b\"]: {error}"))
        })
    }

    fn part<'b>(&'b self, name: &'b str) -> FilePart<'b> {
        FilePart { path: self.path, name }
    }
}

impl TableSource for Tensors<'_> {
    fn names(&self) -> Vec<String> {
        let mut names = self.header.offset_keys();
        names.sort();
        names
    }

    fn matrix(&mut self, name: &str) -> Result<Option<Matrix>> {
        let Some((scalar, shape, reader)) = self.tensor(name)? else { return Ok(None) };
        let part = self.part(name);
        let (rows, cols) = part.two_dimensional(&shape)?;
        let data = scalar::read_floats(reader, scalar, Endian::Little, rows * cols)
            .map_err(|error| part.unreadable(&error))?;
        Matrix::new(data, rows, cols).map(Some)
    }

    fn labels(&mut self, name: &str, _: usize) -> Result<Option<RawLabels>> {
        match self.numbers(name)? {
            None => Ok(self.strings(name)?.map(RawLabels::Names)),
            labels => Ok(labels),
        }
    }

    fn ids(&mut self, name: &str, _: usize) -> Result<Option<(Vec<String>, Kind)>> {
        match self.numbers(name)? {
            None => Ok(self.strings(name)?.map(|ids| (ids, Kind::Text))),
            Some(ids) => self.part(name).names(ids).map(Some),
        }
    }

    fn class_names(&mut self) -> Result<Option<Vec<String>>> {
        self.strings("class_names")
    }

    fn provenance(&mut self, _: usize) -> Result<Option<Vec<String>>> {
        self.strings(PROVENANCE)
    }

    fn encoder(&mut self) -> Result<Option<EncoderIdentity>> {
        let read =
            |text: &String| EncoderIdentity::from_json(text).map_err(|problem| self.part("encoder").error(problem));
        self.note("encoder").map(read).transpose()
    }
}
