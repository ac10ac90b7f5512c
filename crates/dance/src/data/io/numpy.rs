//! `NumPy` files: `.npz` (a zip archive of arrays, compressed or not) and `.npy` (one array).
//!
//! Why not a crate: see `npy_header`. Every size in a header is checked against the bytes that are really there before
//! anything is allocated; for a compressed member, against what deflate can at most make of them.
//!
//! Time and memory: one pass, and the memory of the result; an array in Fortran order is transposed, which takes its
//! memory twice for a moment.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use zip::ZipArchive;

use super::budget::Budget;
use super::npy_header::{self, Element, Header};
use super::scalar::{self, Endian};
use super::{Part, ReadOptions, Shape};
use crate::data::labelled::Places;
use crate::data::provenance::PROVENANCE;
use crate::data::{EncoderIdentity, Kind, RawLabels, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// Deflate cannot expand a byte to more than this many (zlib's documentation: 1032 : 1).
const DEFLATE_RATIO: u64 = 1032;

/// What a text takes beside its letters: what points to them, and what the allocator adds.
const TEXT: usize = 40;

/// Reads `.npz`.
pub(super) fn read_npz(path: &Path, file: File, options: &ReadOptions) -> Result<Table> {
    let size = file.metadata().map_err(|error| Error::io(path, error))?.len();
    read_archive(path, BufReader::new(file), size, options)
}

/// Reads the contents of an `.npz` file, `size` bytes.
pub(super) fn read_archive(
    path: &Path,
    contents: impl Read + Seek,
    size: u64,
    options: &ReadOptions,
) -> Result<Table> {
    let mut archive = ZipArchive::new(contents).map_err(|error| {
        Error::format(
            path,
            format!("cannot be opened as an .npz file (a zip archive): {error}. Save it again"),
        )
    })?;
    let names = archive.file_names().flatten();
    let columns: Vec<String> =
        names.map(|name| name.strip_suffix(".npy").unwrap_or(&name).to_owned()).collect();
    let missing = |key: &str, help: &'static str| Error::MissingKey {
        path: path.to_owned(),
        key: key.to_owned(),
        found: columns.clone(),
        help,
    };
    let budget = &mut Budget::of(size);
    let name = options.embeddings_column.as_deref().unwrap_or("embeddings");
    let Some(embeddings) = member(path, (size, budget), &mut archive, name, matrix)? else {
        let help = "Save it with np.savez(path, embeddings=..., labels=...), or name the array with --embeddings-name";
        return Err(missing(name, help));
    };
    let rows = embeddings.rows();
    let (mut labels, mut class_names) = (None, None);
    if let Some((name, needed)) = options.label_in_file(LABELS) {
        labels = member(path, (size, budget), &mut archive, name, |array| labels_of(array, Some(rows)))?;
        if labels.is_none() && needed {
            return Err(missing(name, "Name an array that is there with --label-column"));
        }
    }
    if !options.without_labels {
        class_names =
            member(path, (size, budget), &mut archive, "class_names", |array| names_of(array, None))?;
    }
    let (name, needed) = options.id("ids");
    let ids = member(path, (size, budget), &mut archive, name, |array| names_of(array, Some(rows)))?;
    if ids.is_none() && needed {
        return Err(missing(name, "Name an array that is there with --id-column"));
    }
    let (ids, id_kind) = ids.map_or((None, Kind::Text), |(ids, kind)| (Some(ids), kind));
    let words = (!options.without_labels)
        .then(|| member(path, (size, budget), &mut archive, PROVENANCE, |array| names_of(array, Some(rows))))
        .transpose()?
        .flatten();
    let label_column = options.label_column.clone().unwrap_or_else(|| LABELS.into());
    let table = Table::new(path.display().to_string(), embeddings)?;
    Ok(Table {
        labels,
        class_names: class_names.map(|(names, _)| names),
        ids,
        id_kind,
        prototypes: member(path, (size, budget), &mut archive, "prototypes", matrix)?,
        encoder: member(path, (size, budget), &mut archive, "encoder", encoder)?,
        picked: Part { path, name: PROVENANCE }.picked(words.map(|(words, _)| words).as_deref(), 0)?,
        places: Places { columns, label_column, ..Places::default() },
        ..table
    })
}

