"""What Python adds to a prediction: `predict_set` on 10,000 points of 512 dimensions against the Rust call inside it.

Run it in the environment that has the package: `.venv/bin/python benchmarks/python_overhead.py`.
Prints the best of several runs: the whole call, the library's own clock inside it, and the difference, for arrays that are
read where they are (float32) and for one that must be converted (float64, Fortran order).
"""

import json
import time

import numpy as np

from dance_conformal import DanceClassifier, datasets

POINTS, DIMENSIONS, CLASSES, RUNS = 10_000, 512, 100, 7


def main() -> None:
    X, y = datasets.clusters(POINTS + 4000, classes=CLASSES, dimensions=DIMENSIONS, spread=1.0, seed=0)
    model = DanceClassifier(kernel={"bandwidth": 2.0, "shape": 1.0, "rounds": 1}, n_jobs=-1).fit(X[:4000], y[:4000])
    queries = X[4000:]
    inside: list[float] = []
    score, decide = model._score_points, model._decide

    def timed_score(*arguments, **options):
        scored = score(*arguments, **options)
        inside.append(scored.seconds)
        return scored

    def timed_decide(*arguments):
        decision = decide(*arguments)
        inside.append(decision.seconds)
        return decision

    model._score_points, model._decide = timed_score, timed_decide
    for name, array in (
        ("float32, C order", queries),
        ("float64, Fortran order", np.asfortranarray(queries.astype(np.float64))),
    ):
        best = {"call": np.inf, "library": np.inf, "added": np.inf}
        for _ in range(RUNS):
            inside.clear()
            begin = time.perf_counter()
            model.predict_set(array)
            call = time.perf_counter() - begin
            if call < best["call"]:
                best = {"call": call, "library": sum(inside), "added": call - sum(inside)}
        share = best["added"] / best["library"]
        print(
            json.dumps({"array": name, **{k: round(v, 5) for k, v in best.items()}, "share": round(share, 4)})
        )


if __name__ == "__main__":
    main()
