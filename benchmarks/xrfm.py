"""One RFM fit by dance and by the PyPI package xrfm: same points, bandwidth, shape, ridge, rounds and threads.

    python3 benchmarks/xrfm.py [--n 2000] [--d 512] [--c 100] [--rounds 3]

Prints seconds (the best of three for dance, of two for xrfm), their ratio and both validation accuracies.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# This file has the name of the package it measures: keep its folder from shadowing it.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
sys.path.append(str(Path(__file__).resolve().parent))

import environment

environment.enter("xrfm", "numpy")
sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

import numpy as np
import torch
from xrfm import RFM


def problem(n: int, d: int, c: int):
    """Unit vectors around class centres that share most of their variance: learnable, not trivial."""
    random = np.random.default_rng(0)
    total = n + n // 5
    labels = np.arange(total) % c
    random.shuffle(labels)
    centers = random.normal(size=(c, d)) * (random.random(d) < 0.2)
    points = random.normal(size=(total, d)) + 0.5 * centers[labels]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32), labels.astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--c", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    threads = os.cpu_count() or 1
    torch.set_num_threads(threads)
    points, labels = problem(arguments.n, arguments.d, arguments.c)
    bandwidth, shape, ridge = 1.0, 1.0, 1e-3

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        np.savez(file, embeddings=points, labels=labels)
        ours = environment.engine("fit", file, bandwidth, shape, ridge, arguments.rounds, threads=threads)

    n = arguments.n
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(labels), arguments.c).float()
    features = torch.from_numpy(points)
    seconds, accuracy = [], 0.0
    for _ in range(2):
        model = RFM(
            kernel="l2_high_dim", bandwidth=bandwidth, exponent=1 / shape, iters=arguments.rounds, device="cpu",
            tuning_metric="accuracy", verbose=False,
        )
        begin = time.perf_counter()
        model.fit(
            (features[:n], one_hot[:n]), (features[n:], one_hot[n:]),
            iters=arguments.rounds, reg=ridge, method="lstsq", verbose=False, return_best_params=True,
        )
        seconds.append(time.perf_counter() - begin)
        with torch.no_grad():
            predicted = model.predict(features[n:]).argmax(1).numpy()
        accuracy = float((predicted == labels[n:]).mean())

    theirs = min(seconds)
    print(f"n = {n}, d = {arguments.d}, c = {arguments.c}, {arguments.rounds} rounds, {threads} threads")
    print(f"xrfm   {theirs:8.2f} s   validation accuracy {accuracy:.4f}")
    print(f"dance  {ours['seconds']:8.2f} s   validation accuracy {ours['accuracy']:.4f}")
    print(f"dance is {theirs / ours['seconds']:.1f} times as fast")


if __name__ == "__main__":
    main()
