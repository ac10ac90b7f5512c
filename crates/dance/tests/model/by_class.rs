//! Models that tell classes apart: the same from a file, on every device and by any number of threads.

use dance::conformal::{ByClass, CalibrationMode, Combine, Mix};
use dance::device::Cpu;
use dance::{Config, Context, Dance, Fitted, PredictOptions};
use serde_json::json;

use crate::file::{header_of, parse, sealed};
use crate::{CONTEXT, DEVICES, blobs, config, model, model_on};

fn by(by_class: ByClass, combine: Combine, mix: Mix) -> Config {
    let mut config = config(CalibrationMode::Exact, mix);
    config.dance.combine = combine;
    config.dance.by_class = by_class;
    config
}

fn ways() -> Vec<Config> {
    let scores =
        [(Combine::Fuse, Mix::Auto), (Combine::Joint, Mix::Fixed(1.0)), (Combine::Union, Mix::Fixed(0.0))];
    let promises = [ByClass::Fair, ByClass::Clusters, ByClass::Each];
    promises.iter().flat_map(|&promise| scores.map(|(combine, mix)| by(promise, combine, mix))).collect()
}

fn counts(model: &Dance, context: &Context<'_>) -> Vec<u32> {
    // More classes than the kernel knows, so that some labels have no probability.
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
        let asked = config.dance.by_class != ByClass::Each;
        assert_eq!(model.predictor().difficulty().is_some(), asked);
        assert_eq!(header_of(&bytes).0["fit_probabilities"].is_object(), asked);
    }
}

#[test]
fn devices_and_threads_make_no_difference() {
    for config in ways() {
        let models = DEVICES.map(|device| model_on(device, &config));
        assert_eq!(models[0].classes(), models[1].classes());
        let alone = Context::new(1).unwrap();
        assert_eq!(counts(&models[0], &alone), counts(&models[0], &CONTEXT));
        let again = model_on(DEVICES[0], &config);
        assert_eq!(again.to_bytes().unwrap(), models[0].to_bytes().unwrap());
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
    for promise in [ByClass::Fair, ByClass::Clusters] {
        let fit = |promise| {
            let config = by(promise, Combine::Fuse, Mix::Auto);
            let fitted = Fitted::fit(&Cpu, &blobs(15, 5, 0, 1), &config, &CONTEXT).unwrap();
            fitted.calibrate(&Cpu, &blobs(60, 5, 0, 2), &CONTEXT).unwrap()
        };
        let (model, together) = (fit(promise), fit(ByClass::Together));
        assert_eq!(counts(&model, &CONTEXT), counts(&together, &CONTEXT));
        let bytes = model.to_bytes().unwrap();
        assert_eq!(parse(&bytes).unwrap().to_bytes().unwrap(), bytes);
    }
}

#[test]
fn what_is_missing_is_named() {
    let bytes = model(&by(ByClass::Clusters, Combine::Fuse, Mix::Auto)).to_bytes().unwrap();
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
