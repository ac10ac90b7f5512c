//! `.npy` and `.npz`.

use std::io::Write;

use dance::Error;
use dance::data::RawLabels;
use dance::data::io::ReadOptions;
use half::f16;
use proptest::prelude::*;
use zip::write::SimpleFileOptions;

use super::{X, assert_refused, fixture, integers, names, read_bytes, read_fixture, read_with_labels, words, x};

/// An `.npy` array as the format's specification lays it out.
pub(super) fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
    version_1(&header, data)
}

fn version_1(header: &str, data: &[u8]) -> Vec<u8> {
    let padding = 64 - (10 + header.len() + 1) % 64;
    let header = format!("{header}{}\n", " ".repeat(padding));
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), data].concat()
}

fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), SimpleFileOptions::default()).unwrap();
        archive.write_all(array).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// An archive of 3 × 2 embeddings and the given labels.
fn labelled(labels: Vec<u8>) -> Vec<u8> {
    npz(&[("embeddings", npy("'<f4'", false, "(3, 2)", &bytes(&X, f32::to_le_bytes))), ("labels", labels)])
}

fn bytes<T: Copy, const N: usize>(values: &[T], encode: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| encode(value)).collect()
}

#[test]
fn floats_of_every_width_order_and_endianness() {
    let columns = [1.5f32, 0.25, -0.5, -2.0, 4.0, 8.0];
    for (fortran, values) in [(false, X), (true, columns)] {
        let halves = values.map(f16::from_f32);
        let doubles = values.map(f64::from);
        for (descr, data) in [
            ("'<f2'", bytes(&halves, f16::to_le_bytes)),
            ("'>f2'", bytes(&halves, f16::to_be_bytes)),
            ("'<f4'", bytes(&values, f32::to_le_bytes)),
            ("'>f4'", bytes(&values, f32::to_be_bytes)),
            ("'<f8'", bytes(&doubles, f64::to_le_bytes)),
            ("'>f8'", bytes(&doubles, f64::to_be_bytes)),
        ] {
            let table = read_bytes("x.npy", npy(descr, fortran, "(3, 2)", &data)).unwrap();
            assert_eq!(*table.embeddings(), x(), "{descr}, Fortran order: {fortran}");
            assert_eq!((table.labels, table.ids), (None, None));
        }
    }
}

/// One array for every integer type; `values` must fit them all.
fn integer_arrays(values: [u8; 3]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("'|i1'", bytes(&values.map(|v| v as i8), i8::to_le_bytes)),
        ("'|u1'", values.to_vec()),
        ("'<i2'", bytes(&values.map(i16::from), i16::to_le_bytes)),
        ("'>i2'", bytes(&values.map(i16::from), i16::to_be_bytes)),
        ("'<u2'", bytes(&values.map(u16::from), u16::to_le_bytes)),
        ("'>u2'", bytes(&values.map(u16::from), u16::to_be_bytes)),
        ("'<i4'", bytes(&values.map(i32::from), i32::to_le_bytes)),
        ("'>i4'", bytes(&values.map(i32::from), i32::to_be_bytes)),
        ("'<u4'", bytes(&values.map(u32::from), u32::to_le_bytes)),
        ("'>u4'", bytes(&values.map(u32::from), u32::to_be_bytes)),
        ("'<i8'", bytes(&values.map(i64::from), i64::to_le_bytes)),
        ("'>i8'", bytes(&values.map(i64::from), i64::to_be_bytes)),
        ("'<u8'", bytes(&values.map(u64::from), u64::to_le_bytes)),
        ("'>u8'", bytes(&values.map(u64::from), u64::to_be_bytes)),
    ]
}

#[test]
fn integers_of_every_width_are_labels_and_embeddings() {
    for (descr, data) in integer_arrays([100, 0, 7]) {
        let table = read_bytes("x.npz", labelled(npy(descr, false, "(3,)", &data))).unwrap();
        assert_eq!(table.labels, integers(&[100, 0, 7]), "{descr}");
        let table = read_bytes("x.npy", npy(descr, false, "(3, 1)", &data)).unwrap();
        assert_eq!(table.embeddings().as_slice(), [100.0, 0.0, 7.0], "{descr}");
    }
}

