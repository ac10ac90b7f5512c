"""The examples of docs/scale.md run as they are written."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
NEEDS = {"Arrow": "polars", "Spark": "pyspark", "Ray": "ray"}


@pytest.mark.parametrize("heading", NEEDS)
def test_the_example_runs(heading, model, data, tmp_path):
    pytest.importorskip(NEEDS[heading])
    if heading == "Spark" and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime")
    if not DOCUMENT.exists():
        pytest.skip("needs the sources")
    [code] = re.findall(rf"## {heading}.*?```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(code.strip().splitlines()) <= 10
    model.save(tmp_path / "model.dance")
    (tmp_path / "new").mkdir()
    points = pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(data[2]).ravel(), data[2].shape[1])
    table = pa.table({"id": range(len(points)), "embedding": points, "label": data[3]})
    for number, begin in enumerate(range(0, len(points), 100)):
        pq.write_table(table.slice(begin, 100), tmp_path / "new" / f"part-{number}.parquet")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "RAY_worker_niceness": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = pq.read_table(tmp_path / "sets").sort_by("id")
    assert [sorted(labels) for labels in found["set"].to_pylist()] == model.predict_set(
        data[2], as_labels=True
    )
