"""dance on a graphics processor beside PyTorch and the PyPI package xrfm, in one run, with the roofline of the same run.

    python3 benchmarks/gpu.py [--bench FILE] [--only PART …]

Needs PyTorch for CUDA in this Python, and xrfm for its part. Our benchmark is built with cargo unless it is named
(`cargo bench -p dance-bench --bench cuda --no-run` says where it is).

Parts: ceilings (products, a factorisation and a search by PyTorch), fit (one fit of 16,000 points, five rounds, AGOP over all),
xrfm (the same by xrfm, in fp32 and TF32), evaluations (25 such fits, as a search on all points takes), large (one round of
100,000 points), search, classify, file (dance fit from a file of 40,000 points to a model).
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
PARTS = ["ceilings", "fit", "xrfm", "evaluations", "large", "search", "classify", "file"]
FIT = (16_000, 512, 1000, 5)


def seconds(work, repeats=5):
    """The median time of `work` on the device, warmed up."""
    times = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


def ceilings():
    """Operations per second of an fp32 product, and what PyTorch takes for our steps."""
    torch.backends.cuda.matmul.allow_tf32 = False
    side = 8192
    a, b = (torch.randn(side, side, device="cuda") for _ in range(2))
    rate = 2 * side**3 / seconds(lambda: a @ b)
    print(f"torch: product of {side}³ in fp32 {rate / 1e12:.1f} TFLOP/s")
    torch.backends.cuda.matmul.allow_tf32 = True
    print(f"torch: product of {side}³ in TF32 {2 * side**3 / seconds(lambda: a @ b) / 1e12:.0f} TFLOP/s")
    torch.backends.cuda.matmul.allow_tf32 = False
    wide = a.double()
    print(f"torch: product of {side}³ in fp64 {2 * side**3 / seconds(lambda: wide @ wide, 2) / 1e12:.1f} TFLOP/s")
    n, _, c, _ = FIT
    matrix = torch.randn(n, 600, device="cuda")
    matrix = matrix @ matrix.T + 600 * torch.eye(n, device="cuda")
    factor = torch.linalg.cholesky(matrix)
    right = torch.randn(n, c, device="cuda")
    print(f"torch: Cholesky of {n} {seconds(lambda: torch.linalg.cholesky(matrix)):.4f} s")
    print(f"torch: solve for {c} columns {seconds(lambda: torch.cholesky_solve(right, factor)):.4f} s")
    del matrix, factor, right, wide
    queries, points = torch.randn(10_000, 512, device="cuda"), torch.randn(20_000, 512, device="cuda")
    norms = (points * points).sum(1)

    def search():
        torch.topk(norms - 2 * (queries @ points.T), 100, largest=False)

    print(f"torch: search of 10,000 among 20,000, k 100 {1000 * seconds(search):.1f} ms", flush=True)
    torch.cuda.empty_cache()
    return rate


def bench(program, rate, *arguments):
    """Runs our benchmark and prints every step with its share of the product's rate."""
    command = [program] if program else ["cargo", "bench", "--quiet", "-p", "dance-conformal", "--bench", "cuda", "--"]
    answer = subprocess.run([*command, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)
    print(f"dance: {' '.join(map(str, arguments))}")
    if answer.returncode:
        print(answer.stdout[-2000:], answer.stderr[-2000:])
        return
    steps = {}
    for line in answer.stdout.splitlines():
        words = line.split()
        if line.startswith("#") or len(words) != 3:
            print(f"    {line[:160]}")
        elif not words[0].startswith("warm-up"):
            steps.setdefault(words[0], []).append((float(words[1]), float(words[2])))
    for step, measured in steps.items():
        took = statistics.median(duration for duration, _ in measured)
        share = measured[0][1] / took / rate if rate else 0.0
        print(f"  {step:18}{took:10.4f} s  ×{len(measured):<3}{measured[0][1] / took / 1e12:7.1f} TFLOP/s {100 * share:5.0f} %")
    sys.stdout.flush()


def xrfm():
    """The same fit by xrfm."""
    from xrfm import RFM

    n, d, c, rounds = FIT
    random = np.random.default_rng(0)
    labels = np.arange(n + n // 8) % c
    points = 0.5 + random.normal(size=(c, d))[labels] + 1.5 * random.normal(size=(len(labels), d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    features = torch.from_numpy(points.astype(np.float32)).cuda()
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(labels), c).float().cuda()
    for name, allowed in [("fp32", False), ("TF32", True)]:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        model = RFM(
            kernel="l2_high_dim", bandwidth=1.0, exponent=1.0, iters=rounds, device="cuda", tuning_metric="accuracy",
            verbose=False,
        )
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model.fit(
            (features[:n], one_hot[:n]), (features[n:], one_hot[n:]), iters=rounds, reg=1e-3, method="lstsq",
            verbose=False, return_best_params=True, total_points_to_sample=n, early_stop_rfm=False,
        )
        torch.cuda.synchronize()
        print(f"xrfm: {n} points, {d} dimensions, {c} classes, {rounds} rounds in {name}: {time.perf_counter() - begin:.2f} s", flush=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.empty_cache()


def from_file(program):
    """From a file of 40,000 points to a model, as `dance fit --split 0.5,0.5` does."""
    random = np.random.default_rng(1)
    labels = random.permutation(np.arange(40_000) % 1000)
    points = random.normal(size=(1000, 512))[labels] + 1.5 * random.normal(size=(40_000, 512))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "points.npz"
        np.savez(file, embeddings=points.astype(np.float32), labels=labels)
        bench(program, 0.0, "file", file, Path(folder) / "model.dance")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", help="our benchmark, built")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no graphics processor")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rate = ceilings() if "ceilings" in arguments.only else 0.0
    runs = {
        "fit": ("fit", *FIT),
        "evaluations": ("evaluations", 25, *FIT),
        "large": ("fit", 100_000, 512, 1000, 1, 8000),
        "search": ("search", 10_000, 20_000, 512, 100),
        "classify": ("classify", 10_000, 20_000, 512, 1000),
    }
    for part in arguments.only:
        if part in runs:
            bench(arguments.bench, rate, *runs[part])
    if "xrfm" in arguments.only:
        xrfm()
    if "file" in arguments.only:
        from_file(arguments.bench)


if __name__ == "__main__":
    main()
