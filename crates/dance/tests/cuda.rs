//! A graphics processor against the CPU: the same bits of a classifier, the same neighbors, the same sets, at sizes larger than
//! every tile. Without one, every test says so.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)] // tests may; clippy's own exemption misses helper functions

use std::sync::{Arc, LazyLock};

use dance::conformal::MethodName;
use dance::data::{io, split};
use dance::device::{Candidates, Cpu, Device, DeviceChoice, FitPoints, MachineParts};
use dance::kernel::Kernel;
use dance::neighbors::{Index, squared_distance};
use dance::numeric::random::Random;
use dance::{Config, Context, Dance, Error, Fitted, Matrix, PredictOptions};

static CONTEXT: LazyLock<Context<'static>> = LazyLock::new(|| Context::new(0).unwrap());
static CUDA: LazyLock<Option<Arc<dyn Device>>> = LazyLock::new(|| match DeviceChoice::Cuda(0).open() {
    Ok((cuda, _)) => Some(cuda),
    Err(why) => {
        println!("skipped: {why}");
        None
    }
});

fn points(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed, 5);
    // Around a common center, as embeddings are.
    Matrix::new((0..rows * cols).map(|_| (1.5 + random.normal()) as f32).collect(), rows, cols).unwrap()
}

fn bits(matrix: &Matrix) -> Vec<u32> {
    matrix.as_slice().iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_classifier_gives_the_bits_of_the_cpu() {
    let Some(cuda) = CUDA.as_deref() else { return };
    for (n, d, c, shape) in [(1, 1, 2, 1.0), (130, 7, 3, 0.5), (700, 129, 140, 0.8), (2111, 300, 20, 2.0)] {
        let train = points(n, d, 1);
        let mut random = Random::new(3, 3);
        let root = Matrix::new((0..d * d).map(|_| random.normal() as f32 * 0.1).collect(), d, d).unwrap();
        let beta = Matrix::new((0..n * c).map(|_| random.normal() as f32).collect(), n, c).unwrap();
        let kernel = Kernel::new(1.7, shape).unwrap();
        let machine = MachineParts { root: &root, train: &train, kernel, beta: &beta };
        let [host, device] =
            [&Cpu as &dyn Device, cuda].map(|device| device.open_classifier(machine, &CONTEXT).unwrap());
        let mut queries = points(301, d, 2);
        queries.append(&train.select(&[0])).unwrap(); // a point at no distance of another
        let mapped = host.map(&queries, &CONTEXT).unwrap();
        assert!(bits(&mapped) == bits(&device.map(&queries, &CONTEXT).unwrap()), "map, d {d}");
        let outputs = device.outputs(&mapped, &CONTEXT).unwrap();
        assert!(bits(&host.outputs(&mapped, &CONTEXT).unwrap()) == bits(&outputs), "outputs, n {n} d {d} c {c}");
        let alone = device.outputs(&mapped.select(&[17]), &CONTEXT).unwrap();
        assert_eq!(alone.row(0), outputs.row(17));
    }
}

#[test]
fn neighbors_are_those_of_the_cpu() {
    let Some(cuda) = CUDA.as_deref() else { return };
    for (n, d, k) in [(1, 3, 5), (90, 2, 7), (3000, 65, 100), (5000, 512, 30)] {
        let mut all = points(n, d, 8);
        all.append(&all.select(&(0..n.min(40)).collect::<Vec<_>>())).unwrap(); // ties
        let mut random = Random::new(4, 4);
        let reach: Vec<f64> = (0..all.rows())
            .map(|at| match at % 50 {
                0 => f64::INFINITY,
                1 => -1.0,
                _ => 2.0 * d as f64 * (0.8 + 0.2 * random.uniform()),
            })
            .collect();
        let queries = points(333, d, 9);
        let [host, device] = [&Cpu as &dyn Device, cuda].map(|device| {
            let mut index = Index::open(device, all.clone(), &CONTEXT).unwrap();
            index.set_reach(reach.clone(), &CONTEXT).unwrap();
            let (found, reached) = index.search_both_ways(&queries, k, &CONTEXT).unwrap();
            (found, reached, index.search_own(all.rows(), k, &CONTEXT).unwrap())
        });
        assert!(host == device, "n {n} d {d} k {k}");
    }
    // So long that products overflow: every point is a candidate.
    let long = Matrix::new(vec![1e19, -1e19, 3e18, 0.0], 4, 1).unwrap();
    let query = Matrix::new(vec![2e18], 1, 1).unwrap();
    let ask =
        |device: &dyn Device| Index::open(device, long.clone(), &CONTEXT).unwrap().search(&query, 2, &CONTEXT).unwrap();
    assert_eq!(ask(&Cpu), ask(cuda));
}

/// The device's own distances, bit for bit, whatever is left over beside whole groups of 32 dimensions.
#[test]
fn distances_have_the_bits_of_the_host() {
    let Some(cuda) = CUDA.as_deref() else { return };
    for d in [1, 31, 32, 33, 65, 512, 515] {
        let (all, queries) = (points(700, d, 6), points(90, d, 7));
        let handle = cuda.open_index(&all, &CONTEXT).unwrap();
        let mut lists = Candidates::default();
        let mut random = Random::new(d as u64, 8);
        for query in 0..90 {
            lists.push((0..query * 2).map(|_| random.below(700) as u32)); // the first is empty
        }
        let asked = handle.open_queries(&queries, &CONTEXT).unwrap();
        let found = asked.distances(&lists).unwrap().unwrap();
        let pairs = (0..90).flat_map(|query| lists.get(query).iter().map(move |&id| (query, id as usize)));
        let expected: Vec<f64> = pairs.map(|(query, id)| squared_distance(queries.row(query), all.row(id))).collect();
        assert_eq!((*found).as_ref(), expected, "{d} dimensions");
    }
}

#[test]
fn inner_products_agree() {
    let Some(cuda) = CUDA.as_deref() else { return };
    let (left, right) = (points(70, 33, 1), points(20, 33, 2));
    let [host, device] =
        [&Cpu as &dyn Device, cuda].map(|device| device.inner_products(&left, &right, &CONTEXT).unwrap());
    for (a, b) in host.as_slice().iter().zip(device.as_slice()) {
        assert!((a - b).abs() < 1e-4 * a.abs().max(1.0), "{a} {b}");
    }
}

#[test]
fn a_fit_beyond_the_memory_is_refused_before_anything_is_allocated() {
    let Some(cuda) = CUDA.as_deref() else { return };
    let free = cuda.free_bytes().unwrap();
    // One dimension, so that the points are small where n×n is not.
    let n = ((free as f64 / 4.0).sqrt() * 1.05) as usize;
    let (train, none) = (points(n, 1, 1), Matrix::zeros(0, 1));
    let labels: Vec<u32> = (0..n as u32).map(|row| row % 2).collect();
    let points = FitPoints {
        train: &train,
        labels: &labels,
        classes: 2,
        held_out: &none,
        held_out_labels: &[],
        basis: None,
        several: false,
    };
    assert!(cuda.fit_bytes(points, n, 0) > free);
    let Err(Error::Device { problem, .. }) = cuda.open_fit(points, &CONTEXT) else { panic!("it was opened") };
    assert!(problem.contains("is free: fit on fewer points (about "), "{problem}");
}

/// On real embeddings: accuracy of fits within 0.2 points, and the sets of one model file row for row.
#[test]
fn real_embeddings_get_the_same_sets() {
    let Some(cuda) = CUDA.as_deref() else { return };
    let Some(folder) = std::env::var_os("DANCE_DATA") else {
        return println!("skipped: DANCE_DATA names no folder of embeddings");
    };
    for name in ["pets", "flowers102", "caltech101", "dtd", "ucf101"] {
        let path = std::path::Path::new(&folder).join(format!("{name}_clip_b32.npz"));
        let data = io::read(&path, &io::ReadOptions::default()).unwrap().into_dataset().unwrap();
        let parts = split::uniform(data.len(), &[0.4, 0.4, 0.2], 0).unwrap();
        let mut config = Config::default();
        config.tune = config.tune.evaluations(4);
        let [fit, calibration, test] = [0, 1, 2].map(|part: usize| data.select(&parts[part]));
        let [host, device] =
            [&Cpu as &dyn Device, cuda].map(|device| Fitted::fit(device, &fit, &config, &CONTEXT).unwrap());
        let accuracies = [&host, &device].map(|fitted| fitted.validation.accuracy);
        println!("{name}: validation accuracy {accuracies:?}");
        assert!((accuracies[0] - accuracies[1]).abs() <= 0.002 + 1e-9, "{name}: {accuracies:?}");
        for method in [MethodName::Posterior, MethodName::Fuse, MethodName::Dance] {
            let mut fitted = device.clone();
            fitted.config.conformal = fitted.config.conformal.with_method(method);
            let bytes = fitted.clone().calibrate(cuda, &calibration, &CONTEXT).unwrap().to_bytes().unwrap();
            assert!(bytes == fitted.calibrate(&Cpu, &calibration, &CONTEXT).unwrap().to_bytes().unwrap());
            let ask = |device: &dyn Device| {
                let model = Dance::from_bytes(device, &bytes, name, &CONTEXT).unwrap();
                let scored = model.score(&test.embeddings, PredictOptions::default(), &CONTEXT).unwrap();
                let levels = [0.02, 0.05, 0.1];
                (levels.map(|alpha| model.predict(&scored, &model.decide(alpha).unwrap()).sets), scored.neighbors)
            };
            assert!(ask(&Cpu) == ask(cuda), "{name} {method:?}");
        }
    }
}
