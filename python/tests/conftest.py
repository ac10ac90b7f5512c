"""Data and models that the tests share: small, since every fit is a search."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dance_conformal import DanceClassifier, datasets

FAST = {"evaluations": 3, "kernel": {"rounds": 2}}


def fast(**options):
    """Parameters of a fast fit with these options; a kernel keeps its two rounds."""
    return {**FAST, **options, "kernel": {**FAST["kernel"], **options.get("kernel", {})}}


#: Every method with every use of calibration points that it has.
METHODS = [
    ("posterior", "full"),
    ("posterior", "split"),
    ("fuse", "full"),
    ("dance", "split"),
    ("dance", "reuse"),
]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def data():
    """Training points, test points and their labels, five classes."""
    X, y = datasets.clusters(900, classes=5, dimensions=12, spread=0.7, seed=3)
    return X[:600], y[:600], X[600:], y[600:]


@pytest.fixture(scope="session")
def model(data):
    X, y, _, _ = data
    return DanceClassifier(**FAST).fit(X, y)


@pytest.fixture(scope="session")
def names():
    return np.array(["ant", "bee", "cat", "dog", "eel"])


def build_program():
    """Builds the program of this checkout, and returns its path."""
    if shutil.which("cargo") is None or not (ROOT / "Cargo.toml").exists():
        pytest.skip("needs the sources and cargo")
    # As `cargo test --workspace` builds it for its own tests, so that nothing is built twice.
    build = ["cargo", "test", "--quiet", "--workspace", "--no-run", "--test", "cli"]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        pytest.skip(f"the program does not build (try `cargo build`): {built.stderr.strip()[-300:]}")
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "dance"


@pytest.fixture(scope="session")
def dance():
    """The program: the one that `DANCE` names, or that of this checkout."""
    program = os.environ.get("DANCE") or build_program()

    def run(*arguments):
        done = subprocess.run(
            [program, "--quiet", *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
