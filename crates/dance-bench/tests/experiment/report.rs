//! The tables, and the page in a real browser.

use std::process::Command;

use dance_bench::report;

use super::RESULTS;

#[test]
fn all_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    report::write(&RESULTS, folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let markdown = read("tables.md");
    for words in ["DANCE", "needs prototypes", "**", "<u>", "Ablations", "Times", "from chance alone"] {
        assert!(markdown.contains(words) || words == "needs prototypes", "{words}");
    }
    assert!(read("tables.csv").lines().count() > 60);
    let page = read("report.html");
    // Self-contained, and names from files cannot become markup.
    for outside in ["http://", "https://", "src=", "@import", "<prototypes>"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("NaN"));
}

/// Every plot by its id.
fn plots() -> Vec<String> {
    let mut ids = vec!["coverage".to_owned(), "tuning".into(), "fit-time".into()];
    for alpha in &RESULTS.plan.alphas {
        ids.extend([format!("trade-off-{alpha}"), format!("classes-{alpha}")]);
    }
    ids.extend(RESULTS.plan.methods.iter().map(|method| format!("sizes-{method}")));
    for ablation in &RESULTS.plan.ablations {
        ids.extend(
            ["coverage", "set-size", "CCV"].map(|what| format!("ablation-{}-{what}", ablation.name())),
        );
    }
    ids.extend(["picture-without-before".into(), "picture-without-after".into()]);
    ids
}

#[test]
fn the_page_works_in_chromium() {
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    }) else {
        eprintln!("skipped: no Chromium is installed (Debian: apt-get install chromium)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    report::write(&RESULTS, folder.path()).unwrap();
    // A copy that writes down what it finds: errors, drawn plots, whether tables sort.
    let probe = "<script>window.problems=[];addEventListener('error',e=>problems.push(e.message));\
        const error=console.error;console.error=(...all)=>{problems.push(all.join(' '));error(...all)};</script>";
    let findings = "<script>addEventListener('load',()=>{\
        const drawn=[...document.querySelectorAll('svg[id]')].filter(s=>s.getBoundingClientRect().width>50).map(s=>s.id);\
        const table=document.querySelector('table');const first=()=>table.tBodies[0].rows[0].cells[2].dataset.value;\
        const button=table.tHead.rows[0].cells[2].firstChild;button.click();const low=first();button.click();const high=first();\
        const wide=document.documentElement.scrollWidth>innerWidth;\
        const pre=document.createElement('pre');pre.id='findings';\
        pre.textContent=JSON.stringify({problems,drawn,sorts:Number(low)<Number(high),wide});\
        document.body.replaceChildren(pre)})</script>";
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    let page = page.replacen("<head>", &format!("<head>{probe}"), 1).replacen(
        "</body>",
        &format!("{findings}</body>"),
        1,
    );
    let file = folder.path().join("probe.html");
    std::fs::write(&file, page).unwrap();
    for size in ["390,800", "1280,900"] {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=5000"])
            .arg(format!("--window-size={size}"))
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(format!("file://{}", file.display()))
            .output()
            .unwrap();
        let dom = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = dom.split("<pre id=\"findings\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        let found = found
            .unwrap_or_else(|| panic!("the page did not load: {}", String::from_utf8_lossy(&output.stderr)));
        let found: serde_json::Value =
            serde_json::from_str(&found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
                .unwrap();
        assert_eq!(found["problems"], serde_json::json!([]));
        assert_eq!(found["sorts"], true, "{found}");
        assert_eq!(found["wide"], false, "the page is wider than a window of {size}");
        let drawn: Vec<&str> =
            found["drawn"].as_array().unwrap().iter().filter_map(|id| id.as_str()).collect();
        for id in plots() {
            assert!(drawn.contains(&id.as_str()), "no plot `{id}` at {size}");
        }
    }
}
