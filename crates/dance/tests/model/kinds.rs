//! What labels and ids are survives calibration and the file.

use dance::data::{Kind, Value};
use dance::device::Cpu;
use dance::model::ModelPart;
use dance::{Context, Dance, Fitted};

use crate::{CONTEXT, POSTERIOR, REUSE, WAYS, Warnings, blobs, config};

fn again(model: &Dance) -> Dance {
    Dance::from_bytes(&Cpu, &model.to_bytes().unwrap(), "test", &CONTEXT).unwrap()
}

#[test]
fn integers_stay_integers_and_texts_texts() {
    for kind in [Kind::Integer, Kind::Float, Kind::Text] {
        for way in WAYS {
            let [mut fit, mut calibration] = [blobs(80, 5, 0, 1), blobs(120, 5, 0, 2)];
            (fit.label_kind, calibration.label_kind) = (kind, kind);
            fit.ids = Some((0..80).map(|row| (row + 1000).to_string()).collect());
            fit.id_kind = if kind == Kind::Text { Kind::Text } else { Kind::Integer };
            let fitted = Fitted::fit(&Cpu, &fit, &config(way), &CONTEXT).unwrap();
            let model = again(&fitted.calibrate(&Cpu, &calibration, &CONTEXT).unwrap());
            assert_eq!(model.label_kind(), kind);
            assert_eq!(model.fitted().label_kind, kind);
            let last = model.reference_labels().len() as u32 - 1;
            let found = model.reference_point(last);
            assert_eq!(found.part == ModelPart::FitPoint, way != REUSE);
            if way == REUSE {
                continue; // its reference points are calibration points, which have no ids here
            }
            let number = 1000 + i64::from(found.row.unwrap());
            match found.id {
                Some(Value::Integer(id)) => assert!(kind != Kind::Text && id == number),
                Some(Value::Text(id)) => assert!(kind == Kind::Text && id == number.to_string()),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Names decide: integers and their digits as text are the same labels; where that leaves new classes, it is said.
#[test]
fn kinds_that_differ_are_matched_by_name() {
    let [fit, mut calibration] = [blobs(80, 5, 0, 1), blobs(120, 5, 0, 2)];
    calibration.label_kind = Kind::Text;
    let said = |calibration: &dance::Dataset| {
        let warnings = Warnings::default();
        let context = Context::new(1).unwrap().with_observer(&warnings);
        let fitted = Fitted::fit(&Cpu, &fit, &config(POSTERIOR), &CONTEXT).unwrap();
        let kind = fitted.calibrate(&Cpu, calibration, &context).unwrap().label_kind();
        let said = warnings.0.lock().unwrap().iter().filter(|text| text.contains("matched by name")).count();
        (kind, said)
    };
    assert_eq!(said(&calibration), (Kind::Integer, 0), "every label is known: it does not matter");
    calibration.classes[4] = "four".into();
    assert_eq!(said(&calibration), (Kind::Text, 1), "one column holds one kind");
}
