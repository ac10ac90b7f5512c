"""Label errors planted in files of embeddings: `dance audit` beside Datalab of the PyPI package `cleanlab`, same points.

`DANCE_DATA=folder python3 benchmarks/cleanlab.py [plantings] [files …]`; `PEER=0` leaves cleanlab out, `DANCE` names the binary.
5 % of the labels go to any other class (uniform) or to the class with the nearest mean (nearest). cleanlab gets out-of-fold
probabilities of a logistic regression (five folds) on the same embeddings. Average precision ranks all points; false discoveries and
recall are of the list at 0.1 (of cleanlab's: the list it makes).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.pop(0)  # this file has the name of the package
sys.path.append(str(Path(__file__).resolve().parent))
import environment

environment.enter("numpy", "scikit-learn", "cleanlab[datalab]")

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

FDR, SHARE = 0.1, 0.05
FILES = [
    "pets_clip_b32",
    "flowers102_clip_b32",
    "caltech101_clip_b32",
    "dtd_clip_b32",
    "ucf101_clip_b32",
    "clinc150_minilm",
]
DANCE = os.environ.get("DANCE", str(environment.ROOT / "target" / "release" / "dance"))


def planted(points, labels, kind, seed):
    """Labels of which some are wrong, and which ones."""
    random = np.random.default_rng(seed)
    classes = labels.max() + 1
    wrong = np.zeros(len(labels), bool)
    wrong[random.choice(len(labels), int(SHARE * len(labels)), replace=False)] = True
    given = labels.copy()
    if kind == "uniform":
        given[wrong] = (labels[wrong] + random.integers(1, classes, wrong.sum())) % classes
    else:
        means = np.stack([points[labels == label].mean(0) for label in range(classes)])
        distances = ((means[:, None] - means[None]) ** 2).sum(-1)
        np.fill_diagonal(distances, np.inf)
        given[wrong] = distances.argmin(1)[labels[wrong]]
    return given, wrong


def judged(wrong, odds, listed, seconds):
    listed = np.asarray(listed, int)
    false = float((~wrong[listed]).mean()) if len(listed) else 0.0
    return [
        average_precision_score(wrong, odds),
        false,
        wrong[listed].sum() / wrong.sum(),
        len(listed),
        seconds,
    ]


def ours(points, given, wrong):
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, embeddings=points, labels=given)
        begin = time.perf_counter()
        command = [DANCE, "audit", str(data), "-o", f"{folder}/audit", "--fdr", str(FDR), "--json", "-q"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        seconds = time.perf_counter() - begin
    return judged(wrong, report["odds"], [error["row"] for error in report["label_errors"]], seconds)


def peer(points, given, wrong):
    from cleanlab import Datalab

    begin = time.perf_counter()
    probabilities = cross_val_predict(
        LogisticRegression(max_iter=400), points, given, cv=5, method="predict_proba"
    )
    lab = Datalab({"label": given}, label_name="label", task="classification", verbosity=0)
    lab.find_issues(pred_probs=probabilities, features=points, issue_types={"label": {}})
    issues = lab.get_issues("label")
    seconds = time.perf_counter() - begin
    return judged(wrong, -issues["label_score"].to_numpy(), np.flatnonzero(issues["is_label_issue"]), seconds)


plantings = int(sys.argv[1]) if len(sys.argv) > 1 else 20
folder = Path(os.environ["DANCE_DATA"])
print(
    "file, kind, method: average precision, false discoveries, recall, listed, seconds (means over plantings)"
)
for name in sys.argv[2:] or FILES:
    file = np.load(folder / f"{name}.npz")
    points = file["embeddings"].astype(np.float32)
    labels = np.unique(file["labels"], return_inverse=True)[1]
    for kind in ("uniform", "nearest"):
        methods = {"dance": ours, "cleanlab": peer} if os.environ.get("PEER") != "0" else {"dance": ours}
        for method, run in methods.items():
            found = np.array([run(points, *planted(points, labels, kind, seed)) for seed in range(plantings)])
            precision, false, recall, listed, seconds = found.mean(0)
            band = 2 * found[:, 1].std() / np.sqrt(plantings)
            print(
                f"{name}, {kind}, {method}: {precision:.3f}, {false:.3f} ± {band:.3f}, {recall:.3f}, {listed:.0f}, {seconds:.1f}",
                flush=True,
            )
