//! The demo, with few evaluations.

use super::{command, names, run, scratch, shared};

#[test]
fn the_demo_prints_its_steps_and_writes_a_page() {
    let (folder, at) = scratch();
    let data = shared("small.npz");
    let demo = |extra: &[&str]| {
        let mut arguments = vec!["demo", &data, "--evaluations", "2"];
        arguments.extend(extra);
        super::Ran::new(command(&arguments).current_dir(folder.path()).output().unwrap())
    };
    let text = demo(&[]).success();
    text.prints(&[
        "1. Fit.",
        "2. Calibrate.",
        "3. Test.",
        "4. Five test points",
        "  posterior ",
        "  posterior, balanced",
        "  fuse ",
        "paper: DANCE",
        "paper: k-NN set",
        "paper: CLR set",
    ])
    .prints(&["floor", "Guarantee: P(label in set)", "dance-demo.html"]);
    let page = std::fs::read_to_string(at("dance-demo.html")).unwrap();
    assert!(page.ends_with("</html>\n"));
    // The browser itself keeps the page from loading anything; what it draws is tested in one (`make test-page`).
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none';"));
    for chart in ["coverage", "size", "sizes", "search"] {
        assert!(page.contains(&format!("<figure class=\"chart card\" id=\"{chart}\"")), "{chart}");
    }
    assert_eq!(names(folder.path()), ["dance-demo.html"]);
    // Its own page may be replaced, another file of that name not.
    let report = demo(&["--json"]).success().json();
    assert_eq!(report["results"].as_array().unwrap().len(), 12);
    assert_eq!(report["report"], "dance-demo.html");
    std::fs::write(at("dance-demo.html"), "mine").unwrap();
    demo(&[]).fails(&["dance-demo.html exists", "--report"]);
    demo(&["--report", &at("other.html")]).success().prints(&["other.html"]);
    assert_eq!(std::fs::read_to_string(at("dance-demo.html")).unwrap(), "mine");
}

#[test]
fn the_shipped_data_is_part_of_the_binary() {
    let (_folder, at) = scratch();
    let ran = run(&["demo", "--evaluations", "1", "--report", &at("page.html")]).success();
    ran.prints(&["4800 points, 384 dimensions, 24 classes", "{"]);
}
