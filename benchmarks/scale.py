"""What engines and Arrow add to a prediction, and what `dance predict` takes of memory: ratios within one run, on two cores.

Run it in an environment that has pyarrow, pyspark and ray (`make test-engines` makes one) and the package in the release profile
(`maturin build --release`; the tests' wheel checks its arithmetic and takes 1.7 times as long), with the program
built (`cargo build --release`, or what DANCE_PROGRAM names), on labelled embeddings:
`.venv/bin/python benchmarks/scale.py DATA.npz [arrow spark ray memory fit]`; all but `fit` where nothing is named. FILES, ROWS and GIGABYTES in the
environment make it smaller, to try it. Every line that has a bound says it, and whether it holds.

- arrow: `predict_batches` on one thread against the NumPy call inside it.
- spark, ray: the job, once warm, against the sum of the engine's own time for passing the same rows through (an identity
  function in the same place) and the time of `dance predict` for the same folder on as many threads.
- memory: peak resident memory of `dance predict` on a folder of 4 GB and on one row; and its rate per core.
- fit: what a smaller sample for the kernel costs, with the same calibration points and the same test points.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dance_conformal import DanceClassifier
from dance_conformal.arrow import predict_batches

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("DANCE_PROGRAM", ROOT / "target" / "release" / "dance"))
WORKERS, RUNS = 2, 3
FILES, ROWS = int(os.environ.get("FILES", 8)), int(os.environ.get("ROWS", 15_000))
GIGABYTES = float(os.environ.get("GIGABYTES", 4))
#: An engine's time over that of passing rows through and of the program; Arrow's time over NumPy's; megabytes beside the model.
MOST = {"engine": 1.15, "arrow": 1.03, "memory": 300}


def told(what: str, **numbers: float) -> None:
    print(
        json.dumps({"what": what, **{name: round(value, 4) for name, value in numbers.items()}}), flush=True
    )


def bounded(what: str, of: str, found: float, **numbers: float) -> None:
    """The same, with what must not be more than a bound."""
    told(what, **numbers, found=found, at_most=MOST[of], holds=found <= MOST[of])


def best(call, runs: int = RUNS) -> float:
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def table(X: np.ndarray, first: int = 0) -> pa.Table:
    points = pa.FixedSizeListArray.from_arrays(X.ravel(), X.shape[1])
    return pa.table({"row": np.arange(first, first + len(X)), "embedding": points})


def folder(path: Path, X: np.ndarray, files: int) -> Path:
    """A folder of `files` files with `ROWS` rows each: those of X, a little moved so that none is like another."""
    path.mkdir()
    random = np.random.default_rng(0)
    for number in range(files):
        rows = X[random.integers(len(X), size=ROWS)] + random.normal(0, 1e-3, (ROWS, X.shape[1])).astype(
            np.float32
        )
        pq.write_table(table(rows, number * ROWS), path / f"part-{number:04}.parquet")
    return path


def command(model: Path, data: Path, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    arguments = ["predict", model, data, "-o", out, "--threads", str(WORKERS), "-q"]
    subprocess.run([PROGRAM, *arguments], check=True)


def arrow(model: Path, X: np.ndarray) -> None:
    loaded = DanceClassifier.load(model, n_jobs=1)
    batches = table(X).to_batches(8192)
    predict = predict_batches(loaded, n_jobs=1)

    def numpy_call() -> None:
        for begin in range(0, len(X), 8192):
            scored = loaded._score_points(X[begin : begin + 8192], best=True)
            scored.answers(0.1, False, False, False)

    def arrow_call() -> None:
        for _ in predict(batches):
            pass

    arrow_call()
    # In turns, so that both see the same machine.
    times = [(best(numpy_call, 1), best(arrow_call, 1)) for _ in range(7)]
    numpy_time, arrow_time = (min(column) for column in zip(*times, strict=True))
    bounded("arrow over numpy", "arrow", arrow_time / numpy_time, numpy=numpy_time, arrow=arrow_time)


def spark(model: Path, data: Path, out: Path) -> None:
    from pyspark.sql import SparkSession

    from dance_conformal import spark as dance_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master(f"local[{WORKERS}]").config("spark.ui.enabled", False).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    df = session.read.parquet(str(data))

    def run(rows) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def identity(batches):
        yield from batches

    passed, answered = df.mapInArrow(identity, df.schema), dance_spark.predict(df, model)
    run(passed)
    run(answered)
    told_ratio("spark", lambda: run(passed), lambda: command(model, data, out), lambda: run(answered))
    session.stop()


def ray(model: Path, data: Path, out: Path) -> None:
    import ray

    from dance_conformal import ray as dance_ray

    os.environ["RAY_worker_niceness"] = "0"  # as the program runs
    ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    settings = ray.data.DataContext.get_current()
    settings.enable_progress_bars = False
    settings.target_max_block_size = 8 << 20  # a block is what an actor is given: of 128 MB, the usual, there are too few here

    class Identity:
        def __call__(self, batch):
            return batch

    def run(rows) -> None:
        for _ in rows.iter_internal_ref_bundles():
            pass

    def rows():
        return ray.data.read_parquet(str(data))

    pool = ray.data.ActorPoolStrategy(size=WORKERS)

    def passed() -> None:
        run(
            rows().map_batches(
                Identity, batch_format="pyarrow", batch_size=8192, zero_copy_batch=True, compute=pool,
                num_cpus=0.5,
            )
        )

    def answered() -> None:
        run(dance_ray.predict(rows(), model, concurrency=WORKERS, num_cpus=0.5))

    passed()
    answered()
    told_ratio("ray", passed, lambda: command(model, data, out), answered)
    ray.shutdown()


def told_ratio(engine: str, passed, program, answered) -> None:
    times = [(best(passed, 1), best(program, 1), best(answered, 1)) for _ in range(RUNS)]
    passing, bulk, engine_time = (min(column) for column in zip(*times, strict=True))
    ratio = engine_time / (passing + bulk)
    bounded(engine, "engine", ratio, passing=passing, program=bulk, engine=engine_time)


def peak(arguments: list) -> float:
    """Megabytes of resident memory at most, in a process of its own that has no other child."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return int(done.stdout.split()[-1]) / 1024


