"""Label errors planted in files of embeddings: `dance audit` beside Datalab of the PyPI package `cleanlab`, same points.

`DANCE_DATA=folder python3 benchmarks/cleanlab.py [plantings] [files …]`; `PEER=2` runs cleanlab on the first two plantings of each kind
(default all, 0 none), `DANCE` names the binary. 5 % of the labels go to any other class (uniform) or to the class with the nearest mean
(nearest). cleanlab gets out-of-fold probabilities of a logistic regression (five folds) on the same embeddings. Average precision ranks
all points; false discoveries and recall are of the list at 0.1 (of cleanlab's: the list it makes).

A data set has label errors of its own, which count as false discoveries here, since nobody planted them. So three more numbers stand beside: how
many labels of the file as it is `dance audit` expects to be wrong; `undoubted`, false discoveries without those whose original label
a logistic regression, fitted on the original labels out of fold, gives a probability below 1 %; and `peer`, the false discoveries among as many
points, ranked by cleanlab.
"""

import os
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

FDR, SHARE, DOUBTED = 0.1, 0.05, 0.01


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


def judged(wrong, odds, listed, doubted, seconds):
    listed = np.asarray(listed, int)
    false = ~wrong[listed]
    return [
        average_precision_score(wrong, odds),
        false.mean() if len(listed) else 0.0,
        (false & ~doubted[listed]).mean() if len(listed) else 0.0,
        wrong[listed].sum() / wrong.sum(),
        len(listed),
        seconds,
    ]


def audit(points, labels):
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, embeddings=points, labels=labels)
        begin = time.perf_counter()
        report = environment.dance("audit", data, "-o", f"{folder}/audit", "--fdr", FDR)
        return report, time.perf_counter() - begin


def out_of_fold(points, labels):
    model = LogisticRegression(max_iter=400)
    return cross_val_predict(model, points, labels, cv=5, method="predict_proba")


def peer(points, given):
    """Scores, small where a label is wrong, the list, and the time."""
    from cleanlab import Datalab

    begin = time.perf_counter()
    lab = Datalab({"label": given}, label_name="label", task="classification", verbosity=0)
    lab.find_issues(pred_probs=out_of_fold(points, given), features=points, issue_types={"label": {}})
    issues = lab.get_issues("label")
    seconds = time.perf_counter() - begin
    return issues["label_score"].to_numpy(), np.flatnonzero(issues["is_label_issue"]), seconds


plantings = int(sys.argv[1]) if len(sys.argv) > 1 else 20
peers = int(os.environ.get("PEER", plantings))
folder = Path(os.environ["DANCE_DATA"])
print(
    "file, kind, method: average precision, false discoveries, undoubted, recall, listed, seconds (means over plantings)"
)
for name in sys.argv[2:] or environment.FILES:
    file = np.load(folder / f"{name}.npz")
    points = file["embeddings"].astype(np.float32)
    labels = np.unique(file["labels"], return_inverse=True)[1]
    own = out_of_fold(points, labels)[np.arange(len(labels)), labels]
    report, _ = audit(points, labels)
    expected = report["error_share"] * len(labels)
    print(
        f"{name}: {expected:.0f} errors expected in the file as it is, {len(report['label_errors'])} listed",
        flush=True,
    )
    for kind in ("uniform", "nearest"):
        found, others, same = [], [], []
        for seed in range(plantings):
            given, wrong = planted(points, labels, kind, seed)
            report, seconds = audit(points, given)
            listed = [error["row"] for error in report["label_errors"]]
            found.append(judged(wrong, report["odds"], listed, own < DOUBTED, seconds))
            if seed < peers:
                scores, issues, seconds = peer(points, given)
                others.append(judged(wrong, -scores, issues, own < DOUBTED, seconds))
                first = np.argsort(scores, kind="stable")[: len(listed)]
                same.append((~wrong[first]).mean() if len(listed) else 0.0)
        for method, rows in {"dance": np.array(found), "cleanlab": np.array(others)}.items():
            if len(rows):
                precision, false, undoubted, recall, length, seconds = rows.mean(0)
                band = 2 * rows[:, 1].std() / np.sqrt(len(rows))
                print(
                    f"{name}, {kind}, {method} ({len(rows)}): {precision:.3f}, {false:.3f} ± {band:.3f}, {undoubted:.3f}, "
                    f"{recall:.3f}, {length:.0f}, {seconds:.1f}",
                    flush=True,
                )
        if same:
            print(
                f"{name}, {kind}: {np.mean(same):.3f} false among as many points by cleanlab's ranking",
                flush=True,
            )
