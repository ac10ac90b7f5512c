"""The public surface: types, hierarchy, jobs, examples."""

import ast
import inspect
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import dance_conformal
from dance_conformal import DanceClassifier, SplitConformal
from dance_conformal.settings import thread_count

FOLDER = Path(str(files("dance_conformal")))


def public_functions(path):
    """Public functions and methods of a module that are no stubs of overloads."""
    for node in ast.parse(path.read_text()).body:
        members = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("__") else [node]
        for member in members:
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                yield f"{path.name}:{member.name}", member


def is_overload(node):
    return any(isinstance(name, ast.Name) and name.id == "overload" for name in node.decorator_list)


#: Modules that users import from, or whose classes they meet.
PUBLIC = (
    "classifier",
    "predictor",
    "maintenance",
    "split_conformal",
    "metrics",
    "plots",
    "datasets",
    "embedding",
    "arrow",
)


@pytest.mark.parametrize("name", PUBLIC)
def test_no_argument_or_result_is_anything(name):
    allowed = re.compile(r"NDArray\[Any\]|np.floating\[Any\]")
    for where, node in public_functions(FOLDER / f"{name}.py"):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        notes = [one.annotation for one in arguments if one.arg not in ("self", "cls")] + [node.returns]
        assert None not in notes, where
        for note in notes:
            assert not re.search(r"\bAny\b", allowed.sub("", ast.unparse(note))), (
                f"{where}: {ast.unparse(note)}"
            )


@pytest.mark.parametrize(
    "name", ["classifier", "predictor", "maintenance", "split_conformal", "metrics", "datasets"]
)
def test_every_function_has_an_example(name):
    for where, node in public_functions(FOLDER / f"{name}.py"):
        of_monitor = where in (
            "maintenance.py:watch",
            "maintenance.py:report",
        )  # shown by the method `monitor`
        is_property = any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
        helpers = where in ("metrics.py:by_label", "maintenance.py:recalibrate")
        if is_overload(node) or of_monitor or helpers or is_property:
            continue
        assert ">>>" in (ast.get_docstring(node) or ""), where


def test_one_chain_of_classes():
    own = [base.__name__ for base in DanceClassifier.__mro__ if base.__module__.startswith("dance_conformal")]
    assert own[0] == "DanceClassifier" and all(name.startswith("_") for name in own[1:]) and len(own) <= 5


def test_everything_that_is_exported_is_there():
    for name in dance_conformal.__all__:
        assert getattr(dance_conformal, name) is not None


OVERLOADS = """
import numpy as np
from typing import assert_type
from dance_conformal import DanceClassifier, Evaluation, Rows
from dance_conformal.inputs import Label
from numpy.typing import NDArray

def check(model: DanceClassifier, X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
    assert_type(model.predict_set(X), NDArray[np.bool_])
    assert_type(model.predict_set(X, [0.1, 0.2]), NDArray[np.bool_])
    assert_type(model.predict_set(X, as_labels=True), list[list[Label]])
    assert_type(model.predict_set(X, [0.1, 0.2], as_labels=True), list[list[list[Label]]])
    assert_type(model.evaluate(X, y), Evaluation)
    assert_type(model.evaluate(X, y, [0.1, 0.2]), Rows[Evaluation])
    assert_type(model.kneighbors(X, return_distance=False), NDArray[np.int64])
    assert_type(model.fit(X, y), DanceClassifier)
    assert_type(model.fit(X, y).evaluate(X, y).coverage, float)
    assert_type(DanceClassifier.load("model.dance"), DanceClassifier)
"""


def test_types_depend_on_the_arguments(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "check.py").write_text(OVERLOADS.replace("from typing", "from typing_extensions"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", sys.executable, "check.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


# Jobs.


def test_jobs_are_those_of_joblib():
    joblib = pytest.importorskip("joblib")
    cores = joblib.cpu_count()
    assert (thread_count(None), thread_count(1), thread_count(7)) == (1, 1, 7)
    assert (thread_count(-1), thread_count(-2)) == (cores, max(1, cores - 1))
    with joblib.parallel_config(backend="threading", n_jobs=3):
        assert thread_count(None) == 3
    with pytest.raises(ValueError, match="n_jobs = 0: must be at least 1, or negative"):
        thread_count(0)


ALONE = """
import sys
from dance_conformal.settings import thread_count
assert "joblib" not in sys.modules
print(thread_count(None), thread_count(-1), thread_count(-2), thread_count(5))
"""


def test_jobs_without_joblib():
    hide = (
        "import sys; sys.modules['sklearn'] = None; sys.modules['joblib'] = None; del sys.modules['joblib']\n"
    )
    done = subprocess.run([sys.executable, "-c", hide + ALONE], capture_output=True, text=True, check=True)
    one, every, most, five = map(int, done.stdout.split())
    assert (one, five) == (1, 5) and every >= 1 and most == max(1, every - 1)


def test_the_number_of_jobs_changes_nothing(data):
    X, y, test, _ = data
    sets = [
        DanceClassifier(evaluations=2, n_jobs=jobs).fit(X, y).predict_set(test) for jobs in (None, -1, -2, 2)
    ]
    for other in sets[1:]:
        np.testing.assert_array_equal(other, sets[0])


def test_defaults_are_the_same_in_both_estimators():
    ours, other = (inspect.signature(one).parameters for one in (DanceClassifier, SplitConformal))
    for name in ("alpha", "random_state", "n_jobs"):
        assert ours[name].default == other[name].default
