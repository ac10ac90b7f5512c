//! `.parquet`, as pyarrow and polars write it.

use dance::data::io::{self, Blocks, ReadOptions};
use dance::data::{Kind, PointShape, RawLabels};

use super::{assert_refused, fixture, integers, names, read_bytes, read_fixture, words, x};

#[test]
fn lists_of_float_in_several_row_groups() {
    let table = read_fixture("pyarrow.parquet").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, integers(&[2, 0, 2]));
    assert_eq!(table.ids, Some(names(&["a", "b", "c"])));
}

#[test]
fn fixed_size_lists_of_double_with_a_dictionary_of_labels() {
    let table = read_fixture("gzip_fixed_double.parquet").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, words(&["cat", "d\u{f6}g", "cat"]));
}

#[test]
fn half_precision_and_unsigned_labels() {
    let table = read_fixture("lz4_half.parquet").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, integers(&[5, i64::MAX, 5]));
}

#[test]
fn pages_of_version_2_the_other_name_boolean_labels_and_unsigned_ids() {
    let table = read_fixture("brotli_v2.parquet").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, Some(RawLabels::Booleans(vec![true, false, true])));
    assert_eq!((table.ids, table.id_kind), (Some(names(&["1", "2", "4294967295"])), Kind::Integer));
}

#[test]
fn required_columns_without_compression_or_dictionary() {
    let options = ReadOptions { label_column: Some("target".into()), ..ReadOptions::default() };
    let table = io::read(fixture("plain.parquet"), &options).unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, integers(&[1, -1, 1]));
    assert_eq!(read_fixture("plain.parquet").unwrap().labels, None);
}

#[test]
fn polars_with_its_defaults() {
    let table = read_fixture("polars.parquet").unwrap();
    assert_eq!(*table.embeddings(), x());
    assert_eq!(table.labels, words(&["cat", "d\u{f6}g", "cat"]));
    assert_eq!(table.ids, Some(names(&["7", "8", "9"])));
}

#[test]
fn pages_that_end_anywhere_are_read_whole_and_in_blocks() {
    let rows = (0..40u8).flat_map(|row| [f32::from(row), f32::from(row) / 2.0, -1.0]);
    let expected: Vec<f32> = rows.collect();
    let table = read_fixture("pages.parquet").unwrap();
    assert_eq!(table.embeddings().as_slice(), expected);
    for most in [1, 7, 8, 25, 39, 40, 41] {
        let mut blocks = Blocks::open(fixture("pages.parquet"), &ReadOptions::default()).unwrap();
        let (mut found, mut labels) = (Vec::new(), Vec::new());
        while let Some(block) = blocks.next(most).unwrap() {
            assert_eq!(block.place(0), format!("row {}", found.len() / 3));
            found.extend_from_slice(block.embeddings().as_slice());
            labels.extend(block.label_names(&[]).unwrap());
        }
        assert_eq!(found, expected, "{most}");
        let each: Vec<String> = (0..40).map(|row| (row % 3).to_string()).collect();
        assert_eq!(labels, each, "{most}");
    }
}

#[test]
fn columns_that_were_asked_for_must_be_there() {
    let options = ReadOptions { label_column: Some("class".into()), ..ReadOptions::default() };
    assert_refused(io::read(fixture("plain.parquet"), &options), &["`class`", "`embedding`, `target`"]);
    let options = ReadOptions { id_column: Some("name".into()), ..ReadOptions::default() };
    assert_refused(io::read(fixture("plain.parquet"), &options), &["`name`"]);
}

#[test]
fn nulls_and_ragged_rows_are_refused_by_row() {
    assert_refused(read_fixture("null_row.parquet"), &["null_row.parquet", "`embedding`", "null", "row 1"]);
    assert_refused(read_fixture("null_number.parquet"), &["`embedding`", "holds a null", "row 2"]);
    assert_refused(read_fixture("empty_row.parquet"), &["`embedding`", "empty list", "row 1"]);
    assert_refused(read_fixture("ragged.parquet"), &["`embedding`", "3 numbers at row 2", "2 at row 0"]);
    let unlabeled = read_fixture("null_label.parquet").unwrap();
    assert_refused(unlabeled.into_dataset(), &["null_label.parquet: no label at row 1;", "`unlabeled`"]);
}

