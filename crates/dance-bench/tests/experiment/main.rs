//! Experiments: what they record, that they continue, and what they write.

#![allow(clippy::unwrap_used)] // a test may panic

mod report;

use std::cell::RefCell;
use std::sync::LazyLock;

use dance::data::RawLabels;
use dance::device::Cpu;
use dance::numeric::random::Random;
use dance::{Context, Dataset, Matrix, Table};
use dance_bench::experiment::{self, Ablation, Method, Plan, Results};

static CONTEXT: LazyLock<Context<'static>> = LazyLock::new(|| Context::new(2).unwrap());

/// Blobs, one per class, with their centers as prototypes if `prototypes` is set.
fn blobs(n: usize, classes: usize, seed: u64, prototypes: bool) -> Dataset {
    let (d, mut random) = (6, Random::new(seed, 4));
    let center = |class: usize, at: usize| dance::numeric::random::uniform_of(&[class as u64, at as u64]) - 0.5;
    let labels: Vec<i64> = (0..n).map(|row| (row % classes) as i64).collect();
    let values = (0..n * d).map(|at| (center(at / d % classes, at % d) + 0.25 * random.normal()) as f32).collect();
    let centers = (0..classes * d).map(|at| center(at / d, at % d) as f32).collect();
    let mut table = Table::new("blobs", Matrix::new(values, n, d).unwrap()).unwrap();
    table.labels = Some(RawLabels::Integers(labels));
    table.prototypes = prototypes.then(|| Matrix::new(centers, classes, d).unwrap());
    table.into_dataset().unwrap()
}

fn plan() -> Plan {
    let mut plan = Plan { seeds: 2, methods: Method::all(), ablations: Ablation::ALL.to_vec(), ..Plan::default() };
    plan.config.tune.evaluations = 2;
    plan.config = plan.config.rounds(1);
    plan
}

/// A run over two small data sets; names of the cases that ran.
fn run(results: &mut Results) -> Vec<String> {
    let ran = RefCell::new(Vec::new());
    let begins = |name: &str, seed: u64| ran.borrow_mut().push(format!("{name} {seed}"));
    for (name, prototypes) in [("with <prototypes>", true), ("without", false)] {
        let data = blobs(300, 6, 1, prototypes);
        experiment::run_dataset(&Cpu, &data, name, results, None, &begins, &CONTEXT).unwrap();
    }
    ran.into_inner()
}

static RESULTS: LazyLock<Results> = LazyLock::new(|| {
    let mut results = Results::new(plan());
    assert_eq!(run(&mut results).len(), 4);
    results
});

#[test]
fn one_record_a_data_set_seed_method_and_alpha() {
    let results = &*RESULTS;
    let methods = Method::all().len();
    let with: Vec<_> = results.cases.iter().filter(|case| case.data.starts_with("with ")).collect();
    let without: Vec<_> = results.cases.iter().filter(|case| case.data == "without").collect();
    assert!(with.iter().all(|case| case.records.len() == 2 * methods && case.skipped.is_empty()));
    assert!(without.iter().all(|case| case.records.len() == 2 * (methods - 2)));
    assert!(without.iter().all(|case| case.skipped.iter().all(|skipped| skipped.reason == "needs prototypes")));
    for record in results.records() {
        let metrics = &record.metrics;
        assert_eq!(metrics.points, 60);
        assert_eq!(record.sizes.iter().sum::<usize>(), 60);
        let labels: usize = record.sizes.iter().enumerate().map(|(size, count)| size * count).sum();
        assert!((labels as f64 / 60.0 - metrics.size).abs() < 1e-9);
        let covered: usize = record.class_coverage.iter().map(|class| class[0]).sum();
        assert!((covered as f64 / 60.0 - metrics.coverage).abs() < 1e-9);
    }
    // Portions are made of all points, and those of the whole give its coverage.
    for record in results.records() {
        for parts in [&record.breakdown.by_confidence, &record.breakdown.by_size, &record.breakdown.by_frequency] {
            assert_eq!(parts.iter().map(|part| part.points).sum::<usize>(), 60);
            let covered: f64 = parts.iter().map(|part| part.points as f64 * part.coverage).sum();
            assert!((covered / 60.0 - record.metrics.coverage).abs() < 1e-9);
        }
    }
    // Methods with probabilities of their own have their quality recorded.
    let own = |case: &&experiment::Case| case.posteriors.iter().map(|own| own.method).collect::<Vec<_>>();
    let classifiers = [Method::Posterior, Method::PosteriorSplit, Method::LogisticRegression];
    let with_prototypes = [&classifiers[..], &[Method::ConfOtAps, Method::ConfOtRaps]].concat();
    assert!(with.iter().all(|case| own(case) == with_prototypes));
    assert!(without.iter().all(|case| own(case) == classifiers));
    for case in &results.cases {
        for posterior in &case.posteriors {
            assert_eq!(posterior.metrics.points, 60);
            let (own, kernel) = (posterior.metrics.accuracy(), case.probabilities.accuracy());
            assert!(own > kernel - 0.15, "{}: {own}, the kernel machine {kernel}", posterior.method);
        }
    }
    // Easy blobs and 60 test points: far below the level would be a mistake, not chance.
    for &method in &Method::all() {
        let own = results.records().filter(|record| record.method == method && record.alpha == 0.1);
        let coverage: Vec<f64> = own.map(|record| record.metrics.coverage).collect();
        let mean = coverage.iter().sum::<f64>() / coverage.len() as f64;
        // Interpolated thresholds guarantee 1 - 2α.
        let least = if method.guarantee().contains("2 alpha") { 0.7 } else { 0.8 };
        assert!(mean > least, "{method}: {mean}");
    }
}

