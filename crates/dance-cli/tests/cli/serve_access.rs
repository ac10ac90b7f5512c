//! Who is let in to `dance serve`: keys and their kinds, hosts, origins, and what the log says of it.

use std::io::Read;

use serde_json::{Value, json};

use super::client::Serving;
use super::serve::{points, serve_model};
use super::{run, scratch, shared};

#[test]
fn keys_hosts_and_open_doors() {
    let (folder, at) = scratch();
    std::fs::copy(shared("model"), at("model")).unwrap();
    std::fs::write(at("keys"), "0123456789abcdef\nfedcba9876543210 administer operator\n").unwrap();
    run(&["serve", &at("model"), "--host", "0.0.0.0", "--port", "0"]).fails(&[
        "other machines",
        "--api-key-file",
        "--api-key-file none",
    ]);
    let server = Serving::start(&[&at("model"), "--api-key-file", &at("keys")]);
    let asked = |headers: &str| {
        server.send(format!("GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n").as_bytes())
    };
    let refused = asked("");
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(asked("Authorization: Bearer 0123456789abcdee\r\n").status, 401);
    assert_eq!(asked("Authorization: Bearer 0123456789abcdef\r\n").status, 200);
    assert_eq!(asked("X-Api-Key: 0123456789abcdef\r\n").status, 200);
    for free in ["/healthz", "/readyz", "/openapi.json", "/", "/page/main.js", "/v2/health/live", "/v2/health/ready"] {
        assert_eq!(server.get(free).status, 200, "{free}");
    }
    // Browsers ask for an icon without a key.
    assert_eq!(server.get("/favicon.ico").status, 204);
    for locked in ["/metrics", "/v1/labels", "/page-api/model", "/v2/models/model", "/v1/nothing"] {
        assert_eq!(server.get(locked).status, 401, "{locked}");
    }
    let api = server.get("/openapi.json").json();
    assert_eq!(api["components"]["securitySchemes"]["header"]["name"], "X-Api-Key");
    assert_eq!(api["paths"]["/v1/predict"]["post"]["security"].as_array().unwrap().len(), 2);
    assert_eq!(api["paths"]["/healthz"]["get"]["security"], Value::Null);
    // Only a key that may administer replaces the model.
    let reload = |key: &str| server.post_with("/v1/reload", &format!("X-Api-Key: {key}\r\n"), b"").status;
    assert_eq!(["0123456789abcdef", "fedcba9876543210"].map(reload), [403, 200]);
    drop((server, folder));
    // Without keys, only this machine's own names are answered to.
    let (_folder, server) = serve_model(&[]);
    let asked = |host: &str| {
        server.send(format!("GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes()).status
    };
    assert_eq!(
        ["localhost", "127.0.0.1:8080", "[::1]:80", "evil.example", "localhost.evil.example:80"].map(asked),
        [200, 200, 200, 403, 403]
    );
}

#[cfg(unix)]
#[test]
fn keys_are_read_again_and_a_bad_file_leaves_those_before_it() {
    let (_folder, at) = scratch();
    std::fs::copy(shared("model"), at("model")).unwrap();
    std::fs::write(at("keys"), "0123456789abcdef\n").unwrap();
    let server = Serving::start(&[&at("model"), "--api-key-file", &at("keys")]);
    let status = |key: &str| {
        let head = format!("GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: {key}\r\n\r\n");
        server.send(head.as_bytes()).status
    };
    let reload = |keys: &str, wanted: [u16; 2]| {
        std::fs::write(at("keys"), keys).unwrap();
        server.signal("-HUP");
        for _ in 0..200 {
            if ["0123456789abcdef", "newkeynewkeynewkey"].map(status) == wanted {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("the keys are not {keys:?}");
    };
    reload("newkeynewkeynewkey\n", [401, 200]);
    // Without keys nobody would need one, so an empty file is refused.
    std::fs::write(at("keys"), "# none\n").unwrap();
    server.signal("-HUP");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(["0123456789abcdef", "newkeynewkeynewkey"].map(status), [401, 200]);
    reload("0123456789abcdef\nnewkeynewkeynewkey\n", [200, 200]);
}

#[test]
fn pages_of_other_origins_change_nothing() {
    let (_folder, server) = serve_model(&[]);
    let reload = |headers: &str| server.post_with("/v1/reload", headers, b"");
    for (headers, status) in [
        ("", 200),
        ("Origin: http://localhost\r\n", 200),
        ("Sec-Fetch-Site: same-origin\r\nOrigin: http://behind.a.proxy\r\n", 200),
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: http://localhost:1\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
    ] {
        let response = reload(headers);
        assert_eq!(response.status, status, "{headers}");
        if status == 403 {
            assert!(response.json()["type"].as_str().unwrap().ends_with("#origin-not-allowed"), "{}", response.json());
        }
    }
}

#[test]
fn the_log_names_the_key_the_trace_and_the_points() {
    let (points, _) = points();
    let (_folder, at) = scratch();
    std::fs::copy(shared("model"), at("model")).unwrap();
    std::fs::write(at("keys"), "0123456789abcdef use shop\n").unwrap();
    let mut server = Serving::start_loud(&[&at("model"), "--api-key-file", &at("keys")]);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = format!(
        "Content-Type: application/json\r\nX-Api-Key: 0123456789abcdef\r\nTraceparent: {trace}\r\nX-Request-Id: mine\r\n"
    );
    let body = json!({ "points": points[..3] }).to_string();
    let answer = server.post_with("/v1/predict", &headers, body.as_bytes());
    assert_eq!((answer.status, answer.header("x-request-id")), (200, Some("mine")));
    // An id that could break a log is replaced.
    let odd = server.post_with("/v1/predict", "X-Request-Id: a b\r\n", b"");
    assert!(odd.header("x-request-id").is_some_and(|id| id != "a b"));
    server.child.kill().unwrap();
    let mut log = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    let line: Value = log.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
    let hash = answer.json()["model"]["hash"].clone();
    for (name, expected) in [
        ("key", json!("shop")),
        ("trace", json!("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("span", json!("00f067aa0ba902b7")),
        ("request", json!("mine")),
        ("points", json!(3)),
        ("model", hash),
        ("status", json!(200)),
    ] {
        assert_eq!(line[name], expected, "{line}");
    }
    assert!(!log.contains("0123456789abcdef"), "{log}");
}

#[test]
fn overload_is_the_fault_of_the_server() {
    let (points, _) = points();
    let (_folder, server) = serve_model(&["--max-requests", "1"]);
    let body = json!({ "points": vec![points.clone(); 8].concat() });
    let statuses = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let answer = server.post("/v1/predict", &body);
                let kind = answer.json()["type"].as_str().unwrap_or_default().to_owned();
                assert_eq!(answer.status == 503, answer.header("retry-after") == Some("1"), "{kind}");
                assert!(answer.status == 200 || kind.ends_with("#overloaded"), "{} {kind}", answer.status);
                statuses.lock().unwrap().push(answer.status);
            });
        }
    });
    let statuses = statuses.into_inner().unwrap();
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
    assert_eq!(server.get("/healthz").status, 200);
}
