//! `NumPy` archives (.npz): one array for every column. A column of lists is the array of all values, one list after
//! the other, with the array `set_offsets`: row i has `values[set_offsets[i]:set_offsets[i+1]]`.

use std::io::{Seek, Write};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Cells, Column, Frame, offsets};

/// Returns options with a fixed time stamp, so that the same arrays give the same bytes.
fn options() -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default())
        .large_file(true)
}

pub(super) fn write(out: &mut (impl Write + Seek), frame: &Frame) -> anyhow::Result<()> {
    let mut archive = ZipWriter::new(out);
    let mut array = |name: &str, kind: &str, shape: &[usize], bytes: &[u8]| -> anyhow::Result<()> {
        archive.start_file(format!("{name}.npy"), options())?;
        archive.write_all(&header(kind, shape))?;
        archive.write_all(bytes)?;
        Ok(())
    };
    let mut ends: Option<Vec<u8>> = None;
    for (name, column) in &frame.columns {
        match column {
            Column::Flat(cells) | Column::Lists(cells, _) => {
                let (kind, bytes) = encoded(cells);
                array(name, &kind, &[cells.len()], &bytes)?;
            }
            Column::Partly(..) => {
                anyhow::bail!("an archive of arrays cannot have `{name}` in some rows only")
            }
            Column::Vectors(matrix) => {
                let bytes: Vec<u8> = matrix.as_slice().iter().flat_map(|value| value.to_le_bytes()).collect();
                array(name, "<f4", &[matrix.rows(), matrix.cols()], &bytes)?;
            }
        }
        if let Column::Lists(_, lengths) = column {
            let begin = |&begin: &usize| (begin as i64).to_le_bytes();
            ends.get_or_insert_with(|| offsets(lengths).iter().flat_map(begin).collect());
        }
    }
    if let Some(ends) = ends {
        array("set_offsets", "<i8", &[ends.len() / 8], &ends)?;
    }
    for (name, text) in &frame.notes {
        let (kind, bytes) = texts([text].into_iter());
        array(name, &kind, &[], &bytes)?;
    }
    archive.finish()?.flush()?;
    Ok(())
}

/// Returns the header of an array in version 1.0 of the format. Its length is a multiple of 64 bytes.
fn header(kind: &str, shape: &[usize]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size},")).collect();
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text += &" ".repeat(length - text.len() - 1);
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(text.into_bytes());
    bytes
}

/// Returns the type of an array and its bytes.
fn encoded(cells: &Cells) -> (String, Vec<u8>) {
    match cells {
        Cells::Integers(values) => ("<i8".into(), values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Cells::Numbers(values) => ("<f8".into(), values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Cells::Booleans(values) => ("|b1".into(), values.iter().map(|&value| u8::from(value)).collect()),
        Cells::Texts(values) => texts(values.iter()),
    }
}

/// Returns texts in UCS-4, padded with NULs to the width of the longest one.
fn texts<'a>(values: impl Iterator<Item = &'a String> + Clone) -> (String, Vec<u8>) {
    let width = values.clone().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let mut bytes = Vec::new();
    for text in values {
        let before = bytes.len();
        bytes.extend(text.chars().flat_map(|character| (character as u32).to_le_bytes()));
        bytes.resize(before + 4 * width, 0);
    }
    (format!("<U{width}"), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_aligned() {
        for shape in [&[][..], &[3], &[123_456_789, 512]] {
            let header = header("<f4", shape);
            assert_eq!(header.len() % 64, 0);
            assert!(header.ends_with(b"\n"));
        }
        assert!(String::from_utf8_lossy(&header("<i8", &[3])).contains("'shape': (3,), }"));
    }

    #[test]
    fn texts_are_padded() {
        let (kind, bytes) = texts(["a".to_owned(), "bé".to_owned()].iter());
        assert_eq!(kind, "<U2");
        assert_eq!(bytes.len(), 16);
        assert_eq!(bytes[12], 0xe9);
    }
}
