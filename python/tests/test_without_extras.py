"""Everything but the extras works with NumPy alone, and the extras name their packages."""

import subprocess
import sys

ALONE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sklearn", "scipy", "matplotlib", "pandas", "polars", "pyarrow"}:
            raise ImportError(f"{name} is hidden")

sys.meta_path.insert(0, Absent())
import pickle
import numpy as np
from dance_conformal import DanceClassifier, datasets, plots

X, y = datasets.clusters(300, classes=3)
model = DanceClassifier(evaluations=2).fit(X, np.array(["a", "b", "c"])[y])
assert model.predict_set(X).shape == (300, 3)
assert model.score(X, np.array(["a", "b", "c"])[y]) > 0.8
assert model.fit_transform(X, y).shape == X.shape
assert pickle.loads(pickle.dumps(model)).predict(X).shape == (300,)
assert repr(DanceClassifier(0.2, evaluations=1)) == "DanceClassifier(alpha=0.2, evaluations=1)"
assert model.set_params(alpha=0.3).get_params()["alpha"] == 0.3
for wrong in (lambda: model.set_params(beta=1), lambda: DanceClassifier().predict(X)):
    try:
        wrong()
    except ValueError as error:
        print(error)
    else:
        raise AssertionError("should have been refused")
try:
    plots.kernel_pca(model, X)
except ImportError as error:
    print(error)
try:
    import dance_conformal.arrow
except ImportError as error:
    print(error)
assert not {"sklearn", "matplotlib", "scipy", "pyarrow"} & set(sys.modules)
"""


def test_numpy_is_enough(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Invalid parameter 'beta'" in done.stdout
    assert "not fitted yet" in done.stdout
    assert 'pip install "dance-conformal[plots]"' in done.stdout
    assert 'pip install "dance-conformal[arrow]"' in done.stdout
