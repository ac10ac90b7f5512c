//! Options from a file.

use super::{run, scratch, shared};

#[test]
fn a_file_holds_options_and_the_command_line_wins() {
    let (_folder, at) = scratch();
    let fit = |toml: &str, extra: &[&str]| {
        std::fs::write(at("dance.toml"), toml).unwrap();
        let (data, config) = (shared("small.npz"), at("dance.toml"));
        let mut arguments = vec!["fit", &data, "--config", &config];
        arguments.extend(extra);
        run(&arguments)
    };
    let output = format!("output = '{}'\njson = true\n", at("m"));
    let shape = |ran: super::Ran| {
        let report = ran.success().json();
        (report["trace"].as_array().unwrap().len(), report["test_points"].clone(), report["shape"].clone())
    };
    let file = output.clone()
        + "evaluations = 3\nkernel = { rounds = 0, shape = 1.5 }\nsplit = [0.4, 0.4, 0.2]\n[evaluate]\ncheck = 0.5\n";
    assert_eq!(shape(fit(&file, &[])), (3, 96.into(), 1.5.into()));
    assert_eq!(shape(fit(&file, &["--evaluations", "2", "--split=0.5,0.5"])).0, 2);
    // An argument that excludes an option of the file wins over it too.
    let (calibration, other) = (shared("test.npz"), format!("{file}[fit]\nevaluations = 1\n"));
    assert_eq!(shape(fit(&other, &["--calibration-data", &calibration])), (1, serde_json::Value::Null, 1.5.into()));
    // The values are checked like any others.
    fit(&(output.clone() + "alpha = 2\n"), &[]).fails(&["--alpha", "between 0 and 1"]);
    fit(&(output.clone() + "verbose = 3\n"), &[]).fails(&["dance.toml", "`verbose` is either true or false"]);
    fit(&(output.clone() + "split = { a = 1 }\n"), &[]).fails(&["--split", "positive shares"]);
}

#[test]
fn unknown_keys_are_refused() {
    let (_folder, at) = scratch();
    let config = at("dance.toml");
    let inspect = |toml: &str| {
        std::fs::write(&config, toml).unwrap();
        run(&["inspect", &shared("test.npz"), "--config", &config])
    };
    inspect("evaluations = 3\n").success(); // of another command
    inspect("evaluation = 3\n").fails(&["dance.toml", "no option is called `evaluation`"]);
    inspect("[fit]\ncheck = 0.5\n").fails(&["`dance fit` has no option `check`"]);
    inspect("[sing]\nalpha = 0.5\n").fails(&["no option is called `sing`"]);
    inspect("config = 'other.toml'\n").fails(&["no option is called `config`"]);
    inspect("evaluations = \n").fails(&["dance.toml", "not TOML"]);
    run(&["inspect", &shared("test.npz"), "--config", &at("no.toml")]).fails(&["no.toml", "No such file"]);
}
