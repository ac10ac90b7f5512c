//! The Open Inference Protocol of `dance serve`, request by request. `make test-api` drives it with a client of others.

use serde_json::{Value, json};

use super::client::{Response, Serving};
use super::serve::{points, serve_model};
use super::{fit_toy, scratch, toy};

fn tensor<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["outputs"].as_array().unwrap().iter().find(|tensor| tensor["name"] == name).unwrap()
}

fn input(points: &[Value]) -> Value {
    let numbers: Vec<&Value> = points.iter().map(|point| &point["embedding"]).collect();
    json!({ "name": "embedding", "datatype": "FP32", "shape": [numbers.len(), 384], "data": numbers })
}

#[test]
fn health_and_metadata_name_the_model_and_its_tensors() {
    let (_folder, server) = serve_model(&[]);
    let get = |path: &str| server.get(path).json();
    assert_eq!(get("/v2")["extensions"], json!(["binary_tensor_data"]));
    assert_eq!((get("/v2/health/live"), get("/v2/health/ready")), (json!({ "live": true }), json!({ "ready": true })));
    let model = get("/v2/models/model");
    let version = model["versions"][0].as_str().unwrap().to_owned();
    assert_eq!(model["inputs"], json!([{ "name": "embedding", "datatype": "FP32", "shape": [-1, 384] }]));
    let names: Vec<&str> =
        model["outputs"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["prediction", "probability", "set_offsets", "set", "p_values", "novelty"]);
    assert_eq!(get(&format!("/v2/models/model/versions/{version}")), model);
    assert_eq!(get("/v2/models/model/ready"), json!({ "name": "model", "ready": true }));
    assert_eq!(get(&format!("/v2/models/model/versions/{version}/ready"))["ready"], true);
    for (path, part) in [
        ("/v2/models/other", "this server has `model`"),
        ("/v2/models/other/ready", "no model `other`"),
        ("/v2/models/model/versions/1", "no version `1`"),
        ("/v2/nothing", "openapi.json"),
    ] {
        let refused = server.get(path);
        assert_eq!(refused.status, 404, "{path}");
        assert!(refused.json()["error"].as_str().unwrap().contains(part), "{path}: {}", refused.json());
    }
}

#[test]
fn tensors_have_the_answers_of_predict() {
    let (points, _) = points();
    let (_folder, server) = serve_model(&[]);
    let expected =
        server.post("/v1/predict", &json!({ "points": points, "alpha": 0.3, "include": ["p_values"] })).json();
    let expected = expected["answers"].as_array().unwrap();
    let request = json!({ "id": "mine", "inputs": [input(&points)], "parameters": { "alpha": 0.3 } });
    let answer = server.post("/v2/models/model/infer", &request).json();
    assert_eq!((&answer["id"], &answer["model_name"]), (&json!("mine"), &json!("model")));
    let model = &server.get("/v1/models").json()["models"][0];
    assert_eq!(answer["model_version"], model["version"]);
    assert_eq!((&answer["parameters"]["alpha"], &answer["parameters"]["hash"]), (&json!(0.3), &model["hash"]));
    let data = |name: &str| tensor(&answer, name)["data"].as_array().unwrap();
    let offsets: Vec<usize> = data("set_offsets").iter().map(|offset| offset.as_u64().unwrap() as usize).collect();
    assert_eq!((offsets.len(), offsets[0]), (points.len() + 1, 0));
    assert_eq!(offsets[points.len()], data("set").len());
    assert_eq!(tensor(&answer, "set")["shape"], json!([data("set").len()]));
    for (row, one) in expected.iter().enumerate() {
        let set = offsets[row]..offsets[row + 1];
        assert_eq!(&data("set")[set.clone()], &one["set"].as_array().unwrap()[..]);
        assert_eq!(&data("p_values")[set], &one["p_values"].as_array().unwrap()[..]);
        for name in ["prediction", "probability", "novelty"] {
            assert_eq!(data(name)[row], one[name], "{name}");
        }
    }
    assert_eq!(tensor(&answer, "set")["datatype"], "BYTES");
}

