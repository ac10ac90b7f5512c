//! `.safetensors`.

use half::{bf16, f16};

use super::{X, assert_refused, integers, names, read_bytes, read_fixture, x};

/// A file of tensors `(name, dtype, shape, bytes)` as the format's specification lays it out.
fn file(metadata: &str, tensors: &[(&str, &str, &str, Vec<u8>)]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    if !metadata.is_empty() {
        entries.push(format!("\"__metadata__\":{metadata}"));
    }
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        let end = data.len();
        entries
            .push(format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{start},{end}]}}"));
    }
    let header = format!("{{{}}}", entries.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn f4() -> Vec<u8> {
    X.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn labelled(dtype: &str, labels: Vec<u8>) -> Vec<u8> {
    file("", &[("embeddings", "F32", "[3,2]", f4()), ("labels", dtype, "[3]", labels)])
}

#[test]
fn floats_of_every_type() {
    for (dtype, bytes) in [
        ("F16", X.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect()),
        ("BF16", X.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect()),
        ("F32", f4()),
        ("F64", X.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect::<Vec<u8>>()),
    ] {
        let table = read_bytes("x.safetensors", file("", &[("embeddings", dtype, "[3,2]", bytes)])).unwrap();
        assert_eq!(*table.embeddings(), x(), "{dtype}");
    }
}

#[test]
fn labels_of_every_integer_type() {
    let wide = |size: usize| -> Vec<u8> {
        [100u8, 0, 7].iter().flat_map(|&v| std::iter::once(v).chain(std::iter::repeat_n(0, size - 1))).collect()
    };
    for (dtype, size) in [("I8", 1), ("U8", 1), ("I16", 2), ("U16", 2), ("I32", 4), ("U32", 4), ("I64", 8), ("U64", 8)]
    {
        let table = read_bytes("x.safetensors", labelled(dtype, wide(size))).unwrap();
        assert_eq!(table.labels, integers(&[100, 0, 7]), "{dtype}");
    }
    let table = read_bytes("x.safetensors", labelled("BOOL", vec![1, 0, 1])).unwrap();
    assert_eq!(table.labels, Some(dance::data::RawLabels::Booleans(vec![true, false, true])));
    let table = read_bytes("x.safetensors", labelled("I16", vec![0xff, 0xff, 0, 0, 1, 0])).unwrap();
    assert_eq!(table.labels, integers(&[-1, 0, 1]));
}

#[test]
fn files_that_the_library_wrote() {
    let table = read_fixture("everything.safetensors").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, integers(&[1, 0, 1]));
    assert_eq!(table.class_names, Some(names(&["d\u{f6}g", "cat"])));
    assert_eq!(table.ids, Some(names(&["a", "b", "c"])));
    assert_eq!(table.prototypes.unwrap().as_slice(), &X[..4]);

    let table = read_fixture("f4.safetensors").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, None);
}

#[test]
fn ids_may_be_integers() {
    let tensors = [("embeddings", "F32", "[3,2]", f4()), ("ids", "U8", "[3]", vec![3, 1, 2])];
    let table = read_bytes("x.safetensors", file("", &tensors)).unwrap();
    assert_eq!(table.ids, Some(names(&["3", "1", "2"])));
}

#[test]
fn wrong_contents_are_refused() {
    let read = |metadata: &str, tensors: &[_]| read_bytes("x.safetensors", file(metadata, tensors));
    let embeddings = ("embeddings", "F32", "[3,2]", f4());
    assert_refused(read("", &[("weights", "F32", "[3,2]", f4())]), &["`embeddings`", "`weights`", "save_file"]);
    assert_refused(read("", &[("embeddings", "F32", "[6]", f4())]), &["embeddings", "(6,)"]);
    assert_refused(read("", &[("embeddings", "F32", "[3,2,1]", f4())]), &["embeddings", "(3, 2, 1)"]);
    assert_refused(read("", &[("embeddings", "F8_E4M3", "[3,2]", vec![0; 6])]), &["embeddings", "F8_E4M3"]);
    assert_refused(read("", &[("embeddings", "F32", "[0,2]", vec![])]), &["0 × 2"]);
    let half = [0.5f32, 1.0, 2.0].map(f32::to_le_bytes).concat();
    let table = read_bytes("x.safetensors", labelled("F32", half)).unwrap();
    assert_refused(table.into_dataset(), &["label at row 0: 0.5 is no whole number"]);
    assert_refused(
        read_bytes("x.safetensors", labelled("U64", vec![0xff; 24])),
        &["labels", "row 0", "18446744073709551615"],
    );
    let two = ("labels", "U8", "[2]", vec![0, 1]);
    assert_refused(read("", &[embeddings.clone(), two]), &["number of labels", "expected 3, found 2"]);
    let square = ("labels", "U8", "[3,1]", vec![0, 1, 2]);
    assert_refused(read("", &[embeddings.clone(), square]), &["labels", "(3, 1)"]);
    for metadata in ["{\"class_names\":\"cat, dog\"}", "{\"class_names\":\"[1, 2]\"}"] {
        assert_refused(read(metadata, std::slice::from_ref(&embeddings)), &["class_names", "JSON array of strings"]);
    }
}

#[test]
fn numbers_that_are_not_finite_name_row_and_column() {
    let mut values = X;
    values[5] = f32::NAN;
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let result = read_bytes("x.safetensors", file("", &[("embeddings", "F32", "[3,2]", bytes)]));
    assert_refused(result, &["row 2, column 1 is NaN"]);
}

#[test]
fn sizes_are_checked_before_anything_is_allocated() {
    let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
    assert_refused(read_bytes("x.safetensors", huge), &["header"]);
    for shape in ["[1000000000000,1000]", "[18446744073709551615,2]", "[3,1]"] {
        let result = read_bytes("x.safetensors", file("", &[("embeddings", "F32", shape, f4())]));
        assert_refused(result, &["x.safetensors"]);
    }
    let mut longer = file("", &[("embeddings", "F32", "[3,2]", f4())]);
    longer.push(0);
    assert_refused(read_bytes("x.safetensors", longer), &["truncated or damaged"]);
}

#[test]
fn provenance_is_an_array_of_words_in_the_metadata() {
    let with = |words: &str| {
        let metadata = format!(r#"{{"provenance":"[{words}]"}}"#);
        read_bytes("x.safetensors", file(&metadata, &[("embeddings", "F32", "[3,2]", f4())]))
    };
    let table = with(r#"\"picked\",\"random\",\"random\""#).unwrap();
    assert_eq!(table.picked, Some(vec![true, false, false]));
    assert_refused(with(r#"\"picked\""#), &["number of values of `provenance`", "expected 3, found 1"]);
}
