//! `.jsonl`: a point per line.

use dance::data::io::{self, Format, ReadOptions};
use dance::data::{Kind, RawLabels};

use super::{assert_refused, fixture, integers, names, read_bytes, read_with, words, x};

fn read(text: &str) -> dance::Result<dance::Table> {
    read_bytes("x.jsonl", text)
}

#[test]
fn points_with_labels_and_ids() {
    let table = read(
        "{\"embedding\":[1.5,-2e0],\"label\":\"cat\",\"id\":7}\n\n{\"id\":8,\"label\":\"dog\",\"embedding\":[0,4]}",
    )
    .unwrap();
    assert_eq!(table.embeddings().as_slice(), [1.5, -2.0, 0.0, 4.0]);
    assert_eq!(table.labels, words(&["cat", "dog"]));
    assert_eq!((table.ids, table.id_kind), (Some(names(&["7", "8"])), Kind::Integer));
    assert_eq!(read_bytes("x.ndjson", "[1,2]\n[3,4]\n").unwrap().embeddings().as_slice(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn labels_keep_their_kind() {
    let labels = |values: &[&str]| {
        let lines = values.iter().map(|value| format!("{{\"embedding\":[1],\"label\":{value}}}\n"));
        read(&lines.collect::<String>()).unwrap()
    };
    assert_eq!(labels(&["3", "-7"]).labels, integers(&[3, -7]));
    assert_eq!(labels(&["true", "false"]).labels, Some(RawLabels::Booleans(vec![true, false])));
    assert_eq!(labels(&["3", "4.0"]).labels, Some(RawLabels::Floats(vec![3.0, 4.0])));
    assert_eq!(labels(&["3", "\"x\""]).labels, words(&["3", "x"]));
    assert_eq!(labels(&["\"3\"", "\"4\""]).labels, words(&["3", "4"]), "texts stay texts");
    // Beyond 64 bits, digit by digit.
    assert_eq!(labels(&["36893488147419103233", "1"]).labels, words(&["36893488147419103233", "1"]));
    let table = labels(&["3", "null", "4"]);
    assert_refused(table.clone().into_dataset(), &["x.jsonl: no label at line 2;"]);
    let (table, out) = table.leave_out_unlabeled("").unwrap();
    assert_eq!((out, table.into_dataset().unwrap().label_kind), (1, Kind::Integer));
}

#[test]
fn what_is_wrong_names_the_line_once() {
    for (line, problem) in [
        ("[1,2,3]", "line 3: 3 numbers, where 2 are expected"),
        ("[1,1e60]", "line 3: number 1 is inf"),
        ("[1,", "line 3: not JSON: EOF while parsing a value at character 3"),
        ("{\"x\":1}", "line 3: must be {\"embedding\": [numbers]"),
        ("{\"embedding\":[1,2],\"label\":[1]}", "line 3: the label must be a text"),
    ] {
        let message = assert_refused(read(&format!("[1,2]\n\n{line}\n")), &["x.jsonl", problem]).to_string();
        assert_eq!(message.matches("line").count(), 1, "{message}");
    }
    assert_refused(read("[1,2]\n").unwrap().into_dataset(), &["has no `label`", "`label_column`"]);
    let other = read("{\"embedding\":[1,2],\"class\":3}\n").unwrap();
    assert_refused(other.into_dataset(), &["it holds `embedding`, `class`"]);
    assert_refused(read("\n"), &["0 × 0"]);
}

#[test]
fn parts_of_other_names() {
    let options = ReadOptions {
        embedding_column: Some("vector".into()),
        label_column: Some("class".into()),
        id_column: Some("name".into()),
        ..ReadOptions::default()
    };
    let line = "{\"vector\":[1,2],\"class\":\"a\",\"name\":\"n\"}\n";
    let table = read_with("x.jsonl", line, &options).unwrap();
    assert_eq!((table.labels, table.ids), (words(&["a"]), Some(names(&["n"]))));
    // The same options for arrays, tensors and columns.
    let embeddings = |name: &str| ReadOptions { embedding_column: Some(name.into()), ..ReadOptions::default() };
    let other = ReadOptions { label_column: Some("targets".into()), ..embeddings("features") };
    let table = io::read(fixture("neither.npz"), &other).unwrap();
    assert_eq!((table.embeddings(), &table.labels), (&x(), &integers(&[0, 1, 0])));
    for file in ["everything.npz", "everything.safetensors"] {
        assert_refused(
            io::read(fixture(file), &embeddings("nothing")),
            &["no `nothing`", "`embeddings`", "`embedding_column`"],
        );
    }
    let labels = ReadOptions { label_column: Some("nothing".into()), ..ReadOptions::default() };
    for file in ["everything.npz", "everything.safetensors"] {
        assert_refused(io::read(fixture(file), &labels), &["no `nothing`", "`labels`", "`label_column`"]);
    }
    assert_refused(read_with("x.csv", "x\n1\n", &embeddings("x")), &["x.csv", "`x`", "dimension"]);
}

#[test]
fn a_format_that_is_said_wins_over_the_name() {
    let options = ReadOptions { format: Some(Format::Tsv), ..ReadOptions::default() };
    assert_eq!(read_with("x.dat", "x\ty\n1\t2\n", &options).unwrap().embeddings().as_slice(), [1.0, 2.0]);
    assert_eq!(read_with("x.csv", "x\ty\n1\t2\n", &options).unwrap().embeddings().as_slice(), [1.0, 2.0]);
}

#[test]
fn provenance_is_read_where_a_line_has_it() {
    let text = "{\"embedding\":[1],\"label\":1}\n{\"embedding\":[2],\"label\":2,\"provenance\":\"picked\"}\n[3]\n";
    assert_eq!(read(text).unwrap().picked, Some(vec![false, true, false]));
    assert_eq!(read("[3]\n").unwrap().picked, None);
    assert_refused(read(&text.replace("\"picked\"", "7")), &["line 2: `7` is no provenance"]);
}
