//! The baselines run on the threads of the context alone. This test has a program of its own, since it checks that rayon's
//! global pool was never started.

#![allow(clippy::unwrap_used)] // a test may panic

use dance::device::Cpu;
use dance::neighbors::Index;
use dance::numeric::random::Random;
use dance::scores::{RankedScore, SplitConformal};
use dance::{Context, Matrix};
use dance_bench::baselines::{conf_ot, confine::Confine, fca::Fca, ncp::Ncp};

#[test]
fn all_work_runs_on_the_threads_of_the_context() {
    let context = Context::new(1).unwrap();
    let mut random = Random::new(1, 6);
    let points = Matrix::new((0..500).map(|_| random.normal() as f32).collect(), 100, 5).unwrap();
    let (points, labels) = (&points, &(0..100).map(|row| row % 4).collect::<Vec<u32>>()[..]);
    let index = Index::open(&Cpu, points.clone(), &context).unwrap();
    let among = index.search_own(100, 50, &context).unwrap();
    let logits = conf_ot::logits(&Cpu, points, &points.select(&[0, 1, 2, 3]), &context).unwrap();
    let biases = conf_ot::biases(&logits, labels, &context);
    let probabilities = conf_ot::probabilities(&logits, &biases, &context).unwrap();
    let split = SplitConformal::new(&probabilities, labels, Some(1), &context).unwrap();
    split.sets(&probabilities, &[(RankedScore::Aps, 0.9)], &context);
    let ncp = Ncp::new(points, labels, &probabilities, among.clone(), 1, &context).unwrap();
    let setting = ncp.tune(&Cpu, 0.1, &context).unwrap();
    ncp.sets(&among, &probabilities, setting, 0.1, &context).unwrap();
    Confine::default().scores(&Cpu, (points, labels), 4, points, None, &context).unwrap();
    Fca::new(points, labels, 4, None, &context).unwrap().counts(points, &context).unwrap();

    assert!(
        rayon::ThreadPoolBuilder::new().build_global().is_ok(),
        "something above has run outside the context's threads"
    );
}