/// The array of labels, where it has no other name.
const LABELS: &str = "labels";

/// Reads the embeddings in a `.npy` file.
pub(super) fn read_npy(path: &Path, file: &File) -> Result<Table> {
    Table::new(path.display().to_string(), whole_file(path, file, "embeddings", matrix)?)
}

/// Reads the labels in a `.npy` file.
pub(super) fn read_npy_labels(path: &Path, file: &File) -> Result<RawLabels> {
    whole_file(path, file, "labels", |array| labels_of(array, None))
}

fn whole_file<T>(
    path: &Path,
    file: &File,
    name: &str,
    decode: impl FnOnce(Array<'_>) -> Result<T>,
) -> Result<T> {
    let size = file.metadata().map_err(|error| Error::io(path, error))?.len();
    decode(Array::open(Part { path, name }, &mut BufReader::new(file), size, &mut Budget::of(size))?)
}

/// Reads the array `name`, if the archive has it.
fn member<R: Read + Seek, T>(
    path: &Path,
    (file_size, budget): (u64, &mut Budget),
    archive: &mut ZipArchive<R>,
    name: &str,
    decode: impl FnOnce(Array<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let part = Part { path, name };
    let mut entry = match archive.by_name(&format!("{name}.npy")) {
        Ok(entry) => entry,
        Err(zip::result::ZipError::FileNotFound) => return Ok(None),
        Err(error) => return Err(part.error(format!("cannot be read from the archive: {error}"))),
    };
    let size = entry.size();
    let packed = entry.compressed_size().min(file_size);
    if size > packed.saturating_mul(DEFLATE_RATIO) {
        return Err(
            part.error(format!("claims {size} bytes out of {packed} packed ones; the file is damaged"))
        );
    }
    let value = decode(Array::open(part, &mut entry, size, budget)?)?;
    // The checksum is compared at the end of the member, which nothing has asked for yet.
    match entry.read(&mut [0]) {
        Ok(0) => Ok(Some(value)),
        Ok(_) => Err(part.error("is longer than its header says; the file is damaged")),
        Err(error) => Err(part.unreadable(&error)),
    }
}

/// An array whose header has been read and agrees with the bytes that follow it.
struct Array<'a> {
    part: Part<'a>,
    header: Header,
    count: usize,
    reader: &'a mut dyn Read,
    /// What is left of what the file may take in memory.
    budget: &'a mut Budget,
}

impl<'a> Array<'a> {
    /// `available` is the number of bytes that header and data together take.
    fn open(
        part: Part<'a>,
        mut reader: &'a mut dyn Read,
        available: u64,
        budget: &'a mut Budget,
    ) -> Result<Self> {
        let header = npy_header::read_header(&mut reader).map_err(|problem| part.error(problem))?;
        let element = header.element.size() as u64;
        let shape = Shape(&header.shape);
        let damaged =
            || part.error(format!("has the shape {shape}, too large to be true; the file is damaged"));
        let count = header.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size));
        let count = count.ok_or_else(damaged)?;
        let needed = count.checked_mul(element).ok_or_else(damaged)?;
        let there = available.saturating_sub(header.length);
        // Strings of no characters take no bytes, however many there are: nothing would bound their number.
        if needed != there || (element == 0 && count > 0) {
            return Err(part.error(format!(
                "has the shape {shape} of {element} bytes each, {needed} bytes, but {there} bytes follow its \
                 header; the file is truncated or damaged"
            )));
        }
        let count = usize::try_from(count).map_err(|_| damaged())?;
        Ok(Self { part, header, count, reader, budget })
    }

    /// Takes so many bytes for each element, before any is read.
    fn take(&mut self, each: usize) -> Result<()> {
        let bytes = (self.count as u64).saturating_mul(each as u64);
        self.budget.take(bytes).map_err(|problem| self.part.error(problem))
    }

    fn strings(mut self) -> Result<Vec<String>> {
        self.take(TEXT + self.header.element.size())?;
        let Self { part, header, count, reader, .. } = self;
        let mut out = Vec::with_capacity(count);
        let mut broken = None;
        let size = header.element.size();
        scalar::in_pieces(reader, count, size, |bytes| {
            for bytes in bytes.chunks_exact(size) {
                let text = match header.element {
                    Element::Unicode(_, endian) => unicode(bytes, endian),
                    _ => String::from_utf8(trim(bytes).to_vec()).ok(),
                };
                if text.is_none() {
                    broken.get_or_insert(out.len());
                }
                out.push(text.unwrap_or_default());
            }
        })
        .map_err(|error| part.unreadable(&error))?;
        match broken {
            None => Ok(out),
            Some(row) => {
                Err(part.error(format!("is not valid Unicode at row {row}; save strings as arr.astype('U')")))
            }
        }
    }
}