#[test]
fn binary_tensors_are_read_and_written() {
    let (points, _) = points();
    let (_folder, server) = serve_model(&[]);
    let expected = server.post("/v2/models/model/infer", &json!({ "inputs": [input(&points[..4])] })).json();
    let numbers = points[..4].iter().flat_map(|point| point["embedding"].as_array().unwrap());
    let bytes: Vec<u8> = numbers.flat_map(|number| (number.as_f64().unwrap() as f32).to_le_bytes()).collect();
    let head = json!({
        "inputs": [{
            "name": "embedding", "datatype": "FP32", "shape": [4, 384], "parameters": { "binary_data_size": bytes.len() },
        }],
        "outputs": [
            { "name": "novelty", "parameters": { "binary_data": true } },
            { "name": "prediction", "parameters": { "binary_data": true } },
            { "name": "set_offsets" },
        ],
    });
    let send = |head: &Value, bytes: &[u8]| -> Response {
        let head = head.to_string();
        let headers = format!("Inference-Header-Content-Length: {}\r\n", head.len());
        server.post_with("/v2/models/model/infer", &headers, &[head.as_bytes(), bytes].concat())
    };
    let answer = send(&head, &bytes);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/octet-stream")));
    let length: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
    let (json, mut rest) = answer.body.split_at(length);
    let json: Value = serde_json::from_slice(json).unwrap();
    assert_eq!(tensor(&json, "set_offsets"), tensor(&expected, "set_offsets"));
    let novelty: Vec<f64> = rest[..32].chunks(8).map(|one| f64::from_le_bytes(one.try_into().unwrap())).collect();
    assert_eq!(json!(novelty), tensor(&expected, "novelty")["data"]);
    rest = &rest[32..];
    assert_eq!(tensor(&json, "prediction")["parameters"]["binary_data_size"], rest.len());
    let mut predictions = Vec::new();
    while let Some((length, text)) = rest.split_first_chunk::<4>() {
        let (text, after) = text.split_at(u32::from_le_bytes(*length) as usize);
        predictions.push(String::from_utf8(text.to_vec()).unwrap());
        rest = after;
    }
    assert_eq!(json!(predictions), tensor(&expected, "prediction")["data"]);
    // Bytes that do not fit are refused.
    for (bytes, part) in [(&bytes[..8], "8 bytes behind"), (&[&bytes[..], &[0]].concat()[..], "behind the JSON")] {
        let refused = send(&head, bytes);
        assert_eq!(refused.status, 400);
        assert!(refused.json()["error"].as_str().unwrap().contains(part), "{}", refused.json());
    }
    let mut invalid = bytes.clone();
    invalid[384 * 4..384 * 4 + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let refused = send(&head, &invalid);
    assert!(refused.json()["error"].as_str().unwrap().contains("row 1 of `embedding`"), "{}", refused.json());
}

#[test]
fn wrong_tensors_get_the_error_of_the_protocol() {
    let (points, _) = points();
    let (_folder, server) = serve_model(&["--max-points", "50"]);
    let good = input(&points[..2]);
    let with = |name: &str, value: Value| {
        let mut input = good.clone();
        input[name] = value;
        json!({ "inputs": [input] })
    };
    for (request, part) in [
        (with("name", json!("x")), "`x` is no input; the input is `embedding`, FP32, of shape [-1, 384]"),
        (with("datatype", json!("FP64")), "datatype FP64; the input is `embedding`, FP32"),
        (with("shape", json!([2, 3])), "shape [2, 3]; the input is"),
        (with("shape", json!([768])), "shape [768]; the input is"),
        (with("shape", json!([0, 384])), "shape [0, 384]; the input is"),
        (with("shape", json!([3, 384])), "has 768 numbers; shape [3, 384] needs 1152"),
        (with("shape", json!([51, 384])), "at most 50 points"),
        (with("data", json!(["a"])), "expected a number"),
        (with("parameters", json!({ "binary_data_size": 8 })), "either in `data` or behind the JSON"),
        (json!({ "inputs": [] }), "there are 0 inputs"),
        (json!({ "inputs": [good, good] }), "there are 2 inputs"),
        (json!({ "inputs": [good], "outputs": [{ "name": "logits" }] }), "`logits` is no output; the outputs are"),
        (json!({ "inputs": [good], "parameters": { "alpha": 2 } }), "between 0 and 1"),
        (json!({}), "missing field `inputs`"),
    ] {
        let refused = server.post("/v2/models/model/infer", &request);
        assert!([400, 413].contains(&refused.status), "{part}: {}", refused.status);
        let error = refused.json();
        assert_eq!(error.as_object().unwrap().len(), 1, "{error}");
        assert!(error["error"].as_str().unwrap().contains(part), "{part}: {error}");
    }
    assert_eq!(server.post("/v2/models/other/infer", &json!({ "inputs": [good] })).status, 404);
}

#[test]
fn numbers_as_labels_are_tensors_of_numbers() {
    let (_folder, at) = scratch();
    toy(&at("data.jsonl"), 90, |row| (row % 3 + 10).to_string(), |row| row.to_string());
    fit_toy(&at("data.jsonl"), &at("m"), &["--new-labels"]).success();
    let server = Serving::start(&[&at("m")]);
    let input = json!({ "name": "embedding", "datatype": "FP32", "shape": [1, 4], "data": [5.1, 0.2, 0.3, 0.4] });
    let answer = server.post("/v2/models/m/infer", &json!({ "inputs": [input] })).json();
    for name in ["prediction", "set"] {
        assert_eq!(tensor(&answer, name)["datatype"], "INT64", "{answer}");
    }
    assert_eq!(tensor(&answer, "prediction")["data"], json!([10]));
    assert_eq!(tensor(&answer, "new_label")["datatype"], "BOOL");
}
