//! The seam is real: a device that knows only the public interface gives the same sets.

use dance::device::{Cpu, Device, DeviceChoice};
use dance::{Dance, Fitted, PredictOptions};

use crate::naive::Naive;
use crate::{CONTEXT, FUSE, WAYS, blobs, config, model, model_on};

/// From one model file, row for row: f64 on the host decides whatever the device rounds to.
#[test]
fn one_model_file_gives_the_same_sets_on_every_device() {
    let test = blobs(300, 5, 0, 21);
    let cuda = DeviceChoice::Cuda(0).open().map(|(device, _)| device);
    let cuda = cuda.inspect_err(|error| println!("not on a graphics processor: {error}")).ok();
    for way in WAYS {
        let bytes = model(&config(way)).to_bytes().unwrap();
        let ask = |device: &dyn Device| {
            let model = Dance::from_bytes(device, &bytes, "test", &CONTEXT).unwrap();
            let options = PredictOptions::default().support(3);
            let scored = model.score(&test.embeddings, options, &CONTEXT).unwrap();
            let sets = [0.02, 0.1, 0.3].map(|alpha| {
                let prediction = model.predict(&scored, &model.decide(alpha).unwrap());
                (prediction.sets, prediction.support)
            });
            (sets, scored.neighbors)
        };
        let expected = ask(&Cpu);
        assert_eq!(expected, ask(&Naive), "{way:?}");
        if let Some(device) = &cuda {
            assert_eq!(expected, ask(&**device), "{way:?}");
        }
    }
}

/// So few points that leaving one out judges: the closed form of the CPU against n fits in plain loops.
#[test]
fn few_points_agree_across_devices() {
    let config = config(FUSE);
    let (fit, calibration) = (blobs(15, 5, 0, 1), blobs(120, 5, 0, 2));
    let [cpu, naive] = [&Cpu as &dyn Device, &Naive].map(|device| {
        let fitted = Fitted::fit(device, &fit, &config, &CONTEXT).unwrap();
        fitted.calibrate(device, &calibration, &CONTEXT).unwrap()
    });
    assert_eq!((cpu.fitted().kernel(), cpu.fitted().rounds()), (naive.fitted().kernel(), 0));
    assert_eq!(cpu.fitted().validation.accuracy, naive.fitted().validation.accuracy);
    assert!((cpu.fitted().validation.loss - naive.fitted().validation.loss).abs() < 1e-3);
    let [cpu, naive] = [cpu, naive].map(|model| serde_json::to_value(model.fitted().probability_scale()).unwrap());
    assert_eq!(cpu["floor"], naive["floor"]);
    assert!((cpu["power"].as_f64().unwrap() / naive["power"].as_f64().unwrap() - 1.0).abs() < 1e-2);
}

/// The whole way, fits included: the same settings are tried, and the machines agree to the rounding of f32.
#[test]
fn fits_agree_across_devices() {
    let config = config(FUSE);
    let [cpu, naive] = [&Cpu as &dyn Device, &Naive].map(|device| model_on(device, &config));
    assert_eq!(cpu.fitted().kernel(), naive.fitted().kernel());
    assert_eq!(cpu.fitted().rounds(), naive.fitted().rounds());
    assert_eq!(cpu.fitted().validation.accuracy, naive.fitted().validation.accuracy);
    let test = blobs(200, 5, 0, 22).embeddings;
    let [a, b] = [&cpu, &naive].map(|model| model.classifier().classify(&test, &CONTEXT).unwrap());
    let pairs = a.probabilities.as_slice().iter().zip(b.probabilities.as_slice());
    let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{worst}");
}
