//! Tests that the memory of a fit is reported before it is allocated.

use super::*;

/// The CPU, as a device that reports only 1 MiB of free memory. A test expects a warning of a fit on it.
struct Small;

impl Device for Small {
    fn name(&self) -> String {
        "small".into()
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(1 << 20)
    }

    fn fit_bytes(&self, points: FitPoints<'_>, train: usize, held_out: usize) -> u64 {
        Cpu.fit_bytes(points, train, held_out)
    }

    fn open_fit<'a>(&self, points: FitPoints<'a>, context: &Context<'_>) -> Result<Box<dyn FitSession + 'a>> {
        Cpu.open_fit(points, context)
    }

    fn open_classifier(&self, machine: MachineParts<'_>, context: &Context<'_>) -> Result<Arc<dyn ClassifierHandle>> {
        Cpu.open_classifier(machine, context)
    }

    fn open_index(&self, points: &Matrix, context: &Context<'_>) -> Result<Box<dyn IndexHandle>> {
        Cpu.open_index(points, context)
    }

    fn inner_products(&self, left: &Matrix, right: &Matrix, context: &Context<'_>) -> Result<Matrix> {
        Cpu.inner_products(left, right, context)
    }
}

#[test]
fn memory_is_said_before_it_is_taken_and_refused_above_the_limit() {
    let (points, labels) = problem(400, 8, 3, 7);
    let watcher = Watcher { events: Mutex::default(), stop_after: usize::MAX, asked: AtomicUsize::new(0) };
    let context = Context::new(1).unwrap();
    let context = context.with_observer(&watcher);
    let config = TuneConfig::default().evaluations(2).memory(Some(1 << 20));
    let result = tune::fit(&Cpu, part(&points, &labels), 3, &RfmConfig::default(), &config, &context);
    let Err(error @ Error::Memory { needed, limit, .. }) = result else { panic!("{:?}", result.is_ok()) };
    assert!(needed > limit && limit == 1 << 20);
    assert!(needed >= 3 * 4 * 320 * 320, "at least three n×n matrices of f32");
    assert!(error.to_string().contains("would fit in 1.0 MiB"), "{error}");
    assert_eq!(*watcher.events.lock().unwrap(), [Event::Memory { bytes: needed }]);
    let enough = config.memory(Some(needed));
    assert!(tune::fit(&Cpu, part(&points, &labels), 3, &RfmConfig::default(), &enough, &context).is_ok());
}

/// The reported memory includes the d×d matrices, for d dimensions, from which the root of the metric is computed.
#[test]
fn memory_counts_the_root_of_the_metric() {
    let (points, labels) = problem(300, 250, 3, 7);
    let context = Context::new(1).unwrap();
    let config = TuneConfig::default().evaluations(2).memory(Some(1 << 10));
    let result = tune::fit(&Cpu, part(&points, &labels), 3, &RfmConfig::default(), &config, &context);
    let Err(Error::Memory { needed, .. }) = result else { panic!("{:?}", result.is_ok()) };
    assert!(needed > 5 * 8 * 250 * 250, "{needed}: five d×d matrices of f64 in the eigendecomposition");
}

#[test]
fn a_fit_that_takes_more_than_the_device_has_free_says_so() {
    let (points, labels) = problem(400, 8, 3, 7);
    let watcher = Watcher { events: Mutex::default(), stop_after: usize::MAX, asked: AtomicUsize::new(0) };
    let context = Context::new(1).unwrap();
    let context = context.with_observer(&watcher);
    let config = TuneConfig::default().evaluations(2);
    tune::fit(&Small, part(&points, &labels), 3, &RfmConfig::default(), &config, &context).unwrap();
    let events = watcher.events.lock().unwrap();
    let Event::Memory { bytes } = events[0] else { panic!("{:?}", events[0]) };
    let Event::Warning(text) = &events[1] else { panic!("{:?}", events[1]) };
    for part in [crate::error::human_bytes(bytes).as_str(), "small has 1.0 MiB free", "would fit in 1.0 MiB"] {
        assert!(text.contains(part), "{text}");
    }
}
