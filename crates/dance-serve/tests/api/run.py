"""Tests of the API by programs of others (`make test-api`). The argument is the binary.

A property tester (schemathesis) checks a running server against its OpenAPI description. A client is generated from the
description and used. Arrow requests are compared with JSON requests. The client of Triton (`tritonclient`) speaks the
Open Inference Protocol, with JSON and with binary tensors.
"""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

COLOURS = {"red": (0.8, 0.2, 0.2), "green": (0.2, 0.7, 0.3), "blue": (0.2, 0.3, 0.8)}
EXAMPLES = 100
ARROW = "application/vnd.apache.arrow.stream"
SCRIPTS = Path(sys.executable).parent


def colours(path: Path) -> None:
    """Writes points in three dimensions, of which a property tester can generate valid ones."""
    draw = random.Random(7)
    lines = ["id,label,r,g,b"]
    for number in range(300):
        label, colour = list(COLOURS.items())[number % len(COLOURS)]
        parts = (f"{part + draw.uniform(-0.25, 0.25):.4f}" for part in colour)
        lines.append(f"p{number},{label},{','.join(parts)}")
    path.write_text("\n".join(lines) + "\n")


@contextmanager
def served(binary: Path, folder: Path):
    """Serves a small model with points of its own."""
    colours(folder / "colours.csv")
    split = ["--split", "0.3,0.4,0.3", "--test-out", "test.csv", "--evaluations", "2", "--quiet"]
    quiet = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([binary, "fit", "colours.csv", "-o", "colours.dance", *split], **quiet)
    command = [binary, "serve", "colours.dance", "--points", "test.csv", "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)
    try:
        yield json.loads(server.stdout.readline())["url"]
    finally:
        server.kill()
        server.wait()


def described(url: str) -> None:
    """Checks that described requests are answered as described, and that others are refused."""
    options = ["--max-examples", str(EXAMPLES), "--seed", "1", "--generation-database", "none", "--no-color"]
    subprocess.run([SCRIPTS / "st", "run", f"{url}/openapi.json", *options], check=True)


def generated(url: str, folder: Path) -> None:
    """Predicts, explains and labels by a client that is generated from the description."""
    generator = [
        SCRIPTS / "openapi-python-client",
        "generate",
        "--url",
        f"{url}/openapi.json",
        "--meta",
        "none",
    ]
    subprocess.run([*generator, "--output-path", folder / "made"], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, str(folder))
    made = importlib.import_module("made")
    models = importlib.import_module("made.models")

    def call(where: str, **arguments):
        answer = importlib.import_module(f"made.api.{where}").sync(client=client, **arguments)
        assert not isinstance(answer, models.Problem), answer
        return answer

    red, blue = list(COLOURS["red"]), list(COLOURS["blue"])
    with made.Client(base_url=url) as client:
        one = call("sets.predict", body=models.PredictPoint(embedding=red, id="r", alpha=0.05))
        assert (one.answers[0].prediction, one.answers[0].id, one.answers[0].alpha) == ("red", "r", 0.05)
        include = [models.Include("p_values")]
        two = call(
            "sets.predict",
            body=models.PredictPoints(points=[red, {"id": 7, "embedding": blue}], include=include),
        )
        assert [answer.prediction for answer in two.answers] == ["red", "blue"]
        assert two.model.name == "colours" and len(two.model.hash_) == 16
        assert two.answers[1].id == 7
        assert len(two.answers[0].p_values) == len(two.answers[0].set_)
        why = call("sets.explain", body=models.ExplainRequest(embedding=blue, alpha=0.1))
        assert (why.prediction, len(why.labels)) == ("blue", len(COLOURS))
        assert why.labels[0].label == "blue" and why.labels[0].examples
        row = models.LabelRow(label="red", embedding=[0.81, 0.19, 0.21], id="new")
        before = call("labels.monitor").random
        request = models.LabelsRequest(provenance=models.Provenance.RANDOM, labels=[row])
        assert call("labels.record", body=request).recorded == 1
        assert call("labels.monitor").random == before + 1
        listed = call("labels.list_", limit=1)
        assert (listed.labels[0].label, listed.labels[0].id, listed.next_) == ("red", "new", None)
        served = call("model.models").models[0]
        assert (served.dimensions, served.hash_) == (3, two.model.hash_)


def in_bulk(url: str) -> None:
    """Checks that Arrow and JSON give the same answers, and that an invalid row does not cost the others."""
    draw = random.Random(1)
    rows = [[draw.random() for _ in range(3)] for _ in range(500)]
    levels = "alpha=0.1,0.05&include=p_values&empty=top1"

    def post(path: str, body: bytes, media_type: str, accept: str = "*/*") -> tuple[str, bytes]:
        request = urllib.request.Request(url + path, body, {"Content-Type": media_type, "Accept": accept})
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.headers["Content-Type"], response.read()

    def stream(table: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=128)
        return sink.getvalue().to_pybytes()

    question = {"points": [{"id": f"p{number}", "embedding": row} for number, row in enumerate(rows)]}
    question |= {"alpha": [0.1, 0.05], "include": ["p_values"], "empty": "top1"}
    _, body = post("/v1/predict", json.dumps(question).encode(), "application/json")
    expected = json.loads(body)["answers"]
    ids = pa.array([f"p{number}" for number in range(len(rows))])
    for kind in [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float32(), 3)]:
        table = pa.table({"id": ids, "embedding": pa.array(rows, kind)})
        media_type, body = post(f"/v1/predict?{levels}", stream(table), ARROW)
        assert media_type == ARROW, media_type
        answers = pa.ipc.open_stream(body).read_all().to_pylist()
        assert len(answers) == len(expected) == 2 * len(rows)
        for answer, other in zip(answers, expected, strict=True):
            for name in ["row", "id", "prediction", "set", "alpha", "novelty", "p_values"]:
                assert answer[name] == other[name], (kind, name, answer, other)
    table = pa.table({"embedding": pa.array([rows[0], None, [1.0], rows[1]], pa.list_(pa.float32()))})
    media_type, body = post("/v1/predict", stream(table), ARROW, "application/json")
    answer = json.loads(body)
    assert media_type == "application/json"
    assert [one["row"] for one in answer["answers"]] == [0, 3]
    assert [one["row"] for one in answer["problems"]] == [1, 2]
    _, body = post("/v1/predict", stream(table), ARROW)
    answers = pa.ipc.open_stream(body).read_all()
    assert answers["row"].to_pylist() == [0, 1, 2, 3]
    assert [one is None for one in answers["set"].to_pylist()] == [False, True, True, False]
    assert ["null" in answers["error"][1].as_py(), "1 numbers" in answers["error"][2].as_py()] == [True, True]
    assert b"guarantee" in answers.schema.metadata
    assert json.loads(answers.schema.metadata[b"model"])["name"] == "colours"


