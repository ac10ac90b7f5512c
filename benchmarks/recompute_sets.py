"""Recomputes the sets of a model file with safetensors and NumPy alone, as docs/format.md says.

    python benchmarks/recompute_sets.py [model.safetensors answers.json]

`answers.json` holds `queries` (rows of numbers) and `sets` (by alpha, a list of labels a query). Without arguments the stored
models of the tests are checked.
"""

import hashlib
import json
import math
import struct
import sys
from pathlib import Path

from environment import enter

if __name__ == "__main__":
    enter("numpy", "safetensors")

import numpy as np
from safetensors import safe_open


def load(path):
    data = bytearray(Path(path).read_bytes())
    length = struct.unpack("<Q", data[:8])[0]
    place = data.index(b'"checksum":"', 8, 8 + length) + len(b'"checksum":"')
    checksum = bytes(data[place : place + 64]).decode()
    data[place : place + 64] = b"0" * 64
    assert hashlib.sha256(data).hexdigest() == checksum, "the checksum does not match"
    with safe_open(path, framework="numpy") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}


def squared_distances(points, query):
    return ((points.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1)


def scores(meta, tensors, queries):
    """Rank and contrastive scores, queries × classes."""
    z = np.asarray(queries, dtype=np.float32)
    if meta["normalize"] == "l2":
        z = (z / np.linalg.norm(z.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)
    elif meta["normalize"] == "standardize":
        z = (z - tensors["normalize_mean"]) / tensors["normalize_scale"]
    root, labels = tensors["metric_root"], tensors["reference_labels"]
    x, reference = z @ root, tensors["reference"] @ root
    bandwidth, shape, temperature = (float(meta[key]) for key in ("bandwidth", "shape", "temperature"))
    rank = np.full((len(x), len(json.loads(meta["classes"]))), np.inf)
    contrast = rank.copy()
    for row, query in enumerate(x):
        order = np.argsort(squared_distances(reference, query), kind="stable")
        for place, point in enumerate(order[: int(meta["rank_neighbors"])]):
            rank[row, labels[point]] = min(rank[row, labels[point]], place + 1)
        near = order[: int(meta["contrast_neighbors"])]
        r = np.sqrt(squared_distances(reference[near], reference[near[0]]))
        d = -2 * np.expm1(-((r / bandwidth) ** (1 / shape))) / temperature
        losses = d + np.log1p(np.sort(np.exp(-d[1:])).sum())
        np.minimum.at(contrast[row], labels[near], losses)
    return rank, contrast


def threshold(sorted_scores, alpha):
    n = len(sorted_scores)
    exact = (1 - alpha) * (n + 1)
    index = round(exact) if abs(exact - round(exact)) < 1e-9 else math.ceil(exact)
    return sorted_scores[index - 1] if index <= n else np.inf


def select_mix(meta, tensors, alpha):
    """Appendix F of the paper, for an alpha the file does not name."""
    given = json.loads(meta["config"])["dance"]["mix"]
    if given != "auto":
        return given
    if "tuning_offsets" not in tensors:
        return 0.0
    offsets, labels = tensors["tuning_offsets"].astype(np.int64), tensors["tuning_labels"]
    truth, classes = tensors["tuning_true_labels"], len(json.loads(meta["classes"]))
    rank = np.full((len(truth), classes), np.inf)
    contrast = rank.copy()
    rows = np.repeat(np.arange(len(truth)), np.diff(offsets))
    rank[rows, labels] = tensors["tuning_label_rank_scores"]
    contrast[rows, labels] = tensors["tuning_label_contrast_scores"]
    columns = []
    for mix in np.arange(11) / 10:
        inside = rank <= threshold(tensors["tuning_rank_scores"], (1 - mix) * alpha)
        inside &= contrast <= threshold(tensors["tuning_contrast_scores"], mix * alpha)
        covered = inside[np.arange(len(truth)), truth]
        gaps = [abs(covered[truth == label].mean() - (1 - alpha)) for label in np.unique(truth)]
        columns.append((inside.sum(axis=1).mean(), np.mean(gaps)))
    columns = np.array(columns)
    deviation = columns.std(axis=0)
    z = np.where(deviation > 1e-12, (columns - columns.mean(axis=0)) / np.where(deviation > 1e-12, deviation, 1), 0)
    objective = z @ [0.8, 0.2]
    best = 0
    for step in range(11):
        if objective[step] < objective[best] - 1e-9:
            best = step
    return best / 10


def sets(meta, tensors, queries, alpha):
    mix = select_mix(meta, tensors, alpha)
    named = json.loads(meta["mix"]).get(str(alpha), mix)
    assert mix == named, f"the file names mix {named} for alpha {alpha}, its tuning tensors say {mix}"
    rank, contrast = scores(meta, tensors, queries)
    inside = rank <= threshold(tensors["calibration_rank_scores"], (1 - mix) * alpha)
    inside &= contrast <= threshold(tensors["calibration_contrast_scores"], mix * alpha)
    return [np.flatnonzero(row).tolist() for row in inside]


def check(model, answers):
    meta, tensors = load(model)
    answers = json.loads(Path(answers).read_text())
    for alpha, expected in answers["sets"].items():
        found = sets(meta, tensors, answers["queries"], float(alpha))
        assert found == expected, f"{model}: the sets at alpha {alpha} differ"
        size = np.mean([len(labels) for labels in found])
        print(f"{Path(model).name}: {len(found)} sets at alpha {alpha} agree (mean size {size:.2f})")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        check(*sys.argv[1:])
    else:
        files = Path(__file__).resolve().parent.parent / "crates/dance/tests/files"
        for model in sorted(files.glob("model-v*.safetensors")):
            check(model, model.with_suffix(".json"))