/// The other rows are read, and each that is no point says what is wrong with it.
#[test]
fn rows_that_are_no_points_can_be_set_aside() {
    let shape = PointShape { dimensions: 2, directed: false };
    for (name, rows, row, words) in [
        ("null_row.parquet", 3, 1, "is null"),
        ("null_number.parquet", 3, 2, "holds a null"),
        ("empty_row.parquet", 3, 1, "0 numbers, but the model was fitted with 2 dimensions"),
        ("ragged.parquet", 3, 2, "3 numbers, but"),
        ("not_finite.parquet", 2, 1, "number 1 is inf"),
    ] {
        let mut blocks = Blocks::open(fixture(name), &ReadOptions::default()).unwrap();
        let found = blocks.next_points(100, shape).unwrap().unwrap();
        let (refused, table) = (&found.refused, found.table.unwrap());
        assert_eq!(refused.iter().map(|&(row, _)| row).collect::<Vec<_>>(), [row], "{name}");
        assert!(refused[0].1.contains(words), "{name}: {}", refused[0].1);
        let good: Vec<usize> = (0..rows).filter(|&good| good != row).collect();
        assert_eq!((table.embeddings().rows(), found.rows), (rows - 1, good), "{name}");
        assert!(blocks.next_points(100, shape).unwrap().is_none());
    }
    // A file of another width has no point at all.
    let mut blocks = Blocks::open(fixture("pyarrow.parquet"), &ReadOptions::default()).unwrap();
    let wide = PointShape { dimensions: 5, directed: false };
    let found = blocks.next_points(100, wide).unwrap().unwrap();
    let ids = ["a", "b", "c"].map(String::from).to_vec();
    assert_eq!((found.table.is_none(), found.refused.len(), found.refused_ids), (true, 3, Some(ids)));
}

#[test]
fn numbers_that_are_not_finite_name_row_and_column() {
    assert_refused(read_fixture("not_finite.parquet"), &["row 1, column 1 is inf"]);
}

#[test]
fn no_rows_are_refused() {
    assert_refused(read_fixture("no_rows.parquet"), &["0 × 0"]);
}

#[test]
fn types_that_cannot_be_read_are_refused() {
    assert_refused(read_fixture("large_label.parquet"), &["`label`", "9223372036854775808", "row 1"]);
    assert_refused(read_fixture("list_label.parquet"), &["`label`", "lists or records"]);
    assert_refused(read_fixture("strings.parquet"), &["`embedding`", "lists of BYTE_ARRAY", "floats"]);
    assert_refused(read_fixture("flat.parquet"), &["`embedding`", "single values"]);
    assert_refused(read_fixture("nested.parquet"), &["`embedding`", "nested"]);
    assert_refused(read_fixture("wide.parquet"), &["no `embedding`", "`x0`, `x1`, `label`"]);
}

/// A file of no rows whose schema has these nodes, each given by its number of children as a varint.
fn schema(nodes: &[&[u8]]) -> Vec<u8> {
    let count = nodes.len();
    let mut footer = vec![0x15, 0x04, 0x19, 0xfc]; // field 1: version 2; field 2: a list of structs, …
    footer.extend([count as u8 & 0x7f | 0x80, (count >> 7) as u8 & 0x7f | 0x80, (count >> 14) as u8]); // … this many
    for children in nodes {
        footer.extend([0x35, 0x02]); // field 3: optional
        footer.extend([0x18, 0x01, b'x']); // field 4: the name
        footer.extend([&[0x15], *children, &[0x00]].concat()); // field 5: the number of children
    }
    footer.extend([0x16, 0x00, 0x19, 0x0c, 0x00]); // fields 3 and 4: no rows, no row groups
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    [b"PAR1".as_slice(), &footer, &length, b"PAR1"].concat()
}

#[test]
fn a_schema_that_would_overflow_the_stack_or_the_memory_is_refused() {
    // Zigzag: 0x02 is one child. A chain of 100 000 nodes, and a node with 2³¹ - 1 children.
    let one: &[u8] = &[0x02];
    assert_refused(read_bytes("x.parquet", schema(&vec![one; 100_000])), &["schema makes no sense"]);
    let many: &[u8] = &[0xfe, 0xff, 0xff, 0xff, 0x0f];
    assert_refused(read_bytes("x.parquet", schema(&[many, &[0]])), &["schema makes no sense"]);
    // The same bytes with a schema that is sound get as far as the missing column.
    assert_refused(read_bytes("x.parquet", schema(&[one, one, &[0]])), &["x.parquet"]);
}
