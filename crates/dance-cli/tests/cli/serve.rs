//! `dance serve` as its clients meet it: answers, refusals, a journal, a new model, the end.

use std::io::{BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::client::{Serving, read_response};
use super::{run, scratch, shared};

/// Returns the points of the shared test file, and their answers by `dance predict`.
pub(super) fn points() -> (Vec<Value>, Vec<Value>) {
    let sets =
        run(&["predict", &shared("model"), &shared("test.npz"), "--include", "p-values,probabilities,neighbors"])
            .success();
    let expected = sets.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let table = dance::data::io::read(shared("test.npz"), &Default::default()).unwrap();
    let rows = table.embeddings();
    let points = (0..rows.rows())
        .map(|row| json!({ "id": table.ids.as_ref().map(|ids| ids[row].clone()), "embedding": rows.row(row) }))
        .collect();
    (points, expected)
}

pub(super) fn serve_model(more: &[&str]) -> (tempfile::TempDir, Serving) {
    let (folder, at) = scratch();
    std::fs::copy(shared("model"), at("model")).unwrap();
    let model = at("model");
    let mut arguments = vec![model.as_str()];
    arguments.extend(more);
    let serving = Serving::start(&arguments);
    (folder, serving)
}

#[test]
fn single_requests_one_batch_and_the_command_agree() {
    let (points, expected) = points();
    let (_folder, server) = serve_model(&[]);
    let include = json!(["p_values", "probabilities", "neighbors"]);
    let all = server.post("/v1/predict", &json!({ "points": points, "include": include })).json();
    assert_eq!(all["answers"].as_array().unwrap(), &expected);
    for (point, expected) in points.iter().zip(&expected).take(10) {
        let one = server
            .post("/v1/predict", &json!({ "embedding": point["embedding"], "id": point["id"], "include": include }))
            .json();
        let batch = server.post("/v1/predict", &json!({ "points": [point], "include": include })).json();
        assert_eq!(one, batch);
        let mut answer = one["answers"][0].clone();
        answer["row"] = expected["row"].clone();
        assert_eq!(&answer, expected);
    }
    // At the same time, which is when they are gathered.
    std::thread::scope(|scope| {
        for (point, expected) in points.iter().zip(&expected) {
            let (server, include) = (&server, &include);
            scope.spawn(move || {
                let answer = server.post("/v1/predict", &json!({ "points": [point], "include": include })).json();
                assert_eq!(answer["answers"][0]["set"], expected["set"]);
                assert_eq!(answer["answers"][0]["p_values"], expected["p_values"]);
            });
        }
    });
    let two = server.post("/v1/predict", &json!({ "points": points[..2], "alpha": [0.3, 0.1] })).json();
    let alphas: Vec<&Value> = two["answers"].as_array().unwrap().iter().map(|answer| &answer["alpha"]).collect();
    assert_eq!(alphas, [0.3, 0.1, 0.3, 0.1]);
    assert_eq!(two["answers"][3]["set"], expected[1]["set"]);
}

#[test]
fn a_bad_row_costs_itself_and_bad_requests_say_why() {
    let (points, expected) = points();
    let (_folder, server) = serve_model(&["--max-points", "50", "--max-body", "1MB"]);
    let mixed = json!({ "points": [points[0], [1.0], { "id": "x", "embedding": [null] }, points[1], 7] });
    let answer = server.post("/v1/predict", &mixed);
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    let rows = |name: &str| -> Vec<u64> {
        answer[name].as_array().unwrap().iter().map(|one| one["row"].as_u64().unwrap()).collect()
    };
    assert_eq!((rows("answers"), rows("problems")), (vec![0, 3], vec![1, 2, 4]));
    assert_eq!(answer["answers"][1]["set"], expected[1]["set"]);
    assert!(answer["problems"][0]["detail"].as_str().unwrap().contains("fitted with 384 dimensions"));
    for (body, status, part) in [
        ("{", 400, "EOF"),
        ("{\"embedding\": [NaN]}", 400, ""),
        ("[]", 422, "object"),
        ("{}", 422, "give `embedding` or `points`"),
        ("{\"points\": []}", 422, "no points"),
        ("{\"embedding\": [1]}", 422, "row 0: 1 numbers"),
        ("{\"points\": [[1], [2]]}", 422, "none of 2 rows"),
        ("{\"embedding\": [1], \"alpha\": 2}", 422, "between 0 and 1"),
        ("{\"embedding\": [1], \"vector\": 2}", 422, "`vector` is not known"),
    ] {
        let refused = server.post_with("/v1/predict", "Content-Type: application/json\r\n", body.as_bytes());
        assert_eq!(
            (refused.status, refused.header("content-type")),
            (status, Some("application/problem+json")),
            "{body}"
        );
        assert!(refused.json()["detail"].as_str().unwrap().contains(part), "{body}: {}", refused.json());
    }
    let many = json!({ "points": vec![json!([0.5]); 51] });
    assert_eq!(server.post("/v1/predict", &many).status, 413);
    assert_eq!(
        server.post_with("/v1/predict", "Content-Type: application/json\r\n", &vec![b' '; 3_000_000]).status,
        413
    );
    assert_eq!(server.post_with("/v1/predict", "Content-Type: text/plain\r\n", b"{}").status, 415);
    assert_eq!(server.get("/v1/nothing").status, 404);
    let wrong_method = server.get("/v1/predict");
    assert_eq!((wrong_method.status, wrong_method.header("allow")), (405, Some("POST")));
    assert_eq!(server.get("/healthz").json()["status"], "ok");
    assert!(String::from_utf8(server.get("/metrics").body).unwrap().contains("dance_points_refused_total"));
}

#[test]
fn labels_survive_a_kill_and_only_random_points_recalibrate() {
    let (points, _) = points();
    let (folder, mut server) = serve_model(&["--points", &shared("test.npz")]);
    let label = |server: &Serving, provenance: &str, labels: Value| {
        server.post("/page-api/labels", &json!({ "provenance": provenance, "labels": labels }))
    };
    let page = server.get("/page-api/points").json();
    let audit: Vec<u64> = page["random"].as_array().unwrap().iter().map(|place| place.as_u64().unwrap()).collect();
    let other = (0..=audit.len() as u64).find(|place| !audit.contains(place)).unwrap();
    let of = |place: u64| page["labels"][place as usize].clone();
    let audited: Vec<Value> = audit.iter().map(|&place| json!({ "point": place, "label": of(place) })).collect();
    assert_eq!(label(&server, "random", audited.into()).json()["recorded"], audit.len());
    // An invalid row is refused alone; a request without a valid row is refused.
    let wrong = json!([{ "point": audit[0], "label": [] }, 3, { "label": "x" }]);
    let refused = label(&server, "random", wrong.clone());
    assert_eq!((refused.status, refused.json()["rows"].as_array().unwrap().len()), (422, 3));
    assert_eq!(label(&server, "picked", json!([{ "point": other, "label": of(other) }])).status, 200);
    // The provenance of a point cannot change.
    assert_eq!(label(&server, "random", json!([{ "point": other, "label": of(other) }])).status, 409);
    assert_eq!(label(&server, "picked", json!([{ "point": audit[0], "label": of(audit[0]) }])).status, 409);
    let embedding = &points[other as usize]["embedding"];
    let picked = json!({ "provenance": "random", "labels": [{ "embedding": embedding, "label": "x" }] });
    assert_eq!(server.post("/v1/labels", &picked).status, 409);
    let known = server.get("/page-api/labels").json();
    assert_eq!(known.as_array().unwrap().len(), audit.len() + 1);
    assert!(known.as_array().unwrap().contains(&json!({ "point": other, "label": of(other), "provenance": "picked" })));
    let before = server.get("/v1/monitor").json();
    assert_eq!((before["random"].as_u64(), before["picked"].as_u64()), (Some(audit.len() as u64), Some(1)));

    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let journal = folder.path().join("model.journal.jsonl");
    let mut torn = std::fs::OpenOptions::new().append(true).open(&journal).unwrap();
    torn.write_all(b"{\"time\":\"2026").unwrap();
    let model = folder.path().join("model").display().to_string();
    let server = Serving::start(&[&model, "--points", &shared("test.npz")]);
    assert_eq!(server.get("/v1/monitor").json(), before);
    assert_eq!(server.get("/page-api/labels").json(), known);
    drop(server);
    let again = folder.path().join("again").display().to_string();
    let journal = journal.display().to_string();
    let ran = run(&["recalibrate", &model, &journal, "-o", &again, "--json"]).success().json();
    assert_eq!(ran["calibration_points"], audit.len());
    assert!(ran["warnings"].to_string().contains("1 labels of picked points are left out"));
}

/// Random points that are turned around raise an alarm, repeated points do not count, and a restart keeps the state.
/// The bound is the martingale's: there are two of them, each with half of the false alarms.
#[test]
fn a_change_raises_an_alarm_that_survives_a_restart() {
    let (points, _) = points();
    let (folder, at) = scratch();
    std::fs::copy(shared("model"), at("model")).unwrap();
    let table = dance::data::io::read(shared("test.npz"), &Default::default()).unwrap();
    let labels = table.label_names(&[]).unwrap();
    let turned = |row: usize, sign: f64| {
        let numbers = points[row]["embedding"].as_array().unwrap().iter();
        let numbers: Vec<f64> = numbers.map(|number| sign * number.as_f64().unwrap()).collect();
        json!({ "embedding": numbers, "label": labels[row] })
    };
    let change = |server: &Serving| server.get("/v1/monitor").json()["change"].clone();
    let mut server = Serving::start(&[&at("model")]);
    assert_eq!((&change(&server)["points"], &change(&server)["bound"]), (&0.into(), &200.0.into()));
    let count = points.len().min(60);
    let usual: Vec<Value> = (0..count).map(|row| turned(row, 1.0)).collect();
    for provenance in ["random", "random", "picked"] {
        // Repeated points and picked points do not count.
        server.post("/v1/labels", &json!({ "provenance": provenance, "labels": usual }));
    }
    let calm = change(&server);
    assert_eq!(calm["points"], count, "{calm}");
    assert!(calm["watched"].as_array().unwrap().iter().all(|one| one["alarm"].is_null()), "{calm}");
    let odd: Vec<Value> = (0..count).map(|row| turned(row, -1.0)).collect();
    assert_eq!(server.post("/v1/labels", &json!({ "provenance": "random", "labels": odd })).status, 200);
    let alarmed = change(&server);
    let inputs = &alarmed["watched"][0];
    assert_eq!((&inputs["what"], &alarmed["points"]), (&"inputs".into(), &(2 * count).into()));
    assert!(inputs["alarm"]["point"].as_u64().unwrap() >= count as u64, "{alarmed}");
    assert!(inputs["largest"].as_f64().unwrap() >= 200.0, "{alarmed}");
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(metrics.contains("dance_drift_alarm{watched=\"inputs\"} 1"), "{metrics}");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Serving::start(&[&at("model")]);
    assert_eq!(change(&server), alarmed);
    drop(folder);
}

#[test]
fn a_full_disk_costs_labels_and_no_answer() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let (points, _) = points();
    let (_folder, server) = serve_model(&["--journal", "/dev/full"]);
    let body = json!({ "provenance": "random", "labels": [{ "embedding": points[0]["embedding"], "label": "x" }] });
    let refused = server.post("/v1/labels", &body);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(server.get("/healthz").json()["status"], "degraded");
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(server.post("/v1/predict", &json!({ "points": points[..1] })).status, 200);
}

