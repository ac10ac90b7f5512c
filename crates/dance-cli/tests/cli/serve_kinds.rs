//! Kinds over HTTP: what a client was given it can send back, and labels and ids that were numbers stay numbers.

use serde_json::{Value, json};

use super::client::Serving;
use super::serve::{points, serve_model};
use super::{fit_toy, run, scratch};

/// Serves a model whose labels and ids are whole numbers, with the points of its file.
fn numbers() -> (tempfile::TempDir, Serving, impl Fn(&str) -> String) {
    let (folder, at) = scratch();
    let line = |row: usize| {
        let at = |axis: usize| 3.0 * f64::from(u8::from(row % 3 == axis)) + ((row * 7 + axis * 3) % 11) as f64 / 3.0;
        // No two points are equal, so that coverage can be measured.
        let numbers: Vec<f64> = (0..4).map(|axis| at(axis) + row as f64 / 500.0).collect();
        format!("{{\"embedding\":{numbers:?},\"label\":{},\"id\":{}}}\n", row % 3 + 10, row + 1000)
    };
    std::fs::write(at("data.jsonl"), (0..120).map(line).collect::<String>()).unwrap();
    fit_toy(&at("data.jsonl"), &at("numbers.dance"), &["--test-out", &at("test.jsonl")]).success();
    let server = Serving::start(&[&at("numbers.dance"), "--points", &at("test.jsonl")]);
    (folder, server, at)
}

#[test]
fn what_a_client_was_given_it_can_send_back_to_every_route() {
    let (_folder, server, at) = numbers();
    let file = std::fs::read_to_string(at("test.jsonl")).unwrap();
    let rows: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let given: Vec<Value> = rows.iter().map(|row| json!({ "id": row["id"], "embedding": row["embedding"] })).collect();
    assert!(rows[0]["id"].is_number() && rows[0]["label"].is_number());
    let model = server.get("/v1/models").json()["models"][0].clone();
    assert_eq!((&model["classes"], &model["label_kind"]), (&json!([10, 11, 12]), &json!("integer")));
    let same_model = |answer: &Value| {
        for name in ["name", "version", "hash"] {
            assert!(answer["model"][name].is_string(), "{answer}");
            assert_eq!(answer["model"][name], model[name], "{answer}");
        }
    };
    assert_eq!(model["name"], "numbers");

    // A point of the file goes to every route that takes points, with its id.
    let answers = server.post("/v1/predict", &json!({ "points": given })).json();
    same_model(&answers);
    for (answer, row) in answers["answers"].as_array().unwrap().iter().zip(&rows) {
        assert_eq!(answer["id"], row["id"]);
        assert!(answer["prediction"].is_number(), "{answer}");
        assert!(answer["set"].as_array().unwrap().iter().all(Value::is_number), "{answer}");
    }
    let why = server.post("/v1/explain", &given[0]).json();
    same_model(&why);
    assert_eq!((&why["id"], &why["prediction"]), (&rows[0]["id"], &answers["answers"][0]["prediction"]));
    for reason in why["labels"].as_array().unwrap() {
        assert!(reason["label"].is_number(), "{reason}");
        assert!(reason["examples"].as_array().unwrap().iter().all(|one| one["id"].is_number()), "{reason}");
        let in_set = reason["alpha_max"].as_f64() >= why["alpha"].as_f64();
        assert_eq!(reason["in_set"], in_set, "{reason}");
        assert_eq!(reason["level"], Value::Null, "only the page gets levels");
    }

    // A label that came as an answer is accepted as it came, and listed as it was sent.
    let labels: Vec<Value> = (0..2)
        .map(|row| {
            let label = &answers["answers"][row]["prediction"];
            json!({ "id": given[row]["id"], "embedding": given[row]["embedding"], "label": label })
        })
        .collect();
    let sent = json!({ "provenance": "random", "labels": labels });
    assert_eq!(server.post("/v1/labels", &sent).json(), json!({ "recorded": 2 }));
    let listed = server.get("/v1/labels?limit=1").json();
    assert_eq!((&listed["labels"][0]["id"], &listed["labels"][0]["label"]), (&labels[0]["id"], &labels[0]["label"]));
    let rest = server.get(&format!("/v1/labels?after={}", listed["next"])).json();
    assert_eq!((&rest["labels"][0]["label"], &rest["next"]), (&labels[1]["label"], &Value::Null));
    assert_eq!(rest["labels"].as_array().unwrap().len(), 1);
    // The name decides which label is meant: 10, 10.0 and "10" are one.
    let text = json!({ "id": given[2]["id"], "embedding": given[2]["embedding"], "label": "10" });
    let text = json!({ "provenance": "random", "labels": [text] });
    assert_eq!(server.post("/v1/labels", &text).status, 200);
    assert_eq!(server.get("/v1/labels?after=2").json()["labels"][0]["label"], 10);
    assert_eq!(server.get("/v1/monitor").json()["labels"], Value::Null, "labels are listed by the page alone");
    for (query, part) in [("limit=0", "between"), ("limit=1001", "between"), ("before=1", "`after` and `limit`")] {
        let refused = server.get(&format!("/v1/labels?{query}"));
        assert_eq!(refused.status, 422);
        assert!(refused.json()["detail"].as_str().unwrap().contains(part), "{query}");
    }

    // The page has the same kinds.
    let page = server.get("/page-api/points").json();
    assert_eq!(page["classes"], model["classes"]);
    assert_eq!((&page["names"][0], &page["labels"][0]), (&rows[0]["id"], &rows[0]["label"]));
    assert_eq!(server.get("/page-api/coverage").json()["classes"][0]["class"], 10);

    // A model that is recalibrated on the journal answers numbers too.
    let all: Vec<Value> = rows
        .iter()
        .skip(3)
        .map(|row| json!({ "id": row["id"], "embedding": row["embedding"], "label": row["label"] }))
        .collect();
    assert_eq!(server.post("/v1/labels", &json!({ "provenance": "random", "labels": all })).status, 200);
    run(&["recalibrate", &at("numbers.dance"), &at("numbers.dance.journal.jsonl"), "-o", &at("again.dance")]).success();
    let again = run(&["predict", &at("again.dance"), &at("test.jsonl"), "--include", "neighbors"]).success();
    let answer: Value = serde_json::from_str(again.stdout.lines().next().unwrap()).unwrap();
    assert!(answer["prediction"].is_number() && answer["neighbors"][0][0]["id"].is_number(), "{answer}");
}

