"""Our neighbor search and faiss-cpu's IndexFlatL2 on the same points with the same threads, side by side.

    python benchmarks/neighbors.py [--reference 20000] [--dimensions 512] [--queries 10000] [--neighbors 100] [--threads 2]

Builds the Rust side, `crates/dance/examples/search.rs`. Prints both times, their ratio, and whether the neighbors are identical; where they
differ, the distances in f64 say who is right.
"""

import argparse
import os
import subprocess
import tempfile
import time

from environment import ROOT, enter


def points(rows, dimensions, classes, seed):
    import numpy as np

    centers = np.random.default_rng(1).standard_normal((classes, dimensions), dtype=np.float32)
    random = np.random.default_rng(seed)
    noise = random.standard_normal((rows, dimensions), dtype=np.float32)
    return centers[random.integers(classes, size=rows)] + np.float32(1.5) * noise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=int, default=20000)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--queries", type=int, default=10000)
    parser.add_argument("--neighbors", type=int, default=100)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    import faiss
    import numpy as np

    reference = points(args.reference, args.dimensions, 1000, 2)
    queries = points(args.queries, args.dimensions, 1000, 3)
    build = ["cargo", "build", "--release", "--quiet", "-p", "dance-conformal", "--example", "search"]
    subprocess.run(build, cwd=ROOT, check=True)
    ours_time = faiss_time = float("inf")
    faiss.omp_set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/reference.npy", reference)
        np.save(f"{folder}/queries.npy", queries)
        # By turns, so that a busy machine disturbs both alike.
        for _ in range(3):
            index = faiss.IndexFlatL2(args.dimensions)
            index.add(reference)
            start = time.perf_counter()
            _, theirs = index.search(queries, args.neighbors)
            faiss_time = min(faiss_time, time.perf_counter() - start)
            command = [ROOT / "target/release/examples/search", folder, str(args.neighbors), str(args.threads)]
            seconds = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            ours_time = min(ours_time, seconds)
        ours = np.fromfile(f"{folder}/neighbors.u32", dtype="<u4").reshape(len(queries), -1)

    flops = 2 * args.reference * args.queries * args.dimensions
    print(f"faiss {faiss.__version__} IndexFlatL2: {faiss_time:.3f} s, {flops / faiss_time / 1e9:.1f} GFLOP/s on {args.threads} threads")
    print(f"ours:                    {ours_time:.3f} s, {flops / ours_time / 1e9:.1f} GFLOP/s")
    print(f"ours / faiss in time: {ours_time / faiss_time:.2f}")
    same = (ours == theirs).all(axis=1)
    print(f"{same.sum()} of {len(same)} queries have identical neighbors in identical order")
    wrong = {"ours": 0, "faiss": 0}
    for query in np.flatnonzero(~same):
        distances = ((reference.astype(np.float64) - queries[query].astype(np.float64)) ** 2).sum(axis=1)
        for name, ids in (("ours", ours), ("faiss", theirs)):
            found = distances[ids[query].astype(np.int64)]
            exact = np.partition(distances, args.neighbors - 1)[: args.neighbors]
            wrong[name] += not (np.all(np.diff(found) >= 0) and found.max() <= exact.max())
    print(f"of the others, wrong by their distances in f64: {wrong['ours']} of ours, {wrong['faiss']} of faiss")


if __name__ == "__main__":
    enter("numpy", "faiss-cpu")
    main()