#[test]
fn a_run_continues_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    RESULTS.write(&file).unwrap();
    let mut again = Results::read(&file).unwrap();
    assert_eq!(again.cases.len(), 4);
    assert_eq!(again, *RESULTS);
    // Everything is there: nothing runs.
    assert!(run(&mut again).is_empty());
    // A killed run lacks its last cases; only those run, and give the same.
    again.cases.truncate(3);
    assert_eq!(run(&mut again), ["without 1"]);
    let metrics = |results: &Results| results.records().map(|record| record.metrics.clone()).collect::<Vec<_>>();
    assert_eq!(metrics(&again), metrics(&RESULTS));
    // A data set that has changed runs again.
    again.cases[0].data_hash = "another".into();
    assert_eq!(run(&mut again), ["with <prototypes> 0"]);
}

/// Prototypes enter the numbers of Conf-OT: others, or none where there were some, are other data.
#[test]
fn other_prototypes_run_again() {
    let mut plan = plan();
    (plan.seeds, plan.methods, plan.ablations) = (1, vec![Method::ConfOtAps], Vec::new());
    let mut results = Results::new(plan);
    let mut shifted = blobs(120, 4, 2, true);
    let turned: Vec<usize> = vec![1, 2, 3, 0];
    shifted.prototypes = shifted.prototypes.map(|prototypes| prototypes.select(&turned));
    for (data, again) in [
        (blobs(120, 4, 2, false), true),
        (blobs(120, 4, 2, true), true),
        (blobs(120, 4, 2, true), false),
        (shifted, true),
    ] {
        let ran = RefCell::new(0);
        let begins = |_: &str, _: u64| *ran.borrow_mut() += 1;
        experiment::run_dataset(&Cpu, &data, "data", &mut results, None, &begins, &CONTEXT).unwrap();
        assert_eq!(ran.into_inner() == 1, again);
        assert_eq!(results.cases.len(), 1, "results of the former data are dropped");
    }
}

/// Every seed draws its own tail, which all methods share. Tables name the law.
#[test]
fn long_tails_are_drawn_and_reported() {
    let methods = vec![Method::Lac, Method::Pas, Method::Clustered];
    let plan = Plan { methods, ablations: Vec::new(), zipf: Some(1.0), ..plan() };
    let mut results = Results::new(plan);
    let data = blobs(600, 6, 1, false);
    experiment::run_dataset(&Cpu, &data, "tail", &mut results, None, &|_, _| (), &CONTEXT).unwrap();
    for case in &results.cases {
        // 100 of the first class, 50, 33, 25, 20 and 17 of the others.
        assert_eq!((case.points, case.classes, case.records.len()), (245, 6, 6));
        assert_eq!(case.parts.iter().sum::<usize>(), 245);
    }
    let classes = |case: &experiment::Case| -> Vec<usize> {
        case.records[0].class_coverage.iter().map(|class| class[1]).collect()
    };
    assert_ne!(classes(&results.cases[0]), classes(&results.cases[1]));
    let markdown = dance_bench::report::tables::main(&results).to_markdown();
    assert!(markdown.contains("Mean over 1 data set and 2 seeds"), "{markdown}");
    assert!(markdown.contains("rank^-1, ranks drawn at random"), "{markdown}");
}

