"""The tutorial runs from top to bottom."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks" / "tutorial.ipynb"


def test_tutorial(monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    namespace = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"tutorial cell {number}", "exec")
            exec(code, namespace)
    assert namespace["report"].coverage > 0.85