#[test]
fn unknown_fields_are_refused_by_name() {
    let (points, _) = points();
    let (_folder, server) = serve_model(&["--points", &super::shared("test.npz")]);
    let embedding = &points[0]["embedding"];
    for (path, body) in [
        ("/v1/predict", json!({ "embedding": embedding, "odd_one": 1 })),
        ("/v1/predict", json!({ "points": [{ "embedding": embedding, "odd_one": 1 }] })),
        ("/v1/explain", json!({ "embedding": embedding, "odd_one": 1 })),
        ("/v1/labels", json!({ "provenance": "random", "labels": [], "odd_one": 1 })),
        (
            "/v1/labels",
            json!({ "provenance": "random", "labels": [{ "embedding": embedding, "label": "x", "odd_one": 1 }] }),
        ),
        ("/page-api/explain", json!({ "point": 0, "odd_one": 1 })),
        ("/page-api/labels", json!({ "provenance": "random", "labels": [{ "point": 0, "label": "x", "odd_one": 1 }] })),
        ("/v2/models/model/infer", json!({ "inputs": [], "odd_one": 1 })),
        ("/v2/models/model/infer", json!({ "inputs": [], "parameters": { "odd_one": 1 } })),
    ] {
        let refused = server.post(path, &body);
        assert!((400..500).contains(&refused.status), "{path}");
        assert!(refused.json().to_string().contains("odd_one"), "{path}: {}", refused.json());
    }
}

#[test]
fn only_what_programs_need_is_in_the_description() {
    let (_folder, server) = serve_model(&[]);
    let api = server.get("/openapi.json").json();
    let paths: Vec<&str> = api["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "/healthz",
        "/metrics",
        "/readyz",
        "/v1/explain",
        "/v1/labels",
        "/v1/models",
        "/v1/monitor",
        "/v1/predict",
        "/v1/reload",
    ];
    assert_eq!(paths, expected);
    assert!(!api.to_string().contains("page-api"));
    let explained = &api["components"]["schemas"]["LabelReason"]["properties"];
    assert!(explained["alpha_max"].is_object() && explained["level"].is_null(), "{explained}");
}

