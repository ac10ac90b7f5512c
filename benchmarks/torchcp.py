"""Recomputes tests/scores/torchcp.json: sets of LAC, APS, RAPS and SAPS by the PyPI package `torchcp`, on given
probabilities, random draws and the rule of thresholds they share.

`python3 benchmarks/torchcp.py` compares with the file and says so; `--write` replaces it.
"""

import json
import sys
from pathlib import Path
from unittest.mock import MagicMock

sys.path.pop(0)  # this file has the name of the package
sys.path.append(str(Path(__file__).resolve().parent))
import environment

environment.enter("numpy", "torch", "tqdm", "networkx", "scikit-learn", "torchcp")
# What its other parts want and its scores do not: no need to install it.
for name in ("torchsort", "transformers", "torch_geometric"):
    for part in ("", ".loader", ".nn", ".utils", ".utils.convert"):
        sys.modules.setdefault(name + part, MagicMock())

import numpy as np
import torch
from torchcp.classification.score import APS, LAC, RAPS, SAPS
from torchcp.utils.common import calculate_conformal_value

FILE = environment.ROOT / "crates" / "dance" / "tests" / "scores" / "torchcp.json"
MASK = (1 << 64) - 1


def uniform_of(*keys: int) -> float:
    """dance's draw for a thing named by `keys` (random.rs)."""
    state = 0
    for key in keys:
        state = ((state + 0x9E3779B97F4A7C15) & MASK) ^ key
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
        state ^= state >> 31
    return (state >> 11) / float(1 << 53)


def draws(seed: int, part: int, rows: int) -> torch.Tensor:
    return torch.tensor([uniform_of(seed, 0xD4A3, part, row) for row in range(rows)], dtype=torch.float64)


def all_scores(function, probabilities: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """torchcp's scores of every label with `u` of the row in place of its own random numbers."""
    drawn = torch.rand
    try:
        torch.rand = lambda shape, device=None: u[:, None].expand(shape)
        return function(probabilities)
    finally:
        torch.rand = drawn


def case(seed: int, calibration: int, queries: int, classes: int, sharpness: float) -> dict:
    random = np.random.default_rng(seed)
    logits = sharpness * random.normal(size=(calibration + queries, classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = [int(random.choice(classes, p=row)) for row in probabilities]
    # Few digits, exact in f32 after a round trip: the file stays small and both sides see the same numbers.
    single = np.round(probabilities, 5).astype(np.float32) + np.float32(1e-6) * np.arange(classes, dtype=np.float32)
    single = single.astype(np.float32)
    given = torch.tensor(single.astype(np.float64))
    sets = {}
    for randomized in (False, True):
        zero = torch.zeros(len(labels), dtype=torch.float64)
        u = torch.cat([draws(seed, 0, calibration), draws(seed, 1, queries)]) if randomized else zero
        # torchcp's SAPS counts its draw from the other end.
        functions = {
            "lac": (LAC(score_type="identity"), u),
            "aps": (APS(score_type="identity", randomized=True), u),
            "raps": (RAPS(score_type="identity", randomized=True, penalty=0.001, kreg=1), u),
            "raps-strong": (RAPS(score_type="identity", randomized=True, penalty=0.1, kreg=2), u),
            "saps": (SAPS(score_type="identity", randomized=True, weight=0.2), 1 - u),
        }
        for name, (function, u) in functions.items():
            scores = all_scores(function, given.clone(), u)
            own = scores[torch.arange(calibration), torch.tensor(labels[:calibration])]
            for alpha in (0.05, 0.1, 0.3):
                threshold = calculate_conformal_value(own, alpha)
                rows = [torch.where(row <= threshold)[0].tolist() for row in scores[calibration:]]
                sets[f"{name} {'seeded' if randomized else 'zero'} {alpha}"] = rows
    return {
        "seed": seed,
        "calibration": calibration,
        "classes": classes,
        "labels": labels,
        "probabilities": [float(f"{value:.9g}") for value in single.flatten()],
        "sets": sets,
    }


cases = [case(1, 60, 25, 8, 1.5), case(2, 9, 12, 5, 1.0), case(3, 120, 20, 12, 3.0)]
text = "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n"
if "--write" in sys.argv:
    FILE.write_text(text)
    print(f"wrote {FILE}")
elif FILE.read_text() == text:
    print("torchcp gives the sets in the file")
else:
    sys.exit("torchcp gives other sets than those in the file")
