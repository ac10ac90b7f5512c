//! The model file: everything survives it, damage is noticed, and files of other formats are refused.

use std::path::Path;

use dance::conformal::{MethodName, Mix};
use dance::data::{Normalize, RawLabels};
use dance::device::Cpu;
use dance::numeric::random::Random;
use dance::{Dance, Error, Fitted, Matrix, PredictOptions, Table};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{CONTEXT, FUSE, POSTERIOR, POSTERIOR_SPLIT, REUSE, SPLIT, WAYS, blobs, config, model};

pub(crate) fn parse(bytes: &[u8]) -> Result<Dance, Error> {
    Dance::from_bytes(&Cpu, bytes, "test.safetensors", &CONTEXT)
}

pub(crate) fn header_of(bytes: &[u8]) -> (Value, &[u8]) {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[8..8 + length]).unwrap(), &bytes[8 + length..])
}

/// A file with another header (or other data) and a checksum that fits.
pub(crate) fn sealed(header: &Value, data: &[u8]) -> Vec<u8> {
    let mut header = header.clone();
    header["__metadata__"]["checksum"] = json!("0".repeat(64));
    let mut text = header.to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text);
    file.extend(data);
    let sum = format!("{:x}", Sha256::digest(&file));
    let key = b"\"checksum\":\"";
    let place = file.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    file[place..place + 64].copy_from_slice(sum.as_bytes());
    file
}

