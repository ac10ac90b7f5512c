"""Coverage that a fit reports, against the coverage of new points: draws of a data set with many classes, tested on the other points.

    python benchmarks/fresh_points.py DATA.npz [path of dance] [draws]

Points are drawn by class without repetition, with equal class probabilities or by Zipf's law with exponent 0.7. `dance fit` splits
them 40/40/20 and reports coverage on its test part. The rest of the data, weighted by the same law, gives the real coverage and
the share of new labels, which no drawn point has. A class that a law would draw empty keeps a tenth of its points for the test.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from environment import enter

if __name__ == "__main__":
    enter("numpy")

import numpy as np

ALPHA = "0.1"


def draw(labels, law, n, rng):
    """Rows of n points: labels by the law, then points of each label."""
    classes = len(law)
    wanted = np.bincount(rng.choice(classes, n, p=law), minlength=classes)
    rows = []
    for label in range(classes):
        own = rng.permutation(np.flatnonzero(labels == label))
        rows.append(own[: min(wanted[label], len(own) * 9 // 10)])
    return np.sort(np.concatenate(rows))


def run(dance, *arguments):
    return json.loads(subprocess.run([dance, *arguments, "--json", "-q"], check=True, capture_output=True).stdout)


def trial(dance, data, law, n, seed, folder):
    """Reported and real coverage, estimated and real share of new labels, and their standard errors."""
    embeddings, labels = data
    rng = np.random.default_rng(seed)
    rows = draw(labels, law, n, rng)
    rest = np.setdiff1d(np.arange(len(labels)), rows)
    names = np.array([f"class {label}" for label in labels])
    for name, part in (("drawn", rows), ("rest", rest)):
        np.savez(folder / f"{name}.npz", embeddings=embeddings[part], labels=names[part])
    model = str(folder / "m.dance")
    report = run(dance, "fit", str(folder / "drawn.npz"), "-o", model, "--split", "0.4,0.4,0.2", "--alpha", ALPHA)
    reported, points = report["test"][0]["coverage"], report["test"][0]["points"]
    lines = subprocess.run(
        [dance, "predict", model, str(folder / "rest.npz"), "--alpha", ALPHA, "-q"],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    covered = np.array([name in json.loads(line)["set"] for name, line in zip(names[rest], lines)])
    by_class = np.array([covered[labels[rest] == label].mean() for label in range(len(law))])
    known = set(run(dance, "inspect", model)["class_names"])
    new = sum(share for label, share in enumerate(law) if f"class {label}" not in known)
    return reported, points, float(law @ by_class), report.get("new_label_share"), new


def main():
    path, dance, draws = (sys.argv[1:] + ["dance", "20"][len(sys.argv) - 2 :])[:3]
    file = np.load(path)
    data = file["embeddings"].astype(np.float32), file["labels"]
    classes = int(data[1].max()) + 1
    laws = {"alike": np.ones(classes), "Zipf 0.7": np.arange(1, classes + 1) ** -0.7}
    print(f"{path}, alpha {ALPHA}, {draws} draws each: mean ± standard error")
    print("| law | n | reported coverage | real coverage | difference / its error | new labels, estimated | new labels, real | difference / its error |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, law in laws.items():
            for n in (400, 1500):
                found = [trial(dance, data, law / law.sum(), n, seed, Path(folder)) for seed in range(int(draws))]
                reported, real = np.array([t[0] for t in found]), np.array([t[2] for t in found])
                gap = reported - real
                error = gap.std(ddof=1) / len(gap) ** 0.5
                cells = [name, n, interval(reported), interval(real), f"{gap.mean():+.3f} / {error:.3f}"]
                truth = np.array([t[4] for t in found])
                if found[0][3] is None:
                    cells += ["–", interval(truth), "–"]
                else:
                    estimate = np.array([t[3] for t in found])
                    gap = estimate - truth
                    error = gap.std(ddof=1) / len(gap) ** 0.5
                    cells += [interval(estimate), interval(truth), f"{gap.mean():+.3f} / {error:.3f}"]
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def interval(values):
    return f"{values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


if __name__ == "__main__":
    main()
