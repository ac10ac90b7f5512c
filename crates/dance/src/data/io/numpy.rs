//! `NumPy` files: `.npz` (a zip archive of arrays, compressed or not) and `.npy` (one array).
//!
//! The module [`npy_header`] explains why no crate is used. Every size in a header is checked against the bytes of the
//! file before anything is allocated. The size of a compressed array is limited by the largest compression ratio of
//! deflate.
//!
//! Reading takes one pass, and the memory of the result. An array in Fortran order is transposed, which briefly takes
//! twice its memory.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use zip::ZipArchive;

use super::budget::Budget;
use super::npy_header::{self, Element, NpyHeader};
use super::scalar::{self, Endian};
use super::table_source::{TableSource, read_table};
use super::{FilePart, ReadOptions, Shape};
use crate::data::dataset::PROVENANCE;
use crate::data::{EncoderIdentity, Kind, RawLabels, Table};
use crate::error::{Error, Result};
use crate::numeric::matrix::Matrix;

/// The largest compression ratio of deflate (zlib's documentation: 1032 : 1).
const DEFLATE_RATIO: u64 = 1032;

/// The number of bytes that a string takes in memory beside its characters, for the pointer and the allocator.
const TEXT: usize = 40;

/// Reads an `.npz` file.
pub(super) fn read_npz(path: &Path, file: File, options: &ReadOptions) -> Result<Table> {
    let size = file.metadata().map_err(|error| Error::io(path, error))?.len();
    read_archive(path, BufReader::new(file), size, options)
}

/// Reads the contents of an `.npz` file of `size` bytes.
pub(super) fn read_archive(path: &Path, contents: impl Read + Seek, size: u64, options: &ReadOptions) -> Result<Table> {
    const HELP: &str = "Save it with np.savez(path, embeddings=..., labels=...), or name the array by the setting \
                        `embedding_column`";
    let archive = ZipArchive::new(contents).map_err(|error| {
        Error::format(path, format!("cannot be opened as an .npz file (a zip archive): {error}. Save it again"))
    })?;
    read_table(path, &mut Npz { path, archive, size, budget: Budget::of(size) }, options, HELP)
}

/// An open `.npz` file of `size` bytes.
struct Npz<'a, R> {
    path: &'a Path,
    archive: ZipArchive<R>,
    size: u64,
    budget: Budget,
}

impl<R: Read + Seek> Npz<'_, R> {
    /// Reads the array `name` with the function `decode`; `None` if the archive has no such array.
    fn member<T>(&mut self, name: &str, decode: impl FnOnce(Array<'_>) -> Result<T>) -> Result<Option<T>> {
        let part = FilePart { path: self.path, name };
        let mut entry = match self.archive.by_name(&format!("{name}.npy")) {
            Ok(entry) => entry,
            Err(zip::result::ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(part.error(format!("cannot be read from the archive: {error}"))),
        };
        let size = entry.size();
        let packed = entry.compressed_size().min(self.size);
        if size > packed.saturating_mul(DEFLATE_RATIO) {
            return Err(part.error(format!("claims {size} bytes out of {packed} packed ones; the file is damaged")));
        }
        let value = decode(Array::open(part, &mut entry, size, &mut self.budget)?)?;
        // The archive compares the checksum when the end of the member is read.
        match entry.read(&mut [0]) {
            Ok(0) => Ok(Some(value)),
            Ok(_) => Err(part.error("is longer than its header says; the file is damaged")),
            Err(error) => Err(part.unreadable(&error)),
        }
    }
}

impl<R: Read + Seek> TableSource for Npz<'_, R> {
    fn names(&self) -> Vec<String> {
        let names = self.archive.file_names().flatten();
        names.map(|name| name.strip_suffix(".npy").unwrap_or(&name).to_owned()).collect()
    }

    fn matrix(&mut self, name: &str) -> Result<Option<Matrix>> {
        self.member(name, matrix)
    }

    fn labels(&mut self, name: &str, rows: usize) -> Result<Option<RawLabels>> {
        self.member(name, |array| labels_of(array, Some(rows)))
    }

    fn ids(&mut self, name: &str, rows: usize) -> Result<Option<(Vec<String>, Kind)>> {
        self.member(name, |array| names_of(array, Some(rows)))
    }

    fn class_names(&mut self) -> Result<Option<Vec<String>>> {
        Ok(self.member("class_names", |array| names_of(array, None))?.map(|(names, _)| names))
    }

    fn provenance(&mut self, rows: usize) -> Result<Option<Vec<String>>> {
        Ok(self.member(PROVENANCE, |array| names_of(array, Some(rows)))?.map(|(words, _)| words))
    }

    fn encoder(&mut self) -> Result<Option<EncoderIdentity>> {
        self.member("encoder", encoder)
    }
}

/// Reads the embeddings of an `.npy` file.
pub(super) fn read_npy(path: &Path, file: &File) -> Result<Table> {
    Table::new(path.display().to_string(), read_whole(path, file, "embeddings", matrix)?)
}

/// Reads the labels of an `.npy` file.
pub(super) fn read_npy_labels(path: &Path, file: &File) -> Result<RawLabels> {
    read_whole(path, file, "labels", |array| labels_of(array, None))
}