def memory(model: Path, X: np.ndarray, at: Path) -> None:
    files = max(1, int(GIGABYTES * 1e9 / (ROWS * X.shape[1] * 4)))
    many = folder(at / "many", X, 1)
    for number in range(1, files):
        shutil.copy(many / "part-0000.parquet", many / f"part-{number:04}.parquet")
    size = sum(file.stat().st_size for file in many.iterdir()) / 1e9
    base = [PROGRAM, "predict", model, "--threads", str(WORKERS), "-q"]
    pq.write_table(table(X[:1]), at / "one.parquet")
    alone = peak([*base, at / "one.parquet", "-o", at / "one-set.parquet"])
    begin = time.perf_counter()
    whole = peak([*base, many, "-o", at / "sets-many"])
    seconds = time.perf_counter() - begin
    weight = model.stat().st_size / 2**20
    bounded("memory", "memory", whole - weight, gigabytes=size, model=weight, one_row=alone, folder=whole, rows=files * ROWS)
    told("rate", rows_per_second_and_core=files * ROWS / seconds / WORKERS, seconds=seconds)


def fit(X: np.ndarray, y: np.ndarray) -> None:
    """4,000 points calibrate and 5,000 test; all others fit."""
    calibration, test = slice(6000, 10_000), slice(10_000, 15_000)
    for points in (1000, 2000, 4000, 6000):
        begin = time.perf_counter()
        model = DanceClassifier(calibration_share=None, evaluations=10, n_jobs=-1).fit(X[:points], y[:points])
        seconds = time.perf_counter() - begin
        model.recalibrate(X[calibration], y[calibration])
        for alpha in (0.1, 0.05):
            found = model.evaluate(X[test], y[test], alpha)
            shares = {name: getattr(found, name) for name in ("accuracy", "coverage", "size")}
            told("fit", points=points, alpha=alpha, seconds=seconds, **shares)


def main() -> None:
    file, *what = sys.argv[1:]
    what = what or ["arrow", "spark", "ray", "memory"]
    data = np.load(file)
    X, y = data["embeddings"].astype(np.float32), data["labels"]
    order = np.random.default_rng(0).permutation(len(X))
    if "fit" in what:
        fit(X[order], y[order])
    if what == ["fit"]:
        return
    with tempfile.TemporaryDirectory() as name:
        at = Path(name)
        model = at / "model.dance"
        points = int(os.environ.get("POINTS", 6000))  # half of them fit, half of them calibrate
        fitted = DanceClassifier(evaluations=3, kernel={"rounds": 2}, n_jobs=-1).fit(X[order[:points]], y[order[:points]])
        fitted.save(model)
        told("model", points=points, dimensions=X.shape[1], classes=len(fitted.classes_))
        X = np.ascontiguousarray(X[order])
        if "arrow" in what:
            arrow(model, X)
        if {"spark", "ray"} & set(what):
            parts = folder(at / "parts", X, FILES)
        if "spark" in what:
            spark(model, parts, at / "sets")
        if "ray" in what:
            ray(model, parts, at / "sets")
        if "memory" in what:
            memory(model, X, at)
        told("this script", peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