#[test]
fn everything_survives() {
    let folder = tempfile::tempdir().unwrap();
    let ways = [
        (REUSE, Mix::Auto, Normalize::L2),
        (SPLIT, Mix::Auto, Normalize::Standardize),
        (SPLIT, Mix::Fixed(0.3), Normalize::None),
        (FUSE, Mix::Auto, Normalize::None),
        (POSTERIOR, Mix::Auto, Normalize::L2),
        (POSTERIOR, Mix::Auto, Normalize::Standardize),
        (POSTERIOR_SPLIT, Mix::Auto, Normalize::None),
    ];
    for (way, mix, normalize) in ways {
        let mut config = config(way);
        config.normalize = normalize;
        config.conformal.mix = mix;
        let has_noise = way.0 == MethodName::Dance;
        config.conformal.tie_noise = if has_noise { 0.1 + 0.2 } else { 0.0 };
        let model = model(&config);
        let path = folder.path().join("model.safetensors");
        model.save(&path).unwrap();
        let loaded = Dance::load(&Cpu, &path, &CONTEXT).unwrap();
        assert_eq!(loaded.fitted(), model.fitted());
        assert_eq!(loaded.experts(), model.experts());
        assert_eq!(loaded.to_bytes().unwrap(), model.to_bytes().unwrap());
        let test = blobs(100, 5, 0, 9);
        let ask = |model: &Dance| {
            let scored = model.score(&test.embeddings, PredictOptions::default(), &CONTEXT).unwrap();
            let prediction = model.predict(&scored, &model.decide(0.07).unwrap());
            (scored, prediction)
        };
        assert_eq!(ask(&loaded), ask(&model));
    }
    // Nothing but the model is left in the folder.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Where no expert helps, one is kept nevertheless, and the model can be read again.
#[test]
fn labels_that_follow_from_nothing_make_a_model_too() {
    let points = |n: usize| {
        let side = |row: usize| if (row / 2).is_multiple_of(2) { [1.0, 1.0] } else { [-1.0, -1.0] };
        let values = (0..n).flat_map(side).collect();
        let mut table = Table::new("sides", Matrix::new(values, n, 2).unwrap()).unwrap();
        table.labels = Some(RawLabels::Integers((0..n as i64).map(|row| row % 2).collect()));
        table.into_dataset().unwrap()
    };
    let fitted = Fitted::fit(&Cpu, &points(40), &config(POSTERIOR), &CONTEXT).unwrap();
    let model = fitted.calibrate(&Cpu, &points(60), &CONTEXT).unwrap();
    assert_eq!(model.experts().unwrap().as_array().unwrap().len(), 1);
    let loaded = parse(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(loaded.experts(), model.experts());
    // Both labels are equally likely everywhere, so none can be left out.
    let scored = loaded.score(&points(4).embeddings, PredictOptions::default(), &CONTEXT).unwrap();
    let prediction = loaded.predict(&scored, &loaded.decide(0.1).unwrap());
    assert!(prediction.sets.iter().all(|set| set.len() == 2));
}

#[test]
fn a_folder_that_is_not_there_and_a_file_that_is_not_there() {
    let model = model(&config(REUSE));
    let nowhere = Path::new("/nowhere/model.safetensors");
    assert!(matches!(model.save(nowhere), Err(Error::Write { .. })));
    assert!(matches!(Dance::load(&Cpu, nowhere, &CONTEXT), Err(Error::Io { .. })));
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    assert!(Dance::load(&Cpu, &empty, &CONTEXT).is_err());
}

#[test]
fn damage_is_noticed() {
    let bytes = model(&config(REUSE)).to_bytes().unwrap();
    for length in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
        assert!(parse(&bytes[..length]).is_err(), "cut at {length}");
    }
    let mut random = Random::new(1, 1);
    for _ in 0..300 {
        let mut flipped = bytes.clone();
        let place = random.below(bytes.len());
        flipped[place] ^= 1 << random.below(8);
        assert!(parse(&flipped).is_err(), "bit flipped at {place}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(parse(&longer).is_err());
}

#[test]
fn other_formats_and_wrong_tensors_are_named() {
    let bytes = model(&config(REUSE)).to_bytes().unwrap();
    let (header, data) = header_of(&bytes);
    assert!(parse(&sealed(&header, data)).is_ok());
    let message = |change: &dyn Fn(&mut Value)| {
        let mut header = header.clone();
        change(&mut header);
        parse(&sealed(&header, data)).unwrap_err().to_string()
    };
    for format in ["2", "0", "4000"] {
        let other = message(&|header| header["__metadata__"]["format"] = json!(format));
        let expected = format!("its format is {format}, and this version of dance reads format 1; fit the model again");
        assert!(other.contains(&expected), "{other}");
    }
    let shape = message(&|header| header["metric_root"]["shape"] = json!([4, 9]));
    assert!(shape.contains("`metric_root` is 4 × 9; expected 6 × 6"), "{shape}");
    let kind = message(&|header| header["reference_labels"]["dtype"] = json!("I32"));
    assert!(kind.contains("`reference_labels` is of type I32"), "{kind}");
    let missing = message(&|header| {
        let beta = header["beta"].take();
        header.as_object_mut().unwrap().remove("beta");
        header["gamma"] = beta;
    });
    assert!(missing.contains("has no `beta`"), "{missing}");
    let config = message(&|header| header["__metadata__"]["config"] = json!("{\"surprise\": 1}"));
    assert!(config.contains("config"), "{config}");
    let scale = message(&|header| {
        header["__metadata__"]["probabilities"] = json!("{\"floor\":0,\"ceiling\":null,\"power\":3}");
    });
    assert!(scale.contains("`probabilities`"), "{scale}");
    let twice = message(&|header| {
        header["__metadata__"]["classes"] = json!("[\"0\",\"1\",\"2\",\"1\",\"4\"]");
    });
    assert!(twice.contains("two classes are called `1`"), "{twice}");
    let classes = message(&|header| header["__metadata__"]["classes"] = json!("[\"0\"]"));
    assert!(classes.contains("classes"), "{classes}");
}

/// Numbers that no model has: each tensor's own are refused by its name.
#[test]
fn numbers_that_make_no_sense_are_refused() {
    let mut config = config(FUSE);
    config.normalize = Normalize::Standardize;
    let bytes = model(&config).to_bytes().unwrap();
    let (header, data) = header_of(&bytes);
    for (tensor, number) in [
        ("calibration_probabilities", 1.5f32),
        ("calibration_probabilities", -0.1),
        ("calibration_probabilities", f32::NAN),
        ("normalize_scale", 0.0),
        ("normalize_mean", f32::INFINITY),
        ("beta", f32::NAN),
        ("train", f32::INFINITY),
        ("reference", f32::NAN),
        ("metric_root", f32::NEG_INFINITY),
    ] {
        let mut data = data.to_vec();
        let place = header[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
        data[place..place + 4].copy_from_slice(&number.to_le_bytes());
        let error = parse(&sealed(&header, &data)).unwrap_err().to_string();
        assert!(error.contains(&format!("`{tensor}`")), "{tensor} {number}: {error}");
    }
}

/// No file with a valid checksum makes loading or predicting panic.
#[test]
fn no_file_can_make_it_panic() {
    let models = WAYS.map(|way| model(&config(way)).to_bytes().unwrap());
    let parts = models.each_ref().map(|bytes| header_of(bytes));
    let mut random = Random::new(2, 2);
    let test = blobs(3, 3, 0, 1).embeddings;
    let mut accepted = 0;
    for round in 0..2400 {
        let (header, data) = &parts[round % WAYS.len()];
        let (mut text, mut data) = (header.to_string().into_bytes(), data.to_vec());
        for _ in 0..=random.below(3) {
            if round % 2 == 0 {
                let place = random.below(text.len());
                let symbols = b"0123456789\",:[]{}e-.axnull";
                text[place] = symbols[random.below(symbols.len())];
            } else {
                let place = random.below(data.len());
                data[place] = random.bits() as u8;
            }
        }
        let Ok(header) = serde_json::from_slice::<Value>(&text) else { continue };
        if !header["__metadata__"].is_object() {
            continue;
        }
        if let Ok(model) = parse(&sealed(&header, &data)) {
            accepted += 1;
            if let Ok(scored) = model.score(&test, PredictOptions::default(), &CONTEXT) {
                let _ = model.decide(0.1).map(|decision| model.predict(&scored, &decision));
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
}
