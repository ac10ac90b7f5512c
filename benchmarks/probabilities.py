"""Class probabilities of dance beside those of the PyPI package xrfm with a temperature, on the splits of `dance bench`.

    python3 benchmarks/probabilities.py [--seeds 3] FILE…

40 % of the points fit, 40 % calibrate, 20 % test, drawn at random as `dance bench` draws them. xrfm's RFM sees four fifths of the fit points
and chooses bandwidth and exponent by the log loss of the last fifth; a temperature for the softmax of its outputs is fitted there too. The
kernel machine and the logistic regression are fitted on the same points; the posterior is trained on the calibration labels too. Prints
accuracy, log loss, Brier score and ECE (15 groups) over the test points of all seeds together. xrfm uses a graphics processor if there is
one: with 15,000 points and 150 classes it takes more than 23 GiB.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import environment

# The script beside this one has the name of the package.
environment.enter("xrfm", "numpy")
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]

import numpy as np
import torch
from xrfm import RFM

BANDWIDTHS = [1.0, 3.0, 10.0]
EXPONENTS = [0.7, 1.0, 1.4]
TEMPERATURES = np.geomspace(0.005, 1.0, 60)
GROUPS = 15
ROUNDS = 3
RIDGE = 1e-3
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def softmax(outputs: np.ndarray, temperature: float) -> np.ndarray:
    scaled = (outputs - outputs.max(1, keepdims=True)) / temperature
    exponentials = np.exp(scaled)
    return exponentials / exponentials.sum(1, keepdims=True)


def log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    own = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(own, 1e-15)).mean())


def measured(probabilities: np.ndarray, labels: np.ndarray) -> list[float]:
    """Accuracy, log loss, Brier score and ECE."""
    best, top = probabilities.argmax(1), probabilities.max(1)
    right = best == labels
    one_hot = np.eye(probabilities.shape[1])[labels]
    group = np.clip(np.ceil(top * GROUPS).astype(int), 1, GROUPS)
    gaps = [abs((top[group == at] - right[group == at]).sum()) for at in range(1, GROUPS + 1)]
    brier = ((probabilities - one_hot) ** 2).sum(1).mean()
    return [right.mean(), log_loss(probabilities, labels), brier, sum(gaps) / len(labels)]


def peer(points: torch.Tensor, labels: np.ndarray, parts: dict, classes: int, seed: int) -> np.ndarray:
    """Probabilities of the test points by xrfm's best setting."""
    fit = np.random.default_rng(seed).permutation(parts["fit"])
    cut = len(fit) * 4 // 5
    train, validation = fit[:cut], fit[cut:]
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(labels), classes).float().to(DEVICE)
    best = (np.inf, None)
    for bandwidth, exponent in itertools.product(BANDWIDTHS, EXPONENTS):
        model = RFM(
            kernel="l2_high_dim", bandwidth=bandwidth, exponent=exponent, iters=ROUNDS, device=DEVICE,
            tuning_metric="accuracy", verbose=False,
        )
        model.fit(
            (points[train], one_hot[train]), (points[validation], one_hot[validation]),
            iters=ROUNDS, reg=RIDGE, method="lstsq", verbose=False, return_best_params=True,
        )
        with torch.no_grad():
            outputs, test = (model.predict(points[rows]).cpu().numpy().astype(float) for rows in (validation, parts["test"]))
        for temperature in TEMPERATURES:
            loss = log_loss(softmax(outputs, temperature), labels[validation])
            if loss < best[0]:
                best = (loss, softmax(test, temperature))
    return best[1]


def ours(file: Path, seeds: int) -> dict[str, list[dict]]:
    """The sums that `dance bench` keeps, of all seeds, by the method whose probabilities they measure."""
    methods = "posterior,logistic-regression"
    command = ["cargo", "run", "--release", "--quiet", "--", "bench", str(file.resolve()), "--methods", methods]
    command += ["--alpha", "0.1", "--seeds", str(seeds), "--json", "--quiet"]
    output = subprocess.run(command, cwd=environment.ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, list] = {}
    for case in json.loads(output)["cases"]:
        found.setdefault("kernel machine", []).append(case["probabilities"])
        for posterior in case["posteriors"]:
            found.setdefault(posterior["method"], []).append(posterior["metrics"])
    return found


def summed(runs: list[dict]) -> list[float]:
    points = sum(run["points"] for run in runs)
    groups = np.sum([run["groups"] for run in runs], axis=0)
    loss, squares = (sum(run[name] for run in runs) / points for name in ("log_loss", "squares"))
    return [groups[:, 2].sum() / points, loss, squares, np.abs(groups[:, 1] - groups[:, 2]).sum() / points]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    threads = os.cpu_count() or 1
    torch.set_num_threads(threads)
    print(f"{'':24}{'':22}{'accuracy':>10}{'log loss':>10}{'Brier':>10}{'ECE':>10}")
    for file in arguments.files:
        data = np.load(file)
        points = data["embeddings"].astype(np.float32)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        labels = np.unique(data["labels"], return_inverse=True)[1].astype(np.int64)
        classes = int(labels.max()) + 1
        theirs, truth = [], []
        for seed in range(arguments.seeds):
            parts = environment.engine("split", file.resolve(), seed, threads=threads)
            theirs.append(peer(torch.from_numpy(points).to(DEVICE), labels, parts, classes, seed))
            truth.append(labels[parts["test"]])
        rows = {name: summed(runs) for name, runs in ours(file, arguments.seeds).items()}
        rows["xrfm, temperature"] = measured(np.concatenate(theirs), np.concatenate(truth))
        for name, values in rows.items():
            print(f"{file.stem:24}{name:22}" + "".join(f"{value:10.3f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
