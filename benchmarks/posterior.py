"""Set sizes of the method posterior against those of fuse, on the same kernel machine: ratios within one run.

    DANCE_DATA=folder python3 benchmarks/posterior.py [seeds] [files …]

`DANCE` names the binary, and `FIT` gives further options of `dance fit`. `BEFORE` names the binary of another version. The
comparison is then with its default, on a fit of its own. `KIND` is a list (default: 5,10,20,full) of

- a number: as many points of each class, half of them to fit and half to calibrate, the rest to test,
- full: a random split, 0.4 to fit, 0.4 to calibrate, 0.2 to test,
- zipf: the points that `full` fits and calibrates with, thinned so that class frequencies follow Zipf's law (exponent 1,
  classes in random order).

Prints size, coverage, class deviation and accuracy at alpha 0.1 and 0.05, then the geometric mean of the ratios of sizes. Class
deviation is the root mean square of a class's coverage minus 1 - alpha, in points, without sampling noise. The difference of
its squares has a standard error over the seeds.
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

KINDS = os.environ.get("KIND", "5,10,20,full").split(",")
FIT = os.environ.get("FIT", "").split()
BEFORE = os.environ.get("BEFORE")
ALPHAS = (0.1, 0.05)


def parts(labels, random, kind):
    """Rows to fit, to calibrate and to test."""
    order = random.permutation(len(labels))
    if kind.isdigit():
        count = int(kind)
        seen = np.zeros(labels.max() + 1, int)
        place = np.empty(len(labels), int)
        for row in order:
            place[row] = seen[labels[row]]
            seen[labels[row]] += 1
        halves = [place < count // 2, (place >= count // 2) & (place < count), place >= count]
        return [random.permutation(np.flatnonzero(half)) for half in halves]
    fit, calibration, test = np.split(order, (np.array([0.4, 0.8]) * len(order)).astype(int))
    if kind == "zipf":
        frequency = 1 / (1 + random.permutation(labels.max() + 1))
        frequency /= frequency.max()
        fit, calibration, test = (
            rows[random.random(len(rows)) < frequency[labels[rows]]] for rows in (fit, calibration, test)
        )
    return fit, calibration, test


def measured(model, folder, program=environment.DANCE):
    """Size, coverage, square of the class deviation (below 0 by chance) and accuracy at both levels, from the written sets."""
    truth = np.load(folder / "test.npz")["labels"]
    levels = []
    for alpha in ALPHAS:
        sets = model.with_suffix(f".{alpha}.jsonl")
        environment.dance("predict", model, folder / "test.npz", "-o", sets, "--alpha", alpha, program=program)
        answers = [json.loads(line) for line in sets.open()]
        # Labels are compared by name: their kind in a file differs between versions.
        rows = [
            (len(answer["set"]), label in map(str, answer["set"]), str(answer["prediction"]) == label)
            for answer, label in zip(answers, map(str, truth), strict=True)
        ]
        levels.append(numbers(np.array(rows, float), truth, alpha))
    return levels


def numbers(rows, truth, alpha):
    size, coverage, accuracy = rows.mean(0)
    points, hits = np.bincount(truth), np.bincount(truth, rows[:, 1])
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
        "fit", folder / "fit.npz", "--calibration-data", folder / "calibration.npz", "-o", model, "--seed", seed,
        program=program,
    )
    return measured(model, folder, program)


def run(points, labels, seed, kind):
    """The numbers of the posterior and of fuse: two methods, two alphas, four numbers."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        written(points, labels, parts(labels, np.random.default_rng(seed), kind), folder)
        model, other = folder / "posterior.dance", folder / "fuse.dance"
        calibration = folder / "calibration.npz"
        environment.dance(
            "fit", folder / "fit.npz", "--calibration-data", calibration, "-o", model, "--method", "posterior",
            "--seed", seed, *FIT,
        )
        if BEFORE:
            return measured(model, folder), before(folder, seed, BEFORE)
        environment.dance("recalibrate", model, calibration, "-o", other, "--method", "fuse")
        return measured(model, folder), measured(other, folder)


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for kind in KINDS:
        compare(seeds, kind)


def compare(seeds, kind):
    """Prints one line a data set and level, and the geometric mean of the ratios."""
    name = f"{kind} labels a class" if kind.isdigit() else kind
    print(f"{name}, {seeds} seeds", flush=True)
    all_ratios = []
    for name in sys.argv[2:] or environment.FILES:
        file = np.load(Path(os.environ["DANCE_DATA"]) / f"{name}.npz")
        labels = np.unique(file["labels"], return_inverse=True)[1]
        results = np.array([run(file["embeddings"], labels, seed, kind) for seed in range(seeds)])
        ratios = np.exp(np.log(results[:, 0, :, 0] / results[:, 1, :, 0]).mean(0))
        all_ratios.append(ratios)
        for level, alpha in enumerate(ALPHAS):
            line = "   ".join(
                f"{who}: size {size:.2f} coverage {coverage:.3f} deviation {max(strayed, 0) ** 0.5:.1f} accuracy {accuracy:.3f}"
                for who, (size, coverage, strayed, accuracy) in zip(
                    ("posterior", "other version" if BEFORE else "fuse"), results[:, :, level].mean(0), strict=True
                )
            )
            more = results[:, 0, level, 2] - results[:, 1, level, 2]
            chance = more.std(ddof=1) / len(more) ** 0.5 if len(more) > 1 else np.nan
            print(
                f"{name} alpha {alpha}: ratio {ratios[level]:.3f}   {line}   squares of deviations differ by {more.mean():.0f} ± {chance:.0f}",
                flush=True,
            )
    print("geometric mean of the ratios:", " / ".join(f"{ratio:.3f}" for ratio in np.exp(np.log(all_ratios).mean(0))))


if __name__ == "__main__":
    main()
