//! The neighbor search against the matrix product it rests on.
//!
//! `cargo bench --bench neighbors -- [n_ref] [d] [queries]`

use std::time::Instant;

use dance::Matrix;
use dance::backend::{Backend, Cpu};
use dance::neighbors::Reference;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

fn random(rows: usize, cols: usize, mut state: u64) -> Matrix {
    let next = || {
        let mut sum = 0.0;
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
        }
        sum
    };
    Matrix::new(std::iter::repeat_with(next).take(rows * cols).collect(), rows, cols).expect("sizes agree")
}

fn best(rounds: usize, mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..rounds).map(time).fold(f64::INFINITY, f64::min)
}

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let (n, d, queries, k) = (
        *sizes.first().unwrap_or(&20_000),
        *sizes.get(1).unwrap_or(&512),
        *sizes.get(2).unwrap_or(&10_000),
        100,
    );
    let backend = Cpu::new(0).expect("threads");
    let threads = backend.threads().count();
    let reference = random(n, d, 1);
    let points = random(queries, d, 2);

    // The product alone, at the shape the library's own tiles have and as one call.
    let (left, right) = (Mat::from_fn(4096, d, |i, j| points.row(i % queries)[j]), Mat::from_fn(4096, d, |i, j| reference.row(i % n)[j]));
    let mut out = Mat::<f32>::zeros(4096, 4096);
    let par = Par::rayon(threads);
    let time = best(3, || matmul(out.as_mut(), Accum::Replace, left.as_ref(), right.transpose(), 1.0, par));
    let gemm = 2.0 * 4096.0 * 4096.0 * d as f64 / time;
    println!("matrix product  4096×4096×{d}: {:.1} GFLOP/s on {threads} threads", gemm / 1e9);

    let start = Instant::now();
    let reference = Reference::new(reference);
    println!("reference prepared in {:.3} s", start.elapsed().as_secs_f64());
    let time = best(3, || {
        let found = backend.neighbors(&reference, &points, k, None).expect("search");
        std::hint::black_box(found);
    });
    let rate = 2.0 * queries as f64 * n as f64 * d as f64 / time;
    println!(
        "neighbors       {queries} queries, {n} reference points, d {d}, k {k}: {time:.3} s, {:.1} GFLOP/s, {:.0} % of the product",
        rate / 1e9,
        100.0 * rate / gemm
    );
}