#[test]
fn negative_and_boolean_labels() {
    let negative = npy("'<i2'", false, "(3,)", &bytes(&[-1i16, -300, 5], i16::to_le_bytes));
    assert_eq!(read_bytes("x.npz", labelled(negative)).unwrap().labels, integers(&[-1, -300, 5]));
    let boolean = npy("'|b1'", false, "(3,)", &[1, 0, 1]);
    let booleans = Some(RawLabels::Booleans(vec![true, false, true]));
    assert_eq!(read_bytes("x.npz", labelled(boolean)).unwrap().labels, booleans);
}

#[test]
fn unsigned_labels_beyond_i64_are_refused_by_row() {
    let labels = npy("'<u8'", false, "(3,)", &bytes(&[1, u64::MAX, 2], u64::to_le_bytes));
    assert_refused(read_bytes("x.npz", labelled(labels)), &["labels", "row 1", "18446744073709551615"]);
}

#[test]
fn string_labels_of_both_kinds_and_endiannesses() {
    let text = ["a", "d\u{f6}g\u{1F436}", ""].map(|word| {
        let mut codes: Vec<u32> = word.chars().map(u32::from).collect();
        codes.resize(4, 0);
        codes
    });
    let codes = text.concat();
    for (descr, data) in [("'<U4'", bytes(&codes, u32::to_le_bytes)), ("'>U4'", bytes(&codes, u32::to_be_bytes))] {
        let table = read_bytes("x.npz", labelled(npy(descr, false, "(3,)", &data))).unwrap();
        assert_eq!(table.labels, words(&["a", "d\u{f6}g\u{1F436}", ""]), "{descr}");
    }
    let table = read_bytes("x.npz", labelled(npy("'|S2'", false, "(3,)", b"a\0bc\0\0"))).unwrap();
    assert_eq!(table.labels, words(&["a", "bc", ""]));
}

#[test]
fn broken_text_is_refused_by_row() {
    let surrogate = npy("'<U1'", false, "(3,)", &bytes(&[97, 0xD800, 98], u32::to_le_bytes));
    assert_refused(read_bytes("x.npz", labelled(surrogate)), &["labels", "row 1", "Unicode"]);
    let latin = npy("'|S1'", false, "(3,)", b"ab\xff");
    assert_refused(read_bytes("x.npz", labelled(latin)), &["labels", "row 2", "Unicode"]);
}

#[test]
fn headers_of_other_versions_and_writers() {
    let data = bytes(&X, f32::to_le_bytes);
    let dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}";
    let length = u32::try_from(dict.len()).unwrap().to_le_bytes();
    for version in [b"\x02\x00", b"\x03\x00"] {
        let file = [b"\x93NUMPY".as_slice(), version, &length, dict.as_bytes(), &data].concat();
        assert_eq!(*read_bytes("x.npy", file).unwrap().embeddings(), x());
    }
    // Any order and quotes, no spaces, and the long integers of Python 2.
    let odd = version_1("{\"shape\":(3L,2L),\"fortran_order\":False,\"descr\":\"<f4\"}", &data);
    assert_eq!(*read_bytes("x.npy", odd).unwrap().embeddings(), x());
    let future = [b"\x93NUMPY\x09\x00".as_slice(), &length, dict.as_bytes(), &data].concat();
    assert_refused(read_bytes("x.npy", future), &["version 9"]);
}

#[test]
fn files_that_numpy_wrote() {
    assert_eq!(*read_fixture("f4.npy").unwrap().embeddings(), x());
    assert_eq!(*read_fixture("f2_big_fortran.npy").unwrap().embeddings(), x());

    let table = read_fixture("everything.npz").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, integers(&[1, 0, 1]));
    assert_eq!(table.class_names, Some(names(&["d\u{f6}g", "cat"])));
    assert_eq!(table.ids, Some(names(&["10", "20", "30"])));
    assert_eq!(table.prototypes.unwrap().as_slice(), &X[..4]);

    let table = read_fixture("compressed.npz").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, words(&["cat", "d\u{f6}g", "cat"]));

    let table = read_fixture("bytes.npz").unwrap();
    assert_eq!(table.labels, words(&["a", "bcd", "a"]));
    assert_eq!(table.ids, Some(names(&["x", "", "z"])));
}

