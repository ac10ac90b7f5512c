//! The neighbor search against the matrix product it rests on.
//!
//! `cargo bench -p dance-bench --bench neighbors -- [n_ref] [d] [queries]`. Times are the best of three; the threads are those of
//! `DANCE_THREADS`, or one a core.

use std::hint::black_box;
use std::time::Instant;

use dance::device::Cpu;
use dance::neighbors::Index;
use dance::numeric::random::Random;
use dance::{Context, Matrix};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

const K: usize = 100;
const CLASSES: usize = 1000;

/// Class centers with noise around them, as embeddings are: some neighbors are close, most points are far.
fn points(rows: usize, d: usize, seed: u64) -> Matrix {
    let mut random = Random::new(1, 0);
    let centers: Vec<f32> = (0..CLASSES * d).map(|_| random.normal() as f32).collect();
    let mut random = Random::new(seed, 1);
    let mut data = Vec::with_capacity(rows * d);
    for _ in 0..rows {
        let label = random.below(CLASSES);
        data.extend(centers[label * d..][..d].iter().map(|center| center + 1.5 * random.normal() as f32));
    }
    Matrix::new(data, rows, d).expect("sizes agree")
}

fn best<T>(mut work: impl FnMut() -> T) -> f64 {
    let time = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64()
    };
    (0..3).map(time).fold(f64::INFINITY, f64::min)
}

/// All products of the queries with the reference and nothing else: tiles of `height × width`, one sequential product each.
fn products(queries: &Matrix, reference: &Matrix, height: usize, width: usize) {
    let d = queries.cols();
    queries.as_slice().par_chunks(height * d).with_max_len(1).for_each_init(
        || vec![0.0f32; height * width],
        |tile, queries| {
            let left = MatRef::from_row_major_slice(queries, queries.len() / d, d);
            for reference in reference.as_slice().chunks(width * d) {
                let right = MatRef::from_row_major_slice(reference, reference.len() / d, d);
                let tile = &mut tile[..left.nrows() * right.nrows()];
                let out = MatMut::from_row_major_slice_mut(tile, left.nrows(), right.nrows());
                matmul(out, Accum::Replace, left, right.transpose(), 1.0, Par::Seq);
            }
            black_box(tile.len());
        },
    );
}

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let size = |at: usize, default| sizes.get(at).copied().unwrap_or(default);
    let (n, d, queries) = (size(0, 20_000), size(1, 512), size(2, 10_000));
    let threads = std::env::var("DANCE_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let context = Context::new(threads).expect("threads");
    println!("{n} reference points, {queries} queries, d {d}, k {K}, {} threads", context.threads());

    let (reference, new) = (points(n, d, 2), points(queries, d, 3));
    let flops = 2.0 * queries as f64 * n as f64 * d as f64;
    let mut product = f64::INFINITY;
    for (height, width) in [(256, 1024), (512, 4096), (1024, 1024)] {
        let time = context.run(|| best(|| products(&new, &reference, height, width)));
        println!("product in tiles {height}×{width}: {time:.3} s, {:.1} GFLOP/s", flops / time / 1e9);
        product = product.min(time);
    }

    let index = Index::open(&Cpu, reference, &context).expect("index");
    let search = best(|| index.search(&new, K, &context).expect("search"));
    println!(
        "search: {search:.3} s, {:.1} GFLOP/s, {:.0} % of the best product (goal: 80 %)",
        flops / search / 1e9,
        100.0 * product / search
    );
}
