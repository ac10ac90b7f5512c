//! Tests of the settings: every combination is accepted, or refused by an error that names the settings. A mix is read
//! as it is written.

use super::*;

/// Every combination of settings either gives a method with these settings, or an error that names two settings.
#[test]
fn settings_agree_or_are_refused() {
    let mut accepted = 0;
    for method in [MethodName::Posterior, MethodName::Fuse, MethodName::Dance] {
        for calibration in [Calibration::Full, Calibration::Split, Calibration::Reuse] {
            for by_class in [ByClass::All, ByClass::Balanced, ByClass::Clusters, ByClass::Each] {
                for new_labels in [false, true] {
                    for mix in [Mix::Auto, Mix::Fixed(0.2)] {
                        let config = ConformalConfig::default()
                            .with_method(method)
                            .with_calibration(calibration)
                            .by_class(by_class)
                            .new_labels(new_labels)
                            .mix(mix);
                        match config.method() {
                            Ok(found) => {
                                accepted += 1;
                                assert_eq!(found.name(), method);
                                assert_eq!(found.calibration(), calibration);
                                assert_eq!(found.by_class(), by_class);
                                assert_eq!(found.new_labels(), new_labels);
                                let heuristic = found.guarantee().starts_with("heuristic");
                                assert_eq!(heuristic, calibration == Calibration::Reuse);
                            }
                            Err(Error::Conflict { other, .. }) => {
                                assert!(["method", "calibration"].contains(&other), "{other}");
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            }
        }
    }
    // Posterior: 4 × 2 in full and 1 in split; fuse: 2 × 2; dance: 2 × 2 mixes.
    assert_eq!(accepted, 17);
}

#[test]
fn a_contradiction_names_both_settings_and_the_one_to_drop() {
    let message = |config: ConformalConfig| config.method().unwrap_err().to_string();
    let dance = ConformalConfig::paper();
    assert_eq!(
        message(dance.new_labels(true)),
        "`new_labels` = true cannot be used with `method` = dance: drop `new_labels`, \
         or choose `method` = posterior"
    );
    assert_eq!(
        message(dance.with_calibration(Calibration::Full)),
        "`calibration` = full cannot be used with `method` = dance: drop `calibration`"
    );
    assert_eq!(
        message(ConformalConfig::default().with_calibration(Calibration::Split).by_class(ByClass::Each)),
        "`by_class` = each cannot be used with `calibration` = split: drop `by_class`, \
         or choose `calibration` = full"
    );
    assert_eq!(
        message(ConformalConfig::default().mix(Mix::Fixed(0.2))),
        "`mix` = 0.2 cannot be used with `method` = posterior: drop `mix`, or choose `method` = dance"
    );
}

#[test]
fn a_mix_is_read_as_it_is_written() {
    assert_eq!("auto".parse::<Mix>().unwrap(), Mix::Auto);
    assert_eq!("0.3".parse::<Mix>().unwrap(), Mix::Fixed(0.3));
    for bad in ["1.1", "-0.1", "half", "NaN"] {
        assert!(matches!(bad.parse::<Mix>(), Err(Error::Config { .. })), "{bad}");
    }
    for mix in [Mix::Auto, Mix::Fixed(0.5)] {
        let text = serde_json::to_string(&mix).unwrap();
        assert_eq!(serde_json::from_str::<Mix>(&text).unwrap(), mix);
    }
}
