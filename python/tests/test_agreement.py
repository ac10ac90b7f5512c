"""From the same data, seed and options the `dance` program and this package write the same model file, byte for byte, and
predict the same sets.
"""

import json

import numpy as np
import pytest

from dance_conformal import DanceClassifier


def sets_of(lines):
    return [sorted(map(int, json.loads(line)["set"])) for line in lines.splitlines()]


CASES = {
    "defaults": (DanceClassifier, {}, []),
    "paper": (DanceClassifier.paper, {}, ["--paper"]),
    "posterior split": (
        DanceClassifier,
        {"method": "posterior", "calibration": "split"},
        ["--method", "posterior", "--calibration", "split"],
    ),
    "posterior by class": (DanceClassifier, {"by_class": "balanced"}, ["--by-class", "balanced"]),
    "fuse": (DanceClassifier, {"method": "fuse", "new_labels": True}, ["--method", "fuse", "--new-labels"]),
    "another level": (DanceClassifier, {"alpha": 0.05}, ["--alpha", 0.05]),
    "dance split": (
        DanceClassifier,
        {"method": "dance", "calibration": "split", "scores": {"mix": 0.25}},
        ["--method", "dance", "--calibration", "split", "--scores", "mix=0.25"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_program_and_python_agree(tmp_path, data, dance, case):
    check(tmp_path, dance, *data[:3], *CASES[case])


@pytest.mark.filterwarnings("ignore::dance_conformal.DanceWarning")
def test_they_agree_on_classes_that_one_part_lacks(tmp_path, data, dance):
    X, y, test, _ = data
    check(tmp_path, dance, X, np.r_[np.arange(100, 120), y[20:]], test, *CASES["defaults"])


def check(tmp_path, dance, X, y, test, create, options, flags):
    model = create(evaluations=3, kernel={"rounds": 2}, random_state=7, **options).fit(X, y)
    model.save(tmp_path / "python.model")
    np.savez(tmp_path / "data.npz", embeddings=X, labels=y)
    np.save(tmp_path / "queries.npy", test)

    common = ["--evaluations", 3, "--kernel", "rounds=2", "--seed", 7]
    dance("fit", tmp_path / "data.npz", "-o", tmp_path / "rust.model", *common, *flags)
    assert (tmp_path / "rust.model").read_bytes() == (tmp_path / "python.model").read_bytes()

    sets = model.predict_set(test, 0.1, as_labels=True)
    for name in ("python.model", "rust.model"):
        answers = dance("predict", tmp_path / name, tmp_path / "queries.npy", "--alpha", 0.1)
        assert sets_of(answers) == sets
        assert DanceClassifier.load(tmp_path / name).predict_set(test, 0.1, as_labels=True) == sets