/// Reads the array of an `.npy` file with the function `decode`. `name` is the array's name in errors.
fn read_whole<T>(path: &Path, file: &File, name: &str, decode: impl FnOnce(Array<'_>) -> Result<T>) -> Result<T> {
    let size = file.metadata().map_err(|error| Error::io(path, error))?.len();
    decode(Array::open(FilePart { path, name }, &mut BufReader::new(file), size, &mut Budget::of(size))?)
}

/// An array whose header has been read and agrees with the number of bytes after it.
struct Array<'a> {
    part: FilePart<'a>,
    header: NpyHeader,
    count: usize,
    reader: &'a mut dyn Read,
    /// The memory that the contents of the file may still take.
    budget: &'a mut Budget,
}

impl<'a> Array<'a> {
    /// Reads the header. `available` is the number of bytes of header and data together, which must agree with the
    /// shape.
    fn open(part: FilePart<'a>, mut reader: &'a mut dyn Read, available: u64, budget: &'a mut Budget) -> Result<Self> {
        let header = npy_header::read_header(&mut reader).map_err(|problem| part.error(problem))?;
        let element = header.element.size() as u64;
        let shape = Shape(&header.shape);
        let damaged = || part.error(format!("has the impossible shape {shape}; the file is damaged"));
        let count = header.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size));
        let count = count.ok_or_else(damaged)?;
        let needed = count.checked_mul(element).ok_or_else(damaged)?;
        let there = available.saturating_sub(header.length);
        // Strings of no characters take no bytes, so the file's size would not limit their number.
        if needed != there || (element == 0 && count > 0) {
            return Err(part.error(format!(
                "has the shape {shape} of {element} bytes each, {needed} bytes, but {there} bytes follow its \
                 header; the file is truncated or damaged"
            )));
        }
        let count = usize::try_from(count).map_err(|_| damaged())?;
        Ok(Self { part, header, count, reader, budget })
    }

    /// Takes `each` bytes per element from the memory budget, before any element is read.
    fn take(&mut self, each: usize) -> Result<()> {
        let bytes = (self.count as u64).saturating_mul(each as u64);
        self.budget.take(bytes).map_err(|problem| self.part.error(problem))
    }

    /// Reads all elements as strings. An element that is not valid Unicode is an error that names its row.
    fn strings(mut self) -> Result<Vec<String>> {
        self.take(TEXT + self.header.element.size())?;
        let Self { part, header, count, reader, .. } = self;
        let mut out = Vec::with_capacity(count);
        let mut invalid = None;
        let size = header.element.size();
        scalar::in_pieces(reader, count, size, |bytes| {
            for bytes in bytes.chunks_exact(size) {
                let text = match header.element {
                    Element::Unicode(_, endian) => unicode(bytes, endian),
                    _ => String::from_utf8(trim(bytes).to_vec()).ok(),
                };
                if text.is_none() {
                    invalid.get_or_insert(out.len());
                }
                out.push(text.unwrap_or_default());
            }
        })
        .map_err(|error| part.unreadable(&error))?;
        match invalid {
            None => Ok(out),
            Some(row) => Err(part.error(format!("is not valid Unicode at row {row}; save strings as arr.astype('U')"))),
        }
    }
}

/// Returns the bytes without the NULs at their end.
fn trim(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes.get(..length).unwrap_or_default()
}

/// Decodes UCS-4 text without the NULs at its end; `None` if it is not valid.
fn unicode(bytes: &[u8], endian: Endian) -> Option<String> {
    let (characters, _) = bytes.as_chunks::<4>();
    let code = |&bytes: &[u8; 4]| match endian {
        Endian::Little => u32::from_le_bytes(bytes),
        Endian::Big => u32::from_be_bytes(bytes),
    };
    let length = characters.iter().rposition(|bytes| code(bytes) != 0).map_or(0, |last| last + 1);
    characters.iter().take(length).map(|bytes| char::from_u32(code(bytes))).collect()
}

/// Reads a two-dimensional array of numbers.
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

/// Reads a one-dimensional array of labels. If `rows` is given, any other number of labels is an error, which is found
/// before labels are decompressed.
fn labels_of(mut array: Array<'_>, rows: Option<usize>) -> Result<RawLabels> {
    if let Some(rows) = rows.filter(|&rows| array.header.shape.len() == 1 && array.count != rows) {
        return Err(array.part.error(format!("has {} values, the embeddings have {rows} rows", array.count)));
    }
    if array.header.shape.len() != 1 {
        let shape = Shape(&array.header.shape);
        return Err(array.part.error(format!("has the shape {shape}; it must have one dimension. Save arr.ravel()")));
    }
    match array.header.element {
        Element::Number(scalar, endian) => {
            array.take(size_of::<i64>())?;
            array.part.labels(array.reader, scalar, endian, array.count)
        }
        Element::Unicode(..) | Element::Bytes(_) => array.strings().map(RawLabels::Names),
    }
}

/// Reads class names or ids, and returns them with their type. If `count` is given, any other number of names is an
/// error.
fn names_of(mut array: Array<'_>, count: Option<usize>) -> Result<(Vec<String>, Kind)> {
    if matches!(array.header.element, Element::Number(..)) && count.is_none_or(|count| count == array.count) {
        array.take(TEXT)?; // for the text of every number
    }
    let part = array.part;
    part.names(labels_of(array, count)?)
}

/// Reads the identity of an encoder from an array of one string, which holds JSON.
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

/// Returns the transpose of a row-major `rows × cols` matrix. It is copied in blocks that fit into the cache.
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
