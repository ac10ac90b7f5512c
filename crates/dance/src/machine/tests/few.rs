//! Tests of fits on few points: too few to hold any out, or fewer than dimensions.

use super::*;

/// A fit works with one to three points per class, of which none can be held out.
#[test]
fn a_few_points_are_enough() {
    for per_class in [1, 2, 3] {
        let (classes, d) = (12, 6);
        let (points, labels) = problem(classes * per_class, d, classes, 4);
        let tuned = fit(2, &points, &labels, &TuneConfig::default().evaluations(10)).unwrap();
        assert_eq!((tuned.rfm.rounds, tuned.rows.len()), (0, classes * per_class));
        // With one point each there is nothing to judge by: the plainest kernel, one median distance wide.
        assert_eq!(tuned.trace.len(), if per_class == 1 { 1 } else { 10 });
        if per_class == 1 {
            assert_eq!((tuned.rfm.kernel.bandwidth(), tuned.rfm.kernel.shape()), (tuned.unit, 1.0));
        }
        assert_eq!(largest_of(&outputs(&tuned.rfm, &points)), labels, "each point knows its own class");
        let fixed = TuneConfig::default().bandwidth((2.0, 2.0)).shape((0.7, 0.7));
        let fixed = fit(1, &points, &labels, &fixed).unwrap();
        assert!((fixed.rfm.kernel.bandwidth() / fixed.unit - 2.0).abs() < 1e-12);
        assert_eq!(fixed.trace.len(), 1);
    }
}

/// The leave-one-out outputs equal the outputs of fits without each point. This test drops the points one by one, and
/// `tests/model` compares with a device of plain loops.
#[test]
fn leaving_one_out_is_fitting_without_it() {
    let (points, labels) = problem(40, 5, 4, 9);
    let of = |rows: &[usize]| part(&points.select(rows), &rows.iter().map(|&row| labels[row]).collect::<Vec<_>>());
    let context = Context::new(2).unwrap();
    let kernel = Kernel::new(2.5, 0.8).unwrap();
    let ridge = 1e-3;
    let all = of(&(0..40).collect::<Vec<_>>());
    let none = Part::none(5);
    let mut session = Cpu.open_fit(all.fit_points(4, &none, None, false), &context).unwrap();
    session.begin(None, &context).unwrap();
    session.solve(kernel, ridge, &context).unwrap();
    let found = session.leave_one_out(&context).unwrap();
    for out in 0..40 {
        let rest = of(&(0..40).filter(|&row| row != out).collect::<Vec<_>>());
        let one = of(&[out]);
        let mut session = Cpu.open_fit(rest.fit_points(4, &one, None, false), &context).unwrap();
        session.begin(None, &context).unwrap();
        session.solve(kernel, ridge, &context).unwrap();
        let expected = session.held_out().unwrap();
        for (found, expected) in found.row(out).iter().zip(expected.row(0)) {
            assert!((found - expected).abs() < 2e-3, "{out}: {found} {expected}");
        }
    }
}

/// With fewer points than dimensions, the fit in the points' span equals the fit in all dimensions.
#[test]
fn a_fit_in_the_span_is_the_fit() {
    let (small, labels) = problem(60, 4, 3, 8);
    let (d, mut random) = (90, Random::new(2, 2));
    // The same points in many dimensions: an orthogonal-free mixture, so that no coordinate is special.
    let mixing: Vec<f64> = (0..4 * d).map(|_| random.normal()).collect();
    let mut points = Matrix::zeros(60, d);
    for row in 0..60 {
        for column in 0..d {
            let mixed: f64 = (0..4).map(|at| f64::from(small.row(row)[at]) * mixing[at * d + column]).sum();
            points.row_mut(row)[column] = (mixed + 0.05 * random.normal()) as f32;
        }
    }
    let context = Context::new(2).unwrap();
    let config = TuneConfig::default().bandwidth((1.0, 1.0)).shape((1.0, 1.0));
    let rfm = RfmConfig { rounds: 2, ..RfmConfig::default() };
    let tuned = tune::fit(&Cpu, part(&points, &labels), 3, &rfm, &config, &context).unwrap();
    assert_eq!((tuned.rfm.train.cols(), tuned.rfm.metric_root.rows()), (d, d));
    assert!(tuned.rfm.rounds > 0, "the test needs a learned metric");
    let again = RfmConfig { rounds: tuned.rfm.rounds, ..RfmConfig::default() };
    let whole = Rfm::fit(&Cpu, part(&points, &labels), None, 3, tuned.rfm.kernel, &again, &context).unwrap();
    let queries = problem(40, d, 3, 10).0; // mostly outside the span
    let (found, expected) = (outputs(&tuned.rfm, &queries), outputs(&whole, &queries));
    for (found, expected) in found.as_slice().iter().zip(expected.as_slice()) {
        assert!((found - expected).abs() < 2e-3, "{found} {expected}");
    }
    for (found, expected) in tuned.rfm.metric_root.as_slice().iter().zip(whole.metric_root.as_slice()) {
        assert!((found - expected).abs() < 2e-3, "{found} {expected}");
    }
}
