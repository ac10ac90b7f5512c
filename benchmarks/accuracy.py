"""Test accuracy of dance's tuned kernel machine beside a tuned multinomial logistic regression, on the same splits.

    DANCE_DATA=folder python3 benchmarks/accuracy.py [--seeds 3] [FILE…]

Protocol: 40 % of the points fit (80 % of them train, 20 % validate), 40 % are left for calibration, 20 % test. The
logistic regression (scikit-learn, lbfgs) sees the same training rows and chooses C among 0.1 … 1000 on the same
validation rows; then both columns are given twice: fitted on the training rows alone, and refitted with the validation
rows added. Without FILEs the five CLIP sets of DANCE_DATA are used.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path

import environment

environment.enter("scikit-learn", "numpy")

import numpy as np
from sklearn.linear_model import LogisticRegression

SETS = ["dtd", "flowers102", "pets", "caltech101", "ucf101"]
STRENGTHS = [0.1, 1.0, 10.0, 100.0, 1000.0]


def regression(points, labels, rows):
    """Accuracy on the test rows of the best C by validation: trained alone, and refitted with validation rows."""

    def fit(strength, train):
        return LogisticRegression(C=strength, max_iter=2000).fit(points[train], labels[train])

    train, validation, test = (rows[part] for part in ("train", "validation", "test"))
    models = {strength: fit(strength, train) for strength in STRENGTHS}
    best = max(models, key=lambda strength: models[strength].score(points[validation], labels[validation]))
    refitted = fit(best, train + validation)
    return models[best].score(points[test], labels[test]), refitted.score(points[test], labels[test])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    folder = os.environ.get("DANCE_DATA")
    if not arguments.files and not folder:
        sys.exit("name files, or set DANCE_DATA to the folder that holds the CLIP sets")
    files = arguments.files or [Path(folder) / f"{name}_clip_b32.npz" for name in SETS]
    warnings.filterwarnings("ignore")

    columns = ["dance", "regression", "dance refit", "regression refit"]
    print(f"{'test accuracy':24}" + "".join(f"{column:>18}" for column in columns) + f"{'seconds a fit':>16}")
    means = []
    for file in files:
        data = np.load(file)
        points = data["embeddings"].astype(np.float64)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        labels = data["labels"]
        results, seconds = [], []
        for seed in range(arguments.seeds):
            ours = environment.engine("accuracy", file.resolve(), seed, threads=os.cpu_count() or 1)
            theirs = regression(points, labels, ours)
            results.append([ours["plain"]["accuracy"], theirs[0], ours["refit"]["accuracy"], theirs[1]])
            seconds.append(ours["refit"]["seconds"])
        mean = np.mean(results, axis=0)
        means.append(mean)
        print(f"{file.stem:24}" + "".join(f"{value:18.4f}" for value in mean) + f"{np.mean(seconds):16.1f}", flush=True)
    mean = np.mean(means, axis=0)
    print(f"{'mean':24}" + "".join(f"{value:18.4f}" for value in mean))
    print(f"dance is {100 * (mean[0] - mean[1]):+.2f} points ahead, refitted {100 * (mean[2] - mean[3]):+.2f}")


if __name__ == "__main__":
    main()