#[test]
fn labels_in_a_second_array() {
    let labels = std::fs::read(fixture("labels_u8.npy")).unwrap();
    assert_eq!(read_with_labels("y.npy", labels).unwrap(), integers(&[7, 0, 7]));
    let short = npy("'|u1'", false, "(2,)", &[1, 2]);
    assert_refused(read_with_labels("y.npy", short), &["number of labels", "expected 3, found 2"]);
}

#[test]
fn a_second_file_takes_precedence_over_labels_inside() {
    let options = ReadOptions { labels: Some(fixture("labels_u8.npy")), ..ReadOptions::default() };
    let table = dance::data::io::read(fixture("everything.npz"), &options).unwrap();
    assert_eq!(table.labels, Some(RawLabels::Integers(vec![7, 0, 7])));
}

#[test]
fn types_that_cannot_be_read_say_how_to_save() {
    assert_refused(read_fixture("object.npy"), &["object", "arr.astype('float32')"]);
    assert_refused(read_fixture("complex.npy"), &["complex"]);
    assert_refused(read_fixture("bfloat16.npy"), &["bfloat16", "arr.astype('float32')"]);
    assert_refused(read_fixture("records.npy"), &["structured array"]);
    for descr in ["'<f16'", "'<M8[ns]'", "'<i3'", "'f4'", "''", "'<'"] {
        assert_refused(read_bytes("x.npy", npy(descr, false, "(1, 1)", &[0; 16])), &["dtype", "float32"]);
    }
    assert_refused(read_bytes("x.npy", npy("'<U1'", false, "(1, 1)", &[0; 4])), &["holds strings"]);
    let floats = |values: [f64; 3]| npy("'<f8'", false, "(3,)", &values.map(f64::to_le_bytes).concat());
    let table = read_bytes("x.npz", labelled(floats([3.0, 1.0, 3.0]))).unwrap();
    assert_eq!(table.labels, Some(RawLabels::Floats(vec![3.0, 1.0, 3.0])));
    let table = read_bytes("x.npz", labelled(floats([3.0, 1.5, 3.0]))).unwrap();
    assert_refused(table.into_dataset(), &["x.npz: label at row 1: 1.5 is no whole number"]);
    let table = read_bytes("x.npz", labelled(floats([3.0, 1.0, f64::NAN]))).unwrap();
    assert_refused(table.into_dataset(), &["x.npz: no label at row 2;"]);
}

#[test]
fn wrong_shapes_are_refused() {
    for (shape, size) in [("()", 4), ("(2,)", 8), ("(1, 2, 3)", 24)] {
        let file = npy("'<f4'", false, shape, &vec![0; size]);
        assert_refused(read_bytes("x.npy", file), &["embeddings", "(rows, columns)", shape]);
    }
    assert_refused(read_bytes("x.npy", npy("'<f4'", false, "(0, 4)", &[])), &["0 × 4"]);
    assert_refused(read_bytes("x.npy", npy("'<f4'", true, "(4, 0)", &[])), &["4 × 0"]);
    let column = npy("'|u1'", false, "(3, 1)", &[0, 1, 0]);
    assert_refused(read_bytes("x.npz", labelled(column)), &["labels", "(3, 1)", "ravel"]);
    let short = npy("'|u1'", false, "(2,)", &[0, 1]);
    assert_refused(read_bytes("x.npz", labelled(short)), &["`labels` has 2 values, the embeddings have 3 rows"]);
}

