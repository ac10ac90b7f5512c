//! `.csv`, `.tsv`, and labels in text files.

use dance::Error;
use dance::data::Kind;
use dance::data::io::ReadOptions;

use super::{assert_refused, integers, names, read_bytes, read_with, read_with_labels, words};

fn read_csv(text: impl AsRef<[u8]>) -> dance::Result<dance::Table> {
    read_bytes("x.csv", text)
}

#[test]
fn columns_are_found_by_name_wherever_they_are() {
    let table = read_csv("x0,label,x1,id\n1.5,cat,-2e0,a\n.25,dog,4,b\n").unwrap();
    assert_eq!(table.embeddings().as_slice(), [1.5, -2.0, 0.25, 4.0]);
    assert_eq!(table.labels, words(&["cat", "dog"]));
    assert_eq!(table.ids, Some(names(&["a", "b"])));
}

#[test]
fn labels_and_ids_may_be_missing() {
    let table = read_csv("x,y\n1,2\n").unwrap();
    assert_eq!((table.labels, table.ids), (None, None));
}

#[test]
fn tabs_separate_a_tsv() {
    let table = read_bytes("x.tsv", "label\tx\ta,b\n0\t1\t2\n").unwrap();
    assert_eq!(table.embeddings().as_slice(), [1.0, 2.0]);
    assert_eq!(table.labels, integers(&[0]));
}

#[test]
fn quotes_line_ends_byte_order_mark_and_spaces() {
    let table = read_csv("\u{feff}label,\"x\"\r\n\"cat, \"\"big\"\"\", 1 \r\n\"two\nlines\",\"2\"\r\n").unwrap();
    assert_eq!(table.labels, words(&["cat, \"big\"", "two\nlines"]));
    assert_eq!(table.embeddings().as_slice(), [1.0, 2.0]);
    let table = read_csv("x\n1\n\n2").unwrap();
    assert_eq!(table.embeddings().as_slice(), [1.0, 2.0]);
}

#[test]
fn labels_are_integers_only_if_all_are_written_as_such() {
    let labels = |text: &str| read_csv(format!("x,label\n1,{}\n", text.replace(' ', "\n1,"))).unwrap().labels;
    assert_eq!(labels("0 -7 9223372036854775807"), integers(&[0, -7, i64::MAX]));
    for text in ["1 007", "1 +1", "1 -0", "1 1.0", "1 9223372036854775808", "1 cat"] {
        assert_eq!(labels(text), words(&text.split(' ').collect::<Vec<_>>()));
    }
}

#[test]
fn columns_of_other_names() {
    let options =
        ReadOptions { label_column: Some("target".into()), id_column: Some("name".into()), ..ReadOptions::default() };
    let table = read_with("x.csv", "name,x,target\na,1,0\nb,2,1\n", &options).unwrap();
    assert_eq!(table.embeddings().as_slice(), [1.0, 2.0]);
    assert_eq!(table.labels, integers(&[0, 1]));
    assert_eq!(table.ids, Some(names(&["a", "b"])));

    let error = assert_refused(read_with("x.csv", "name,x\na,1\n", &options), &["`target`", "`name`, `x`"]);
    assert!(matches!(error, Error::MissingKey { .. }));
    assert_refused(read_with("x.csv", "target,x\n0,1\n", &options), &["`name`"]);
    let same =
        ReadOptions { id_column: Some("target".into()), label_column: Some("target".into()), ..ReadOptions::default() };
    assert_refused(read_with("x.csv", "target,x\n0,1\n", &same), &["both label and id"]);
}

#[test]
fn numbers_that_cannot_be_used_name_line_and_column() {
    let place = "line 3, column `x1`";
    assert_refused(read_csv("label,x0,x1\na,1,2\na,1,b\n"), &["x.csv", place, "`b` is not a number"]);
    assert_refused(read_csv("label,x0,x1\na,1,2\na,1,\n"), &[place, "is empty"]);
    for value in ["nan", "NaN", "inf", "-inf", "1e39"] {
        assert_refused(read_csv(format!("label,x0,x1\na,1,2\na,1,{value}\n")), &[place, value, "finite"]);
    }
    let table = read_csv("label,x0\n\"a\nb\",1\n,2\n").unwrap();
    assert_refused(table.into_dataset(), &["x.csv: no label at line 4;", "`unlabeled`"]);
}

#[test]
fn rows_of_other_lengths_name_the_line() {
    assert_refused(read_csv("a,b\n1,2\n1\n"), &["line 3", "has 1 fields", "2"]);
    assert_refused(read_csv("a,b\n1,2,3\n"), &["line 2", "has 3 fields"]);
}

#[test]
fn a_header_that_is_none_is_refused() {
    assert_refused(read_csv("0.5,1.5\n1,2\n"), &["line 1", "`0.5` is a number", "name the columns"]);
    assert_refused(read_csv(",x,y\n0,1,2\n"), &["line 1", "column 1 has no name", "index=False"]);
    assert_refused(read_csv("label;x;y\n0;1;2\n"), &["line 1", "separated by \";\""]);
    assert_refused(read_csv("label,x,label\n0,1,2\n"), &["two columns named `label`"]);
    assert_refused(read_csv("\n\n"), &["header"]);
    // What pandas calls the columns of an array.
    assert_eq!(read_csv("0,1\n3,4\n").unwrap().embeddings().as_slice(), [3.0, 4.0]);
}

