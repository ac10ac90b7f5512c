//! A graphics processor that fails in the middle: an error, never an answer. In a process of its own, since a device that is lost
//! stays lost for everyone in it.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)] // tests may; clippy's own exemption misses helper functions
#![allow(unsafe_code)] // to break a device takes what the library never does

use std::sync::Mutex;

use cudarc::driver::{CudaContext, CudaSlice, LaunchConfig};
use dance::data::{Dataset, RawLabels, Table};
use dance::device::{Cpu, DeviceChoice};
use dance::neighbors::Index;
use dance::numeric::random::Random;
use dance::{Config, Context, Dance, Event, Fitted, Matrix, Observer, PredictOptions};

const ROWS: usize = 1200;

fn blobs(seed: u64) -> Dataset {
    let mut random = Random::new(seed, 5);
    let labels: Vec<i64> = (0..ROWS as i64).map(|row| row % 4).collect();
    let values = labels.iter().flat_map(|&label| {
        (0..16).map(|at| (random.normal() + if at == label { 3.0 } else { 0.0 }) as f32).collect::<Vec<_>>()
    });
    let mut table = Table::new("blobs", Matrix::new(values.collect(), ROWS, 16).unwrap()).unwrap();
    table.labels = Some(RawLabels::Integers(labels));
    table.into_dataset().unwrap()
}

/// Takes all memory of the device as soon as a fit has begun.
struct Greedy<'a> {
    device: &'a std::sync::Arc<CudaContext>,
    taken: Mutex<Vec<CudaSlice<u8>>>,
}

impl Observer for Greedy<'_> {
    fn notice(&self, event: &Event) {
        if let Event::SearchBegins { .. } = event {
            let mut taken = self.taken.lock().unwrap();
            let mut piece = 1 << 36;
            while piece > 0 {
                match self.device.default_stream().alloc_zeros(piece) {
                    Ok(slice) => taken.push(slice),
                    Err(_) => piece /= 2,
                }
            }
        }
    }
}

#[test]
fn a_device_that_fails_gives_errors() {
    let cuda = match DeviceChoice::Cuda(0).open() {
        Ok((cuda, _)) => cuda,
        Err(why) => return println!("skipped: {why}"),
    };
    let context = Context::new(0).unwrap();
    let (fit, calibration, test) = (blobs(1), blobs(2), blobs(3));
    let config = Config::default();
    let device = CudaContext::new(0).unwrap(); // the one that all of a process share

    // No memory left in the middle of a fit: an error that says so, and the next fit finds the memory back.
    let greedy = Greedy { device: &device, taken: Mutex::default() };
    let failed = Fitted::fit(&*cuda, &fit, &config, &context.with_observer(&greedy)).err().unwrap().to_string();
    assert!(failed.contains("memory"), "{failed}");
    greedy.taken.lock().unwrap().clear();
    let fitted = Fitted::fit(&*cuda, &fit, &config, &context).unwrap();
    let model = fitted.calibrate(&*cuda, &calibration, &context).unwrap();
    let bytes = model.to_bytes().unwrap();
    let index = Index::open(&*cuda, fit.embeddings.clone(), &context).unwrap();
    let options = PredictOptions::default();
    let before = model.score(&test.embeddings, options, &context).unwrap();

    // A kernel that traps: nothing works on the device from here on.
    let source = r#"extern "C" __global__ void lose() { asm("trap;"); }"#;
    let module = device.load_module(cudarc::nvrtc::compile_ptx(source).unwrap()).unwrap();
    let lose = module.load_function("lose").unwrap();
    let stream = device.default_stream();
    let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the kernel has no arguments and touches no memory.
    unsafe { stream.launch_builder(&lose).launch(one) }.unwrap();
    assert!(stream.synchronize().is_err());

    for attempt in 0..3 {
        let lost = [
            index.search(&test.embeddings, 5, &context).err().map(|error| error.to_string()),
            model.score(&test.embeddings, options, &context).err().map(|error| error.to_string()),
            Fitted::fit(&*cuda, &fit, &config, &context).err().map(|error| error.to_string()),
            Dance::from_bytes(&*cuda, &bytes, "test", &context).err().map(|error| error.to_string()),
        ];
        for error in &lost {
            let error = error.as_ref().unwrap_or_else(|| panic!("attempt {attempt}: an answer: {lost:?}"));
            println!("{error}");
            assert!(error.contains("cuda:0"), "{error}");
        }
    }
    // What the device has written before it was lost is whole.
    let restored = Dance::from_bytes(&Cpu, &bytes, "test", &context).unwrap();
    let after = restored.score(&test.embeddings, options, &context).unwrap();
    let sets = |model: &Dance, scored| model.predict(scored, &model.decide(0.1).unwrap()).sets;
    assert_eq!(sets(&model, &before), sets(&restored, &after));
}
