"""The value of 200 labels: points that `dance select` picks, against points drawn at random.

    DANCE_DATA=folder python3 benchmarks/labelling.py [seeds] [files …]

`DANCE` names the binary. Of every file, 300 points calibrate and 800 test (all drawn at random; fewer test if less than 600 would
remain), 200 fit the first model, and the rest is the pool. 200 points of the pool, picked or drawn, are added to the fit points;
the same 300 calibrate. Printed are accuracy and set size at alpha 0.1 on the test points. The last row calibrates on the *picked*
points without their provenance, to show the coverage that is lost.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
import environment

environment.enter("numpy")

import numpy as np

sys.path.pop()
FILES = ["pets_clip_b32", "dtd_clip_b32", "flowers102_clip_b32"]
START, LABELS, CALIBRATION, TEST, POOL = 200, 200, 300, 800, 600
FIT = ["--evaluations", "10", "--alpha", "0.1"]


def measured(folder, name, seed):
    level = environment.dance("evaluate", folder / f"{name}.dance", folder / "test.npz", "--alpha", "0.1")["levels"][0]
    return level["accuracy"], level["size"], level["coverage"]


def run(points, labels, seed):
    order = np.random.default_rng(seed).permutation(len(labels))
    tested = min(TEST, len(labels) - START - CALIBRATION - POOL)
    cuts = np.cumsum([START, CALIBRATION, tested])
    start, calibration, test, pool = np.split(order, cuts)
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)

        def save(name, rows):
            np.savez(folder / f"{name}.npz", embeddings=points[rows], labels=labels[rows])

        def fit(name, rows):
            save(name, rows)
            kernel, model = folder / f"{name}.npz", folder / f"{name}.dance"
            environment.dance(
                "fit", kernel, "--calibration-data", folder / "calibration.npz", "-o", model, "--seed", seed, *FIT
            )
            return measured(folder, name, seed)

        for name, rows in {"calibration": calibration, "test": test, "pool": pool}.items():
            save(name, rows)
        before = fit("start", start)
        chosen = environment.dance(
            "select", folder / "start.dance", folder / "pool.npz", "--picked", LABELS, "--random", LABELS,
            "-o", folder / "list.csv", "--seed", seed,
        )  # fmt: skip
        picked = fit("picked", np.concatenate([start, pool[chosen["picked"]]]))
        random = fit("random", np.concatenate([start, pool[chosen["random"]]]))
        save("wrong", pool[chosen["picked"]])
        environment.dance("recalibrate", folder / "start.dance", folder / "wrong.npz", "-o", folder / "wrong.dance")
        save("right", pool[chosen["random"]])
        environment.dance("recalibrate", folder / "start.dance", folder / "right.npz", "-o", folder / "right.dance")
        return before, random, picked, measured(folder, "right", seed), measured(folder, "wrong", seed)


seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
data = Path(os.environ["DANCE_DATA"])
print("file, fit on: accuracy, size, coverage at 0.1 (means ± two standard errors over seeds)")
for name in sys.argv[2:] or FILES:
    file = np.load(data / f"{name}.npz")
    points, labels = file["embeddings"].astype(np.float32), file["labels"]
    found = np.array([run(points, labels, seed) for seed in range(seeds)])
    rows = ["200 points", "and 200 at random", "and 200 picked"]
    rows += ["200 points, calibrated on 200 at random", "200 points, calibrated on 200 picked"]
    for row, what in enumerate(rows):
        means, errors = found[:, row].mean(0), 2 * found[:, row].std(0) / np.sqrt(seeds)
        print(
            f"{name}, {what}: " + ", ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(means, errors)), flush=True
        )
    gain = found[:, 2] - found[:, 1]
    means, errors = gain.mean(0), 2 * gain.std(0) / np.sqrt(seeds)
    print(
        f"{name}, picked less random: " + ", ".join(f"{m:+.3f} ± {e:.3f}" for m, e in zip(means, errors)),
        flush=True,
    )