def by_triton(url: str) -> None:
    """Checks the Open Inference Protocol with the client of Triton, as JSON and as binary tensors."""
    draw = random.Random(2)
    rows = np.array([[draw.random() for _ in range(3)] for _ in range(200)], dtype=np.float32)
    question = {"points": rows.tolist(), "alpha": 0.05, "include": ["p_values"]}
    request = urllib.request.Request(
        f"{url}/v1/predict", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        expected = json.loads(response.read())

    client = triton.InferenceServerClient(url.removeprefix("http://"))
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("colours")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    metadata = client.get_model_metadata("colours")
    assert metadata["inputs"] == [{"name": "embedding", "datatype": "FP32", "shape": [-1, 3]}]
    (version,) = metadata["versions"]
    assert version == expected["model"]["version"]
    names = [tensor["name"] for tensor in metadata["outputs"]]

    def point(values: np.ndarray, binary: bool, datatype: str = "FP32", name: str = "embedding"):
        given = triton.InferInput(name, values.shape, datatype)
        given.set_data_from_numpy(values, binary_data=binary)
        return given

    for binary in [False, True]:
        for wanted in [None, [triton.InferRequestedOutput(name, binary_data=binary) for name in names]]:
            answer = client.infer(
                "colours",
                [point(rows, binary)],
                model_version=version if binary else "",
                outputs=wanted,
                request_id="mine",
                parameters={"alpha": 0.05},
            )
            whole = answer.get_response()
            assert (whole["id"], whole["model_name"], whole["model_version"]) == ("mine", "colours", version)
            assert whole["parameters"]["hash"] == expected["model"]["hash"]
            offsets, labels, p_values = (answer.as_numpy(name) for name in ["set_offsets", "set", "p_values"])
            for row, other in enumerate(expected["answers"]):
                part = slice(offsets[row], offsets[row + 1])
                assert text(labels[part]) == other["set"], (binary, row)
                assert p_values[part].tolist() == other["p_values"], (binary, row)
                assert answer.as_numpy("novelty")[row] == other["novelty"]
                assert answer.as_numpy("probability")[row] == np.float32(other["probability"])
            assert text(answer.as_numpy("prediction")) == [
                other["prediction"] for other in expected["answers"]
            ]

    def refused(part: str, given, model: str = "colours", **more) -> None:
        try:
            client.infer(model, [given], **more)
        except InferenceServerException as error:
            assert part in str(error), error
            return
        raise AssertionError(f"a request with a fault was answered; expected: {part}")

    for binary in [False, True]:
        refused("shape [200, 2]", point(rows[:, :2].copy(), binary))
        refused("datatype FP64", point(rows.astype(np.float64), binary, "FP64"))
        refused("`vector` is no input", point(rows, binary, name="vector"))
    refused("there is no model `other`", point(rows, True), "other")
    refused("`logits` is no output", point(rows, True), outputs=[triton.InferRequestedOutput("logits")])
    refused("row 1 of `embedding`", point(np.array([[1, 2, 3], [1, np.nan, 3]], np.float32), True))
    client.close()


def text(labels: np.ndarray) -> list[str]:
    """Returns labels of type BYTES as texts: they come as bytes from binary tensors, as texts from JSON."""
    return [label.decode() if isinstance(label, bytes) else label for label in labels]


def main() -> None:
    binary = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with served(binary, folder) as url:
            in_bulk(url)
            print("ok: Arrow in bulk", flush=True)
            by_triton(url)
            print("ok: the client of Triton", flush=True)
            generated(url, folder)
            print("ok: a generated client", flush=True)
            described(url)
            print("ok: the description holds", flush=True)


if __name__ == "__main__":
    main()
