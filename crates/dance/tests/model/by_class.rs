//! Models that tell classes apart: the same from a file and by any number of threads.

use dance::conformal::{ByClass, Calibration, MethodName, Mix};
use dance::device::Cpu;
use dance::{Config, Context, Dance, Fitted, PredictOptions};
use serde_json::json;

use crate::file::{header_of, parse, sealed};
use crate::{CONTEXT, blobs, config, model};

fn by(by_class: ByClass, combine: MethodName, mix: Mix) -> Config {
    let mut config = config(Calibration::Full, mix);
    config.conformal.method = combine;
    config.conformal.by_class = by_class;
    config
}

fn ways() -> Vec<Config> {
    let scores = [
        (MethodName::Fuse, Mix::Auto),
        (MethodName::Joint, Mix::Fixed(1.0)),
        (MethodName::Dance, Mix::Fixed(0.0)),
    ];
    let promises = [ByClass::Balanced, ByClass::Clusters, ByClass::Each];
    promises.iter().flat_map(|&promise| scores.map(|(combine, mix)| by(promise, combine, mix))).collect()
}

fn counts(model: &Dance, context: &Context<'_>) -> Vec<u32> {
    let test = blobs(40, 5, 0, 9);
    let scored = model.score(&test.embeddings, PredictOptions::default(), context).unwrap();
    let classes = model.classes().len() as u32;
    let label = |query: usize| (0..classes).map(move |label| (query, label));
    (0..40).flat_map(label).map(|(query, label)| scored.counts.get(query, label).combined).collect()
}

#[test]
fn they_survive_a_file() {
    for config in ways() {
        let model = model(&config);
        let bytes = model.to_bytes().unwrap();
        let loaded = parse(&bytes).unwrap();
        assert_eq!(loaded.to_bytes().unwrap(), bytes);
        assert_eq!(counts(&loaded, &CONTEXT), counts(&model, &CONTEXT));
        assert_eq!(loaded.guarantee(), model.guarantee());
        assert_eq!(loaded.predictor().difficulty(), model.predictor().difficulty());
        let asked = config.conformal.by_class != ByClass::Each;
        assert_eq!(model.predictor().difficulty().is_some(), asked);
        assert_eq!(header_of(&bytes).0["fit_probabilities"].is_object(), asked);
    }
}

#[test]
fn threads_make_no_difference() {
    let alone = Context::new(1).unwrap();
    for config in ways() {
        let [one, two] = [&alone, &CONTEXT].map(|context| {
            let fitted = Fitted::fit(&Cpu, &blobs(80, 5, 0, 1), &config, context).unwrap();
            fitted.calibrate(&Cpu, &blobs(120, 5, 0, 2), context).unwrap()
        });
        assert_eq!(one.to_bytes().unwrap(), two.to_bytes().unwrap());
        assert_eq!(counts(&one, &alone), counts(&two, &CONTEXT));
    }
}

#[test]
fn classes_that_only_calibration_points_have_are_like_the_average() {
    for config in ways() {
        let fitted = Fitted::fit(&Cpu, &blobs(80, 5, 0, 1), &config, &CONTEXT).unwrap();
        let model = fitted.calibrate(&Cpu, &blobs(120, 5, 2, 2), &CONTEXT).unwrap();
        assert_eq!(model.classes().len(), 7);
        let bytes = model.to_bytes().unwrap();
        assert_eq!(counts(&parse(&bytes).unwrap(), &CONTEXT), counts(&model, &CONTEXT));
    }
}

/// A handful of fit points cannot judge each other: all classes are taken to be as hard.
#[test]
fn few_fit_points_are_not_halved() {
    for promise in [ByClass::Balanced, ByClass::Clusters] {
        let fit = |promise| {
            let config = by(promise, MethodName::Fuse, Mix::Auto);
            let fitted = Fitted::fit(&Cpu, &blobs(15, 5, 0, 1), &config, &CONTEXT).unwrap();
            fitted.calibrate(&Cpu, &blobs(60, 5, 0, 2), &CONTEXT).unwrap()
        };
        let (model, together) = (fit(promise), fit(ByClass::All));
        assert_eq!(counts(&model, &CONTEXT), counts(&together, &CONTEXT));
        let bytes = model.to_bytes().unwrap();
        assert_eq!(parse(&bytes).unwrap().to_bytes().unwrap(), bytes);
    }
}

#[test]
fn what_is_missing_is_named() {
    let bytes = model(&by(ByClass::Clusters, MethodName::Fuse, Mix::Auto)).to_bytes().unwrap();
    let (header, data) = header_of(&bytes);
    for clusters in [json!(null), json!("null"), json!("{\"of_class\":[900],\"middle\":0}")] {
        let mut header = header.clone();
        header["__metadata__"]["clusters"] = clusters.clone();
        if clusters.is_null() {
            header["__metadata__"].as_object_mut().unwrap().remove("clusters");
        }
        let problem = parse(&sealed(&header, data)).unwrap_err().to_string();
        assert!(problem.contains("clusters"), "{problem}");
    }
}