#[test]
fn no_rows_or_no_columns_are_refused() {
    assert_refused(read_csv("label,x\n"), &["0 × 1"]);
    assert_refused(read_csv("label\ncat\n"), &["1 × 0"]);
}

#[test]
fn other_encodings_name_the_line() {
    assert_refused(read_csv(b"label,x\ncat,1\nd\xf6g,2\n"), &["line 3", "UTF-8"]);
}

#[test]
fn label_files_of_every_kind() {
    assert_eq!(read_with_labels("y.txt", "cat\ndog\r\ncat").unwrap(), words(&["cat", "dog", "cat"]));
    assert_eq!(read_with_labels("y.txt", "\u{feff}3\n1\n2\n").unwrap(), integers(&[3, 1, 2]));
    assert_eq!(read_with_labels("y.csv", "label\n3\n1\n2\n").unwrap(), integers(&[3, 1, 2]));
    assert_eq!(read_with_labels("y.csv", "3\n1\n2\n").unwrap(), integers(&[3, 1, 2]));
    assert_eq!(read_with_labels("y.csv", "\"a, b\"\nc\nd\n").unwrap(), words(&["a, b", "c", "d"]));
    assert_eq!(read_with_labels("y.csv", "n,label\n0,a\n1,b\n2,c\n").unwrap(), words(&["a", "b", "c"]));
    assert_eq!(read_with_labels("y.tsv", "n\tlabel\n0\ta\n1\tb\n2\tc\n").unwrap(), words(&["a", "b", "c"]));
}

#[test]
fn label_files_that_cannot_be_used() {
    assert_refused(read_with_labels("y.txt", b"a\n\xff\nb\n"), &["y.txt", "line 2", "UTF-8"]);
    assert_refused(read_with_labels("y.txt", "a\nb\n"), &["number of labels", "expected 3, found 2"]);
    assert_refused(read_with_labels("y.txt", ""), &["y.txt", "0 bytes"]);
    assert_refused(read_with_labels("y.csv", "n,class\n0,a\n"), &["y.csv", "`label`", "`n`, `class`"]);
    assert_refused(read_with_labels("y.json", "[]"), &["y.json", ".npy, .txt, .csv and .tsv"]);
}

/// Rows without a label are read, and named by their lines when somebody needs one; who does not is not bothered.
#[test]
fn empty_cells_are_rows_without_a_label() {
    let text = "label,x\n3,1\n,2\n5,3\n";
    let table = read_csv(text).unwrap();
    assert_refused(
        table.clone().into_dataset(),
        &["x.csv: no label at line 3; the setting `unlabeled`, with an empty text"],
    );
    let (table, out) = table.leave_out_unlabeled("").unwrap();
    let data = table.into_dataset().unwrap();
    assert_eq!((out, data.rows, data.classes), (1, vec![0, 2], names(&["3", "5"])));
    assert_eq!(data.label_kind, Kind::Integer, "what is left are integers");
    let options = ReadOptions { without_labels: true, ..ReadOptions::default() };
    assert_eq!(read_with("x.csv", text, &options).unwrap().embeddings().as_slice(), [1.0, 2.0, 3.0]);
    let absent = ReadOptions { label_column: Some("y".into()), ..options };
    assert_eq!(read_with("x.csv", "x\n1\n", &absent).unwrap().labels, None);

    let folder = tempfile::tempdir().unwrap();
    let labels = folder.path().join("y.txt");
    std::fs::write(&labels, "a\n\nb\n").unwrap();
    let options = ReadOptions { labels: Some(labels), ..ReadOptions::default() };
    let table = dance::data::io::read(super::fixture("f4.npy"), &options).unwrap();
    assert_refused(table.into_dataset(), &["y.txt: no label at line 2;"]);
}

#[test]
fn a_missing_column_of_labels_names_those_that_are_there() {
    let bare = read_csv("x,y\n1,2\n").unwrap();
    assert_refused(bare.into_dataset(), &["has no `label`; it holds `x`, `y`", "`label_column`", "`labels`"]);
}

#[test]
fn ids_are_integers_only_if_all_are_written_as_such() {
    assert_eq!(read_csv("id,x\n7,1\n-8,2\n").unwrap().id_kind, Kind::Integer);
    for id in ["007", "a", "", "9223372036854775808"] {
        assert_eq!(read_csv(format!("id,x\n7,1\n{id},2\n")).unwrap().id_kind, Kind::Text);
    }
}

/// How points came to be there is no dimension, and matters where labels do.
#[test]
fn provenance_is_read_from_its_column() {
    let text = "x0,provenance,label\n1,picked,a\n2,random,b\n3,,a\n";
    let table = read_csv(text).unwrap();
    assert_eq!((table.embeddings().cols(), table.picked), (1, Some(vec![true, false, false])));
    let without = ReadOptions { without_labels: true, ..ReadOptions::default() };
    let points = read_with("x.csv", text.replace("picked", "the attic"), &without).unwrap();
    assert_eq!((points.embeddings().cols(), points.picked), (1, None));
    let odd = read_csv(text.replace("picked", "the attic"));
    assert_refused(odd, &["line 2, column `provenance`: `the attic` is no provenance"]);
}