#[test]
fn a_bad_model_is_refused_under_load_and_no_request_is_lost() {
    let (points, _) = points();
    let (folder, server) = serve_model(&[]);
    let model = folder.path().join("model");
    let good = std::fs::read(&model).unwrap();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for point in &points[..4] {
            let (server, done, answered) = (&server, &done, &answered);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(server.post("/v1/predict", &json!({ "points": [point] })).status, 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let hash = || server.get("/v1/models").json()["models"][0]["hash"].clone();
        let before = hash();
        std::fs::write(&model, &good[..good.len() / 2]).unwrap();
        let refused = server.post("/v1/reload", &json!({}));
        assert_eq!(refused.status, 409);
        assert!(refused.json()["detail"].as_str().unwrap().contains("the model before it goes on"));
        assert_eq!(hash(), before);
        let other = folder.path().join("other").display().to_string();
        run(&["recalibrate", &shared("model"), &shared("small.npz"), "-o", &other]).success();
        std::fs::copy(&other, &model).unwrap();
        assert_eq!(server.post("/v1/reload", &json!({})).status, 200);
        assert_ne!(hash(), before);
        done.store(true, Ordering::Relaxed);
    });
    assert!(answered.into_inner() > 0);
}

#[cfg(unix)]
#[test]
fn what_was_taken_is_finished_before_the_end() {
    let (points, _) = points();
    let (_folder, mut server) = serve_model(&[]);
    let body = json!({ "points": points }).to_string();
    let request = format!(
        "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (server, request, stopped) = (&server, &request, &stopped);
            scope.spawn(move || {
                // One connection, until the server closes it.
                let mut stream = server.connect();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                loop {
                    stream.write_all(request.as_bytes()).unwrap();
                    let response = read_response(&mut reader).expect("an answer to every request");
                    assert_eq!(response.status, 200);
                    if response.header("connection") == Some("close") {
                        assert!(stopped.load(Ordering::SeqCst));
                        break;
                    }
                }
            });
        }
        stopped.store(true, Ordering::SeqCst);
        server.signal("-TERM");
    });
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn half_a_request_costs_nobody_else_anything() {
    let (points, _) = points();
    // The server answers one request at a time, which a slow sender must not block.
    let (_folder, server) = serve_model(&["--timeout", "1", "--max-requests", "1"]);
    let slow = ["/v1/predict", "/v1/embed", "/v1/explain", "/v1/labels", "/v2/models/model/infer"].map(|path| {
        let mut stream = server.connect();
        let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
        stream.write_all(format!("POST {path} HTTP/1.1\r\n{head}").as_bytes()).unwrap();
        stream
    });
    let _half_a_head = {
        let mut stream = server.connect();
        stream.write_all(b"POST /v1/pre").unwrap();
        stream
    };
    assert_eq!(server.post("/v1/predict", &json!({ "points": points[..3] })).status, 200);
    // A request takes one turn, so that a server with a single one answers every path. (There is no encoder.)
    assert_eq!(server.post_with("/v1/embed", "Content-Type: image/png\r\n", b"x").status, 404);
    for stream in slow {
        assert_eq!(read_response(&mut BufReader::new(stream)).unwrap().status, 408);
    }
}

#[test]
fn the_page_has_its_files_and_tells_browsers_to_ask_nobody_else() {
    let (_folder, server) = serve_model(&[]);
    let page = server.get("/");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self';"), "{policy}");
    let text = String::from_utf8(page.body).unwrap();
    for file in text.split('"').filter(|part| part.starts_with("/page/")) {
        let found = server.get(file);
        assert_eq!((found.status, found.header("x-content-type-options")), (200, Some("nosniff")), "{file}");
    }
    assert_eq!(server.get("/page/../Cargo.toml").status, 404);
    assert_eq!(server.get("/page-api/pictures/..%2f..%2fetc%2fpasswd").status, 404);
    let interface = server.get("/openapi.json").json();
    let schemas = &interface["components"]["schemas"];
    assert_eq!(schemas["PredictPoint"]["properties"]["embedding"]["minItems"], 384);
    assert_eq!(schemas["PredictRequest"]["oneOf"].as_array().unwrap().len(), 2);
}
