"""Label errors planted in files of embeddings: `dance audit` beside Datalab of the PyPI package `cleanlab`, same points.

`DANCE_DATA=folder python3 benchmarks/cleanlab.py [plantings] [files …]`; `PEER=2` runs cleanlab on the first two plantings of each kind
(default all, 0 none), `ALL=1` also times Datalab with its checks for outliers, near copies and order, which an audit does too;
`KINDS=uniform` plants one kind alone, `DANCE` names the binary. 5 % of the labels go to any other class (uniform) or to the class with the nearest mean
(nearest). cleanlab gets out-of-fold probabilities of a logistic regression (five folds) on the same embeddings; its time is that of
both. Times are seconds that passed and seconds of processors, which other work on the machine leaves as they are. Average precision ranks all points; false discoveries and recall are of the list at 0.1 (of cleanlab's: the list it makes).

A data set has label errors of its own, which count as false discoveries here, since nobody planted them. So more numbers stand beside: how
many labels of the file as it is `dance audit` expects to be wrong and lists, how many of those cleanlab lists too and where it ranks
them, most suspicious first; `undoubted`, false discoveries without those whose original label a logistic regression, fitted on the
original labels out of fold, holds for less probable than a draw by chance (1/classes); and `peer`, the false discoveries among as many points,
ranked by cleanlab. `CLEAN=1` leaves points with such labels out before any error is planted: neither model nor rule of the audit has a say in that.
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

FDR, SHARE = 0.1, 0.05


def clock():
    """Seconds that have passed, and seconds of processors of this process and those it has run."""
    now = os.times()
    return np.array([time.perf_counter(), now.user + now.system + now.children_user + now.children_system])


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
        *seconds,
    ]


def audit(points, labels):
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, embeddings=points, labels=labels)
        begin = clock()
        report = environment.dance("audit", data, "-o", f"{folder}/audit", "--fdr", FDR)
        return report, clock() - begin


def out_of_fold(points, labels):
    model = LogisticRegression(max_iter=400)
    return cross_val_predict(model, points, labels, cv=5, method="predict_proba")


def datalab(points, given, probabilities, *checks):
    """Label issues as a table, and the time."""
    from cleanlab import Datalab

    begin = clock()
    lab = Datalab({"label": given}, label_name="label", task="classification", verbosity=0)
    lab.find_issues(pred_probs=probabilities, features=points, issue_types={check: {} for check in checks})
    return lab.get_issues("label"), clock() - begin


def peer(points, given):
    """Scores, small where a label is wrong, the list, the time, and the time with the other checks."""
    begin = clock()
    probabilities = out_of_fold(points, given)
    fitted = clock() - begin
    issues, seconds = datalab(points, given, probabilities, "label")
    all_seconds = np.full(2, np.nan)
    if os.environ.get("ALL"):
        all_seconds = fitted + datalab(points, given, probabilities, "label", "outlier", "near_duplicate", "non_iid")[1]
    listed = np.flatnonzero(issues["is_label_issue"])
    return issues["label_score"].to_numpy(), listed, fitted + seconds, all_seconds


plantings = int(sys.argv[1]) if len(sys.argv) > 1 else 20
peers = int(os.environ.get("PEER", plantings))
folder = Path(os.environ["DANCE_DATA"])
print(
    "file, kind, method: average precision, false discoveries, undoubted, recall, listed, seconds, of processors (means over plantings)"
)
for name in sys.argv[2:] or environment.FILES:
    file = np.load(folder / f"{name}.npz")
    points = file["embeddings"].astype(np.float32)
    labels = np.unique(file["labels"], return_inverse=True)[1]
    original = out_of_fold(points, labels)
    doubted = original[np.arange(len(labels)), labels] < 1 / (labels.max() + 1)
    if os.environ.get("CLEAN"):
        points, labels = points[~doubted], np.unique(labels[~doubted], return_inverse=True)[1]
        original = out_of_fold(points, labels)
        doubted = np.zeros(len(labels), bool)
    report, _ = audit(points, labels)
    expected = report["error_share"] * len(labels)
    listed = [error["row"] for error in report["label_errors"]]
    issues = datalab(points, labels, original, "label")[0]
    both = issues["is_label_issue"].to_numpy()[listed].sum()
    places = 1 + issues["label_score"].to_numpy().argsort(kind="stable").argsort()[listed]
    print(
        f"{name}: {expected:.0f} errors expected in the {len(labels)} labels of the file as it is, {len(listed)} listed; cleanlab lists "
        f"{issues['is_label_issue'].sum()}, {both} of those, and ranks them {sorted(places.tolist())}; {doubted.sum()} doubted",
        flush=True,
    )
    for kind in os.environ.get("KINDS", "uniform nearest").split():
        found, others, same, every = [], [], [], []
        for seed in range(plantings):
            given, wrong = planted(points, labels, kind, seed)
            report, seconds = audit(points, given)
            listed = [error["row"] for error in report["label_errors"]]
            found.append(judged(wrong, report["odds"], listed, doubted, seconds))
            if seed < peers:
                scores, issues, seconds, all_seconds = peer(points, given)
                others.append(judged(wrong, -scores, issues, doubted, seconds))
                every.append(all_seconds)
                first = np.argsort(scores, kind="stable")[: len(listed)]
                same.append((~wrong[first]).mean() if len(listed) else 0.0)
        for method, rows in {"dance": np.array(found), "cleanlab": np.array(others)}.items():
            if len(rows):
                precision, false, undoubted, recall, length, *seconds = rows.mean(0)
                band = 2 * rows[:, 1].std() / np.sqrt(len(rows))
                print(
                    f"{name}, {kind}, {method} ({len(rows)}): {precision:.3f}, {false:.3f} ± {band:.3f}, {undoubted:.3f}, "
                    f"{recall:.3f}, {length:.0f}, {seconds[0]:.1f}, {seconds[1]:.1f}",
                    flush=True,
                )
        if same:
            print(
                f"{name}, {kind}: {np.mean(same):.3f} false among as many points by cleanlab's ranking; "
                f"with cleanlab's other checks {np.mean(every, 0)[0]:.1f}, {np.mean(every, 0)[1]:.1f}",
                flush=True,
            )