#[test]
fn metrics_show_what_one_watches() {
    let (points, _) = points();
    let (_folder, server) = serve_model(&[]);
    let answers = server.post("/v1/predict", &json!({ "points": points, "alpha": [0.1, 0.9, 0.123] })).json();
    let answers = answers["answers"].as_array().unwrap();
    let of = |alpha: f64| answers.iter().filter(move |answer| answer["alpha"] == alpha);
    let sizes = |alpha: f64| of(alpha).map(|answer| answer["set"].as_array().unwrap().len());
    let novel = of(0.1).filter(|answer| answer["novelty"].as_f64() <= Some(0.01)).count();
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    };
    assert_eq!(value("dance_set_size_sum{alpha=\"0.1\"}"), sizes(0.1).sum::<usize>() as f64);
    assert_eq!(value("dance_set_size_count{alpha=\"0.1\"}"), points.len() as f64);
    let single = sizes(0.1).filter(|size| *size == 1).count();
    assert_eq!(value("dance_sets_single_total{alpha=\"0.1\"}"), single as f64);
    // A client can send any level, so levels beyond hundredths up to 0.50 share their metrics.
    let empty = sizes(0.9).chain(sizes(0.123)).filter(|size| *size == 0).count();
    assert_eq!(value("dance_sets_empty_total{alpha=\"other\"}"), empty as f64);
    assert_eq!(value("dance_novel_points_total"), novel as f64);
    let model = &server.get("/v1/models").json()["models"][0];
    let [name, version, hash] = ["name", "version", "hash"].map(|part| model[part].as_str().unwrap().to_owned());
    assert_eq!(value(&format!("dance_model_info{{name=\"{name}\",version=\"{version}\",hash=\"{hash}\"}}")), 1.0);
    assert_eq!(value(&format!("dance_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), 1.0);
    assert_eq!(value("dance_drift_evidence{watched=\"inputs\"}"), 1.0);
    if cfg!(target_os = "linux") {
        assert!(value("process_resident_memory_bytes") > 1e6);
    }
    for line in text.lines().filter(|line| line.starts_with("# HELP ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert_eq!(text.matches(&format!("# HELP {name} ")).count(), 1, "{name}");
    }
}

#[test]
fn browsers_ask_for_a_file_once_and_large_answers_are_compressed() {
    let (points, _) = points();
    let (_folder, server) = serve_model(&[]);
    let get = |path: &str, headers: &str| {
        server.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n").as_bytes())
    };
    let first = get("/page/plot.js", "");
    let tag = first.header("etag").unwrap().to_owned();
    assert!(first.status == 200 && first.body.len() > 100_000);
    let again = get("/page/plot.js", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(&*tag)));
    assert_eq!(get("/page/plot.js", "If-None-Match: W/\"0\"\r\n").status, 200);
    assert_ne!(get("/", "").header("etag"), Some(&*tag));
    let packed = get("/page/plot.js", "Accept-Encoding: gzip\r\n");
    assert_eq!((packed.header("content-encoding"), packed.header("etag")), (Some("gzip"), Some(&*tag)));
    assert_eq!(get("/healthz", "Accept-Encoding: gzip\r\n").header("content-encoding"), None);
    let body = json!({ "points": points }).to_string();
    let json = "Content-Type: application/json\r\n";
    let plain = server.post_with("/v1/predict", json, body.as_bytes());
    assert_eq!(plain.header("content-encoding"), None);
    let packed = server.post_with("/v1/predict", &format!("{json}Accept-Encoding: gzip\r\n"), body.as_bytes());
    assert_eq!((packed.status, packed.header("content-encoding")), (200, Some("gzip")));
    // A body that is compressed is refused with the reason.
    let refused = server.post_with("/v1/predict", &format!("{json}Content-Encoding: gzip\r\n"), body.as_bytes());
    assert_eq!(refused.status, 415);
}