/// The bytes up to the NULs that pad them.
fn trim(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes.get(..length).unwrap_or_default()
}

/// UCS-4 text, up to the NULs that pad it.
fn unicode(bytes: &[u8], endian: Endian) -> Option<String> {
    let (characters, _) = bytes.as_chunks::<4>();
    let code = |&bytes: &[u8; 4]| match endian {
        Endian::Little => u32::from_le_bytes(bytes),
        Endian::Big => u32::from_be_bytes(bytes),
    };
    let length = characters.iter().rposition(|bytes| code(bytes) != 0).map_or(0, |last| last + 1);
    characters.iter().take(length).map(|bytes| char::from_u32(code(bytes))).collect()
}

fn matrix(mut array: Array<'_>) -> Result<Matrix> {
    array.take(size_of::<f32>() * if array.header.fortran { 2 } else { 1 })?;
    let Array { part, header, count, reader, .. } = array;
    let (rows, cols) = part.two_dimensional(&header.shape)?;
    let Element::Number(scalar, endian) = header.element else {
        return Err(part.error("holds strings; numbers are needed"));
    };
    let data = scalar::read_floats(reader, scalar, endian, count).map_err(|error| part.unreadable(&error))?;
    let data = if header.fortran { transpose(&data, cols, rows) } else { data };
    Matrix::new(data, rows, cols)
}

/// `rows` is how many there must be, where that is known: nothing is unpacked that will be refused.
fn labels_of(mut array: Array<'_>, rows: Option<usize>) -> Result<RawLabels> {
    if let Some(rows) = rows.filter(|&rows| array.header.shape.len() == 1 && array.count != rows) {
        return Err(array.part.error(format!("has {} values, the embeddings have {rows} rows", array.count)));
    }
    if array.header.shape.len() != 1 {
        let shape = Shape(&array.header.shape);
        return Err(array
            .part
            .error(format!("has the shape {shape}; it must have one dimension. Save arr.ravel()")));
    }
    match array.header.element {
        Element::Number(scalar, endian) => {
            array.take(size_of::<i64>())?;
            array.part.labels(array.reader, scalar, endian, array.count)
        }
        Element::Unicode(..) | Element::Bytes(_) => array.strings().map(RawLabels::Names),
    }
}

/// Names of classes or points, and what they are.
fn names_of(mut array: Array<'_>, count: Option<usize>) -> Result<(Vec<String>, Kind)> {
    if matches!(array.header.element, Element::Number(..)) && count.is_none_or(|count| count == array.count) {
        array.take(TEXT)?; // as it will print
    }
    let part = array.part;
    part.names(labels_of(array, count)?)
}

/// A single string: the JSON of the encoder.
fn encoder(array: Array<'_>) -> Result<EncoderIdentity> {
    let part = array.part;
    match (array.header.element, array.count) {
        (Element::Unicode(..) | Element::Bytes(_), 1) => {
            let text = array.strings()?.concat();
            EncoderIdentity::from_json(&text).map_err(|problem| part.error(problem))
        }
        _ => Err(part.error("must be one string; leave it out, or save it as `dance embed` does")),
    }
}

/// The transpose of a row-major `rows × cols` matrix, in blocks that fit a cache.
fn transpose(data: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    const BLOCK: usize = 32;
    let mut out = vec![0.0; data.len()];
    if data.is_empty() {
        return out;
    }
    for top in (0..rows).step_by(BLOCK) {
        for left in (0..cols).step_by(BLOCK) {
            for row in top..rows.min(top + BLOCK) {
                for col in left..cols.min(left + BLOCK) {
                    out[col * rows + row] = data[row * cols + col];
                }
            }
        }
    }
    out
}