/// A file of an older version has neither portions nor probabilities of methods.
#[test]
fn older_results_are_read() {
    let mut older = serde_json::to_value(&*RESULTS).unwrap();
    older["plan"].as_object_mut().unwrap().remove("zipf");
    for case in older["cases"].as_array_mut().unwrap() {
        case.as_object_mut().unwrap().remove("posteriors");
        for record in case["records"].as_array_mut().unwrap() {
            record.as_object_mut().unwrap().remove("breakdown");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    std::fs::write(&file, older.to_string()).unwrap();
    let read = Results::read(&file).unwrap();
    assert_eq!(read.cases.len(), 4);
    dance_bench::report::write(&read, folder.path()).unwrap();
}

#[test]
fn a_damaged_file_of_results_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    for text in ["", "{}", "[1", &serde_json::to_string(&*RESULTS).unwrap().replacen("\"format\":2", "\"format\":9", 1)]
    {
        std::fs::write(&file, text).unwrap();
        assert!(matches!(Results::read(&file), Err(dance::Error::Format { .. })));
    }
}

#[test]
fn a_bad_file_among_good_ones_is_noted_and_the_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.csv"), folder.path().join("bad.npz"));
    let mut text = String::from("label,a,b\n");
    for row in 0..60 {
        let noise = dance::numeric::random::uniform_of(&[row]);
        text += &format!("c{},{},{}\n", row % 2, (row % 2) as f64 + noise, 1.0 - noise);
    }
    std::fs::write(&good, text).unwrap();
    std::fs::write(&bad, "not an archive").unwrap();
    let missing = folder.path().join("missing.npy");
    let tiny = folder.path().join("tiny.csv");
    std::fs::write(&tiny, "label,a,b\nx,1,2\ny,2,1\n").unwrap();
    let mut results = Results::new(Plan { seeds: 1, methods: vec![Method::Aps], ablations: vec![], ..plan() });
    let files = [bad, good, missing, tiny];
    experiment::run(&Cpu, &files, &dance::data::io::ReadOptions::default(), &mut results, None, &|_, _| (), &CONTEXT)
        .unwrap();
    assert_eq!(results.cases.len(), 1);
    let failed: Vec<&str> = results.failures.iter().map(|failure| failure.data.as_str()).collect();
    assert_eq!(failed, ["bad", "missing", "tiny"]);
}

#[test]
fn an_alpha_that_the_calibration_part_cannot_support_is_reported() {
    let mut results =
        Results::new(Plan { seeds: 1, alphas: vec![0.001], methods: vec![Method::Aps], ablations: vec![], ..plan() });
    let data = blobs(150, 3, 2, false);
    experiment::run_dataset(&Cpu, &data, "few", &mut results, None, &|_, _| (), &CONTEXT).unwrap();
    assert!(results.cases[0].warnings.iter().any(|warning| warning.contains("support no alpha")));
    assert_eq!(results.cases[0].records[0].metrics.size, 3.0);
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    for plan in [
        Plan { alphas: vec![], ..plan() },
        Plan { alphas: vec![1.5], ..plan() },
        Plan { seeds: 0, ..plan() },
        Plan { methods: vec![], ..plan() },
        Plan { zipf: Some(0.0), ..plan() },
        Plan { zipf: Some(f64::NAN), ..plan() },
    ] {
        assert!(matches!(plan.check(), Err(dance::Error::Config { .. })));
    }
    assert_eq!(experiment::names(&["a/x.npz".into(), "b/x.npz".into()]), ["x", "x-2"]);
}
