//! `.safetensors`: tensors `embeddings`, `labels` and `prototypes`. Strings cannot be tensors, so `class_names` and
//! `ids` are JSON arrays of strings in the file's metadata (`ids` may be a tensor of integers, too, and labels that are strings
//! are such an array):
//!
//! ```python
//! metadata = {"class_names": json.dumps(["cat", "dog"])}
//! save_file({"embeddings": x, "labels": y}, "animals.safetensors", metadata=metadata)
//! ```
//!
//! Only the header is parsed by the `safetensors` crate; tensors are then read one by one, each straight into the
//! result, where the crate would have the whole file in memory or mapped.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::scalar::{self, Endian, Scalar};
use super::{Part, ReadOptions, Shape};
use crate::data::labelled::Places;
use crate::data::provenance::PROVENANCE;
use crate::data::{EncoderIdentity, Kind, RawLabels, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// The longest header that the format's own reader accepts.
const LONGEST_HEADER: u64 = 100_000_000;

/// Bytes that give the header's length.
const PREFIX: u64 = 8;

/// Reads the file.
pub(super) fn read(path: &Path, file: &File, options: &ReadOptions) -> Result<Table> {
    let tensors = Tensors::open(path, file)?;
    let mut columns = tensors.header.offset_keys();
    columns.sort();
    let missing = |key: &str, help: &'static str| Error::MissingKey {
        path: path.to_owned(),
        key: key.to_owned(),
        found: columns.clone(),
        help,
    };
    let name = options.embeddings_column.as_deref().unwrap_or("embeddings");
    let Some(embeddings) = tensors.matrix(name)? else {
        let help = "Save it with save_file({\"embeddings\": ..., \"labels\": ...}, path), or name the tensor with --embeddings-name";
        return Err(missing(name, help));
    };
    let (name, needed) = options.id("ids");
    let (ids, id_kind) = match tensors.labels(name)? {
        Some(ids) => tensors.part(name).names(ids).map(|(ids, kind)| (Some(ids), kind))?,
        None => (tensors.strings(name)?, Kind::Text),
    };
    if ids.is_none() && needed {
        return Err(missing(name, "Name a tensor that is there with --id-column"));
    }
    let mut labels = None;
    if let Some((name, needed)) = options.label_in_file(LABELS) {
        labels = match tensors.labels(name)? {
            None => tensors.strings(name)?.map(RawLabels::Names),
            labels => labels,
        };
        if labels.is_none() && needed {
            return Err(missing(name, "Name a tensor that is there with --label-column"));
        }
    }
    let class_names = if options.without_labels { None } else { tensors.strings("class_names")? };
    let prototypes = tensors.matrix("prototypes")?;
    let words = if options.without_labels { None } else { tensors.strings(PROVENANCE)? };
    let picked = tensors.part(PROVENANCE).picked(words.as_deref(), 0)?;
    let label_column = options.label_column.clone().unwrap_or_else(|| LABELS.into());
    let places = Places { columns, label_column, ..Places::default() };
    let table = Table::new(path.display().to_string(), embeddings)?;
    let encoder = tensors.encoder()?;
    Ok(Table { labels, class_names, ids, id_kind, prototypes, encoder, picked, places, ..table })
}

/// The tensor of labels, where it has no other name.
const LABELS: &str = "labels";

struct Tensors<'a> {
    path: &'a Path,
    file: &'a File,
    header: Metadata,
    /// Where the tensors' bytes begin.
    data: u64,
}

impl<'a> Tensors<'a> {
    fn open(path: &'a Path, mut file: &'a File) -> Result<Self> {
        let wrong =
            |problem: String| Error::format(path, format!("{problem}; save it again with safetensors"));
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
            .map_err(|error| wrong(format!("has a header that cannot be understood ({error})")))?;
        let (claimed, there) = (header.data_len() as u64, size - PREFIX - length);
        if claimed != there {
            return Err(wrong(format!(
                "should hold {claimed} bytes of tensors but holds {there}: it is truncated or damaged"
            )));
        }
        Ok(Self { path, file, header, data: PREFIX + length })
    }

    /// The type, shape and bytes of a tensor, if there is one of this name. Its bytes are all there: `open` has seen
    /// that the tensors fill the file, and the crate that each tensor fills its part.
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
                return Err(self
                    .part(name)
                    .error(format!("has dtype {other:?}, which cannot be read; save F32")));
            }
        };
        let mut file = self.file;
        let start = self.data + info.data_offsets.0 as u64;
        file.seek(SeekFrom::Start(start)).map_err(|error| Error::io(self.path, error))?;
        let shape = info.shape.iter().map(|&size| size as u64).collect();
        Ok(Some((scalar, shape, BufReader::new(file))))
    }

    fn matrix(&self, name: &str) -> Result<Option<Matrix>> {
        let Some((scalar, shape, reader)) = self.tensor(name)? else { return Ok(None) };
        let part = self.part(name);
        let (rows, cols) = part.two_dimensional(&shape)?;
        let data = scalar::read_floats(reader, scalar, Endian::Little, rows * cols)
            .map_err(|error| part.unreadable(&error))?;
        Matrix::new(data, rows, cols).map(Some)
    }

    fn labels(&self, name: &str) -> Result<Option<RawLabels>> {
        let Some((scalar, shape, reader)) = self.tensor(name)? else { return Ok(None) };
        let part = self.part(name);
        let &[count] = shape.as_slice() else {
            return Err(part.error(format!("has the shape {}; it must have one dimension", Shape(&shape))));
        };
        part.labels(reader, scalar, Endian::Little, count as usize).map(Some)
    }

    /// A JSON array of strings in the metadata.
    fn strings(&self, key: &str) -> Result<Option<Vec<String>>> {
        let text = self.header.metadata().as_ref().and_then(|map: &HashMap<_, _>| map.get(key));
        let Some(text) = text else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|error| {
            self.part(key)
                .error(format!("in the metadata must be a JSON array of strings, [\"a\", \"b\"]: {error}"))
        })
    }

    /// The JSON of the encoder, in the metadata.
    fn encoder(&self) -> Result<Option<EncoderIdentity>> {
        let text = self.header.metadata().as_ref().and_then(|map: &HashMap<_, _>| map.get("encoder"));
        let read = |text: &String| {
            EncoderIdentity::from_json(text).map_err(|problem| self.part("encoder").error(problem))
        };
        text.map(read).transpose()
    }

    fn part<'b>(&'b self, name: &'b str) -> Part<'b> {
        Part { path: self.path, name }
    }
}
