//! Formats: models and sets do not depend on the format of the data, and outputs can be read again.

use super::{run, scratch, shared};

#[test]
fn npz_csv_and_parquet_give_the_same_sets() {
    let (_folder, at) = scratch();
    let sets = |extension: &str| {
        let (data, model) = (shared(&format!("small.{extension}")), at(extension));
        run(&["fit", &data, "-o", &model, "--evaluations", "2", "--kernel", "rounds=1"]).success();
        let sets = run(&["predict", &model, &data, "--include", "probabilities,p-values,neighbors"]).success();
        (std::fs::read(&model).unwrap(), sets.stdout)
    };
    let (model, expected) = sets("npz");
    assert_eq!(expected.lines().count(), 480);
    for extension in ["csv", "parquet"] {
        let (other, found) = sets(extension);
        assert!(other == model, "{extension}: another model");
        assert!(found == expected, "{extension}: other sets");
    }
}

#[test]
fn every_output_holds_the_same_sets() {
    let (_folder, at) = scratch();
    let (model, test) = (shared("model"), shared("test.npz"));
    for extension in ["jsonl", "csv", "parquet", "npz"] {
        let out = at(&format!("sets.{extension}"));
        let include = "probabilities,p-values,neighbors";
        let ran = run(&["predict", &model, &test, "-o", &out, "--include", include, "--json"]).success();
        let report = ran.json();
        assert_eq!((report["rows"].clone(), report["levels"][0]["alpha"].clone()), (96.into(), 0.1.into()));
    }
    let lines: Vec<serde_json::Value> = std::fs::read_to_string(at("sets.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let expected: Vec<Vec<String>> =
        lines.iter().map(|line| serde_json::from_value(line["set"].clone()).unwrap()).collect();

    let mut reader = csv::Reader::from_path(at("sets.csv")).unwrap();
    let place = |name: &str, reader: &mut csv::Reader<std::fs::File>| {
        reader.headers().unwrap().iter().position(|column| column == name).unwrap()
    };
    let (set, prediction) = (place("set", &mut reader), place("prediction", &mut reader));
    for (record, line) in reader.records().zip(&lines) {
        let record = record.unwrap();
        let found: serde_json::Value = serde_json::from_str(&record[set]).unwrap();
        assert_eq!(found, line["set"]);
        assert_eq!(&record[prediction], line["prediction"].as_str().unwrap());
    }

    #[cfg(feature = "parquet")]
    {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        let file = SerializedFileReader::new(std::fs::File::open(at("sets.parquet")).unwrap()).unwrap();
        let found: Vec<serde_json::Value> =
            file.get_row_iter(None).unwrap().map(|row| row_to_json(&row.unwrap())).collect();
        assert_eq!(found.len(), lines.len());
        for (found, line) in found.iter().zip(&lines) {
            assert_eq!(found["set"], line["set"].to_string());
            assert_eq!(found["prediction"], line["prediction"]);
        }
    }

    // Flat values and offsets; the archive is read with the same reader as embeddings elsewhere.
    let mut archive = zip::ZipArchive::new(std::fs::File::open(at("sets.npz")).unwrap()).unwrap();
    let offsets = numbers(&mut archive, "set_offsets");
    assert_eq!(offsets.len(), 97);
    let lengths: Vec<i64> = offsets.windows(2).map(|ends| ends[1] - ends[0]).collect();
    assert_eq!(lengths, expected.iter().map(|set| set.len() as i64).collect::<Vec<_>>());
    let labels = texts(&mut archive, "set");
    assert_eq!(labels, expected.concat());
}

/// A row with its texts, and its list of texts as JSON.
#[cfg(feature = "parquet")]
fn row_to_json(row: &parquet::record::Row) -> serde_json::Value {
    use parquet::record::Field;
    let mut value = serde_json::Map::new();
    for (name, field) in row.get_column_iter() {
        match field {
            Field::Str(text) => value.insert(name.clone(), text.clone().into()),
            Field::ListInternal(list) => {
                let texts: Vec<_> = list
                    .elements()
                    .iter()
                    .map(|element| match element {
                        Field::Str(text) => text.clone(),
                        other => other.to_string(),
                    })
                    .collect();
                value.insert(name.clone(), serde_json::json!(texts).to_string().into())
            }
            _ => None,
        };
    }
    value.into()
}

type Archive = zip::ZipArchive<std::fs::File>;

/// The data of an array behind its header.
fn bytes(archive: &mut Archive, name: &str) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut archive.by_name(&format!("{name}.npy")).unwrap(), &mut bytes).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    (String::from_utf8(bytes[10..header].to_vec()).unwrap(), bytes[header..].to_vec())
}

fn numbers(archive: &mut Archive, name: &str) -> Vec<i64> {
    let (_, bytes) = bytes(archive, name);
    bytes.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn texts(archive: &mut Archive, name: &str) -> Vec<String> {
    let (header, bytes) = bytes(archive, name);
    let width: usize = header.split("'<U").nth(1).unwrap().split('\'').next().unwrap().parse().unwrap();
    let text = |bytes: &[u8]| {
        let codes = bytes.chunks_exact(4).map(|code| u32::from_le_bytes(code.try_into().unwrap()));
        codes.filter(|&code| code != 0).map(|code| char::from_u32(code).unwrap()).collect()
    };
    bytes.chunks_exact(4 * width).map(text).collect()
}
