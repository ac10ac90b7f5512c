"""Sizes of sets, `--combine evidence` against the default, on the same kernel: ratios within one run.

`DANCE_DATA=folder python3 benchmarks/evidence.py [seeds] [files …]`; `DANCE` names the binary, `FIT` further options of `dance fit`, `BEFORE` the binary
of another version, whose default is then compared with (on a kernel of its own), `KIND` one of

- few (the default): 10 points of each class, half of them fit and half calibrate; judged on the rest,
- full: a random split, 0.4 fit, 0.4 calibrate, 0.2 judge,
- zipf: classes by Zipf's law (exponent 1, in random order) of what `full` fits and calibrates with.

Sizes at 0.1 and 0.05, coverage, class deviation (in points, sampling noise taken off, squares averaged over the seeds; and by how much the squares differ, with its
standard error over the seeds), accuracy; then the geometric mean of the ratios of sizes.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
import environment

if __name__ == "__main__":
    environment.enter("numpy")

import numpy as np

KIND = os.environ.get("KIND", "few")
FIT = os.environ.get("FIT", "").split()
BEFORE = os.environ.get("BEFORE")
PER_CLASS = 10
ALPHAS = (0.1, 0.05)


def parts(labels, random):
    """Rows that fit, calibrate and judge."""
    order = random.permutation(len(labels))
    if KIND == "few":
        seen = np.zeros(labels.max() + 1, int)
        place = np.empty(len(labels), int)
        for row in order:
            place[row] = seen[labels[row]]
            seen[labels[row]] += 1
        halves = [place < PER_CLASS // 2, (place >= PER_CLASS // 2) & (place < PER_CLASS), place >= PER_CLASS]
        return [random.permutation(np.flatnonzero(half)) for half in halves]
    fit, calibration, test = np.split(order, (np.array([0.4, 0.8]) * len(order)).astype(int))
    if KIND == "zipf":
        frequency = 1 / (1 + random.permutation(labels.max() + 1))
        frequency /= frequency.max()
        fit, calibration, test = (
            rows[random.random(len(rows)) < frequency[labels[rows]]] for rows in (fit, calibration, test)
        )
    return fit, calibration, test


def judged(model, folder, program=environment.DANCE):
    """Size, coverage, square of the class deviation (below 0 by chance) and accuracy at both levels, from sets: every version writes them."""
    truth = np.load(folder / "test.npz")["labels"]
    levels = []
    for alpha in ALPHAS:
        sets = model.with_suffix(f".{alpha}.jsonl")
        environment.dance("predict", model, folder / "test.npz", "-o", sets, "--alpha", alpha, program=program)
        answers = [json.loads(line) for line in sets.open()]
        # Labels by name: what they are in a file differs between versions.
        told = [
            (len(answer["set"]), label in map(str, answer["set"]), str(answer["prediction"]) == label)
            for answer, label in zip(answers, map(str, truth), strict=True)
        ]
        levels.append(numbers(np.array(told, float), truth, alpha))
    return levels


def numbers(told, truth, alpha):
    size, coverage, accuracy = told.mean(0)
    points, hits = np.bincount(truth), np.bincount(truth, told[:, 1])
    points, hits = points[points > 0], hits[points > 0]
    strayed = (hits / points - (1 - alpha)) ** 2 - alpha * (1 - alpha) / points
    return size, coverage, 1e4 * strayed.mean(), accuracy


def written(points, labels, rows_of, folder):
    for name, rows in zip(("fit", "calibration", "test"), rows_of, strict=True):
        np.savez(folder / f"{name}.npz", embeddings=points[rows], labels=labels[rows])


def before(folder, seed, program):
    """The numbers of the default of another version."""
    model = folder / "fuse.dance"
    environment.dance(
        "fit", folder / "fit.npz", "--calibration", folder / "calibration.npz", "-o", model, "--seed", seed,
        program=program,
    )
    return judged(model, folder, program)


def run(points, labels, seed):
    """The numbers of evidence and of the default: two alphas, four numbers."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        written(points, labels, parts(labels, np.random.default_rng(seed)), folder)
        model, other = folder / "evidence.dance", folder / "fuse.dance"
        calibration = folder / "calibration.npz"
        environment.dance(
            "fit", folder / "fit.npz", "--calibration", calibration, "-o", model, "--combine", "evidence",
            "--seed", seed, *FIT,
        )
        if BEFORE:
            return judged(model, folder), before(folder, seed, BEFORE)
        environment.dance("recalibrate", model, calibration, "-o", other, "--combine", "fuse")
        return judged(model, folder), judged(other, folder)


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    all_ratios = []
    for name in sys.argv[2:] or environment.FILES:
        file = np.load(Path(os.environ["DANCE_DATA"]) / f"{name}.npz")
        labels = np.unique(file["labels"], return_inverse=True)[1]
        results = np.array([run(file["embeddings"], labels, seed) for seed in range(seeds)])
        ratios = np.exp(np.log(results[:, 0, :, 0] / results[:, 1, :, 0]).mean(0))
        all_ratios.append(ratios)
        for level, alpha in enumerate(ALPHAS):
            told = "   ".join(
                f"{who}: size {size:.2f} coverage {coverage:.3f} deviation {max(strayed, 0) ** 0.5:.1f} accuracy {accuracy:.3f}"
                for who, (size, coverage, strayed, accuracy) in zip(
                    ("evidence", "fuse"), results[:, :, level].mean(0), strict=True
                )
            )
            more = results[:, 0, level, 2] - results[:, 1, level, 2]
            chance = more.std(ddof=1) / len(more) ** 0.5 if len(more) > 1 else np.nan
            print(
                f"{name} alpha {alpha}: ratio {ratios[level]:.3f}   {told}   squares of deviations differ by {more.mean():.0f} ± {chance:.0f}",
                flush=True,
            )
    print("geometric mean of the ratios:", " / ".join(f"{ratio:.3f}" for ratio in np.exp(np.log(all_ratios).mean(0))))


if __name__ == "__main__":
    main()
