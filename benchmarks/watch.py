"""Novelty and the monitor: false alarms, and detection of foreign points and of a change.

    DANCE_DATA=folder python3 benchmarks/watch.py [runs]

`DANCE` names the binary. One kernel machine is fitted on 1,000 points of Oxford Pets.

- *False alarms*: every run draws 800 other points to calibrate and 800 more as a stream. Printed are the share flagged at novelty
  0.05, and the share of runs with an alarm at a false-alarm probability of 0.05, with inputs and labels monitored.
- *Detection*: AUROC of novelty for noise, points of another data set, and points of a class that was left out, against new points
  of the same source. The peers are the cosine distance to the 5th-nearest of the same labeled points, and one minus the largest
  probability.
- *Days*: 100 points a day, with 1 % more of them every day from the other data set; the day of the alarm at 0.01.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
import environment

environment.enter("numpy", "scikit-learn")

import numpy as np
from sklearn.metrics import roc_auc_score

DATA = Path(os.environ["DANCE_DATA"])
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


def load(name):
    file = np.load(DATA / f"{name}.npz")
    points = file["embeddings"].astype(np.float32)
    return points / np.linalg.norm(points, axis=1, keepdims=True), file["labels"]


def save(path, points, labels=None):
    np.savez(path, embeddings=points, **({} if labels is None else {"labels": labels}))
    return path


def answers(folder, model, points):
    """Novelty and the largest probability of every point."""
    environment.dance("predict", model, save(folder / "asked.npz", points), "-o", folder / "sets.jsonl")
    rows = [json.loads(line) for line in (folder / "sets.jsonl").read_text().splitlines()]
    return np.array([row["novelty"] for row in rows]), np.array([row["probability"] for row in rows])


points, labels = load("pets_clip_b32")
others, _ = load("dtd_clip_b32")
with tempfile.TemporaryDirectory() as path:
    folder = Path(path)
    order = np.random.default_rng(0).permutation(len(labels))
    fit, rest = order[:1000], order[1000:]
    first, second = save(folder / "fit.npz", points[fit], labels[fit]), folder / "calibration.npz"
    save(second, points[rest[:800]], labels[rest[:800]])
    environment.dance("fit", first, "--calibration-data", second, "-o", folder / "model", "--evaluations", 10)
    flagged, alarms = [], 0
    for seed in range(RUNS):
        drawn = np.random.default_rng(seed + 1).permutation(rest)
        save(second, points[drawn[:800]], labels[drawn[:800]])
        environment.dance("recalibrate", folder / "model", second, "-o", folder / "again")
        stream = save(folder / "stream.npz", points[drawn[800:1600]], labels[drawn[800:1600]])
        found = environment.dance("predict", folder / "again", stream, "-o", folder / "sets.npz", "--novelty", 0.05)
        flagged.append(found["novelty"]["rows"] / 800)
        seen = environment.dance("monitor", folder / "again", stream, "--with-labels", "--false-alarm", 0.05, "--seed", seed)
        alarms += bool(seen["alarms"])
    band = 2 * np.std(flagged) / np.sqrt(RUNS)
    print(
        f"false alarms, {RUNS} runs: novelty {np.mean(flagged):.4f} ± {band:.4f} at 0.05; monitor {alarms / RUNS:.3f} at 0.05",
        flush=True,
    )

    def compare(what, model, known, new, odd):
        (near, sure), (far, unsure) = answers(folder, model, new), answers(folder, model, odd)
        truth = np.repeat([0, 1], [len(new), len(odd)])
        distance = np.sort(1 - np.concatenate([new, odd]) @ known.T, axis=1)[:, 4]
        scores = [1 - np.concatenate([near, far]), distance, 1 - np.concatenate([sure, unsure])]
        return what, [roc_auc_score(truth, score) for score in scores], float((far <= 0.01).mean())

    drawn = np.random.default_rng(1).permutation(rest)
    save(second, points[drawn[:800]], labels[drawn[:800]])
    environment.dance("recalibrate", folder / "model", second, "-o", folder / "again")
    known, new = points[np.concatenate([fit, drawn[:800]])], points[drawn[800:1400]]
    noise = np.random.default_rng(2).normal(size=(600, points.shape[1])).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    rows = [compare("noise", folder / "again", known, new, noise)]
    rows.append(compare("another data set", folder / "again", known, new, others[:600]))
    left = []
    for label in range(0, 37, 4):
        inside = order[labels[order] != label]
        parts = inside[:1000], inside[1000:1800], inside[1800:2400]
        save(first, points[parts[0]], labels[parts[0]])
        save(second, points[parts[1]], labels[parts[1]])
        environment.dance("fit", first, "--calibration-data", second, "-o", folder / "without", "--evaluations", 5)
        known = points[np.concatenate(parts[:2])]
        left.append(compare("", folder / "without", known, points[parts[2]], points[labels == label]))
    rows.append(
        (
            "a class left out (ten of them)",
            np.mean([row[1] for row in left], 0),
            np.mean([row[2] for row in left]),
        )
    )
    for what, (own, plain, probability), share in rows:
        print(
            f"{what}: AUROC {own:.3f}, distance {plain:.3f}, probability {probability:.3f}; {share:.2f} flagged at 0.01",
            flush=True,
        )

    days = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        stream, day = [], 0
        while day < 20:
            odd = random.random(100) < 0.01 * day
            usual = points[random.choice(drawn[800:], 100)]
            stream.append(np.where(odd[:, None], others[random.integers(0, len(others), 100)], usual))
            day += 1
        found = environment.dance(
            "monitor", folder / "again", save(folder / "stream.npz", np.concatenate(stream)), "--seed", seed
        )
        days.append(found["alarms"][0]["row"] // 100 + 1 if found["alarms"] else 21)
    print(
        f"days to an alarm: median {np.median(days):.0f}, from {min(days)} to {max(days)} (21: none)",
        flush=True,
    )