#[test]
fn sizes_are_checked_before_anything_is_allocated() {
    for shape in [
        "(1000000000000, 1000)",
        "(18446744073709551615, 2)",
        "(9223372036854775807, 9223372036854775807)",
        "(99999999999999999999999, 1)",
        "(3, 1)",
        "(2, 2)",
    ] {
        assert!(read_bytes("x.npy", npy("'<f4'", false, shape, &[0; 24])).is_err(), "{shape}");
        let inside = npz(&[("embeddings", npy("'<f4'", false, shape, &[0; 24]))]);
        assert!(read_bytes("x.npz", inside).is_err(), "{shape}");
    }
    // Strings of no characters take no bytes, however many there are.
    let endless = npy("'<U0'", false, "(1000000000000,)", &[]);
    assert_refused(read_bytes("x.npz", labelled(endless)), &["labels", "damaged"]);
    let wide = npy("'<U4611686018427387905'", false, "(3,)", &[0; 12]);
    assert!(read_bytes("x.npz", labelled(wide)).is_err());
    let long = [b"\x93NUMPY\x02\x00\xff\xff\xff\xff".as_slice(), &[b' '; 64]].concat();
    assert_refused(read_bytes("x.npy", long), &["header"]);
}

#[test]
fn numbers_that_are_not_finite_name_row_and_column() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = X;
        values[3] = value;
        let file = npy("'<f4'", false, "(3, 2)", &bytes(&values, f32::to_le_bytes));
        let error = assert_refused(read_bytes("x.npy", file), &["x.npy", "row 1, column 1", "finite"]);
        assert!(matches!(error, Error::NotFinite { row: 1, column: 1, .. }));
    }
    // Column 1 of row 0 in Fortran order, and too large for 32 bits.
    let mut values = X.map(f64::from);
    values[3] = 1e300;
    let file = npy("'<f8'", true, "(3, 2)", &bytes(&values, f64::to_le_bytes));
    assert_refused(read_bytes("x.npy", file), &["row 0, column 1"]);
}

#[test]
fn an_archive_without_embeddings_lists_what_it_holds() {
    let error = assert_refused(read_fixture("neither.npz"), &["`features`", "`targets`", "np.savez"]);
    assert!(matches!(error, Error::MissingKey { key, .. } if key == "embeddings"));
    assert_refused(read_bytes("x.npz", npz(&[])), &["holds nothing"]);
}

#[test]
fn a_damaged_member_fails_its_checksum() {
    let mut file = std::fs::read(fixture("everything.npz")).unwrap();
    let at = file.windows(4).position(|window| window == 1.5f32.to_le_bytes()).unwrap();
    file[at] ^= 1;
    assert_refused(read_bytes("x.npz", file), &["embeddings"]);
}

proptest! {
    /// Any shape, order and endianness: element (row, column) is where the format says.
    #[test]
    fn every_shape_reads_back(rows in 1usize..70, cols in 1usize..70, fortran: bool, big: bool) {
        let value = |row: usize, col: usize| (row * 1000 + col) as f32;
        let place = |at: usize| if fortran { (at % rows, at / rows) } else { (at / cols, at % cols) };
        let data: Vec<u8> = (0..rows * cols).flat_map(|at| {
            let (row, col) = place(at);
            if big { value(row, col).to_be_bytes() } else { value(row, col).to_le_bytes() }
        }).collect();
        let descr = if big { "'>f4'" } else { "'<f4'" };
        let table = read_bytes("x.npy", npy(descr, fortran, &format!("({rows}, {cols})"), &data)).unwrap();
        prop_assert_eq!((table.embeddings().rows(), table.embeddings().cols()), (rows, cols));
        for row in 0..rows {
            for col in 0..cols {
                prop_assert_eq!(table.embeddings().row(row)[col], value(row, col));
            }
        }
    }
}

#[test]
fn provenance_is_an_array_of_words() {
    let words = |words: [&[u8; 6]; 3]| npy("'|S6'", false, "(3,)", &words.map(|word| &word[..]).concat());
    let file = |words| {
        let points = npy("'<f4'", false, "(3, 2)", &bytes(&X, f32::to_le_bytes));
        npz(&[("embeddings", points), ("provenance", words)])
    };
    let table = read_bytes("x.npz", file(words([b"random", b"picked", b"random"]))).unwrap();
    assert_eq!(table.picked, Some(vec![false, true, false]));
    let odd = read_bytes("x.npz", file(words([b"random", b"chosen", b"random"])));
    assert_refused(odd, &["`provenance` at row 1: `chosen` is no provenance; `picked` or `random` is needed"]);
}
