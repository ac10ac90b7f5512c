"""Parameters of the classifier as settings of a configuration file, and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

#: The paper's settings, where they differ from the defaults.
PAPER: dict[str, Any] = {
    "method": "dance",
    "refit": False,
    "probabilities": "clamp",
    "probability_floor": 1e-3,
}

#: Parameters whose value is one of a few words. ``None`` leaves the first two to the library.
_WORDS = {
    "method": ("posterior", "fuse", "dance"),
    "calibration": ("full", "split", "reuse"),
    "by_class": ("all", "balanced", "clusters", "each"),
    "normalize": ("l2", "standardize", "none"),
    "probabilities": ("calibrated", "clamp"),
    "empty": ("keep", "top1"),
}
_OPTIONAL = ("method", "calibration")
_GROUPS = {
    "rfm": ("ridge", "rounds", "agop_points"),
    "tune": (
        "evaluations", "bandwidth", "shape", "validation", "search_points", "confirm", "refit", "memory",
    ),
    "conformal": (
        "method", "calibration", "by_class", "new_labels", "mix", "rank_neighbors", "contrast_neighbors",
        "temperature", "tie_noise",
    ),
}  # fmt: skip
_PLAIN = ("normalize", "probabilities", "probability_floor")
_RANGES = ("bandwidth", "shape")


def to_settings(parameters: dict[str, Any], seed: int) -> dict[str, Any]:
    """Returns parameters as settings; every random choice has the same seed."""
    for name, words in _WORDS.items():
        if not (parameters[name] is None and name in _OPTIONAL):
            check_word(name, parameters[name], words)
    given = dict(parameters)
    given |= {name: _pair(given[name]) for name in _RANGES}
    given |= {name: bool(given[name]) for name in ("refit", "new_labels")}
    settings: dict[str, Any] = {
        group: {**{name: given[name] for name in names}, "seed": seed} for group, names in _GROUPS.items()
    }
    for name in _OPTIONAL:
        if given[name] is None:
            del settings["conformal"][name]
    settings |= {name: given[name] for name in _PLAIN}
    stratified = bool(given["stratify"]) and given["calibration_share"] is not None
    settings["sampling"] = "stratified" if stratified else "random"
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=_plain))
    return plain


def from_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters that settings stand for."""
    parameters = {name: settings[group].get(name) for group, names in _GROUPS.items() for name in names}
    parameters |= {name: tuple(parameters[name]) for name in _RANGES}
    parameters |= {name: settings[name] for name in _PLAIN}
    stratified = settings["sampling"] == "stratified"
    return {**parameters, "stratify": stratified, "random_state": settings["conformal"]["seed"]}


def check_word(name: str, value: Any, words: tuple[str, ...]) -> None:
    """Refuses a value that is none of the words.

    >>> check_word("method", "sum", ("posterior", "fuse", "dance"))
    Traceback (most recent call last):
        ...
    ValueError: method = 'sum': must be 'posterior', 'fuse' or 'dance'
    """
    if not isinstance(value, str) or value not in words:
        *most, last = map(repr, words)
        raise ValueError(f"{name} = {value!r}: must be {', '.join(most)} or {last}")


def draw_seed(random_state: Any) -> int:
    """Returns a seed for any ``random_state`` of scikit-learn; ``None`` draws it from the system."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if random_state < 0:
        raise ValueError(f"random_state = {random_state}: must be at least 0")
    return int(random_state)


def thread_count(n_jobs: int | None) -> int:
    """Returns the number of threads as the library counts them: 0 is one per core."""
    if n_jobs is None or n_jobs == -1:
        return 0
    if n_jobs < 1:
        raise ValueError(f"n_jobs = {n_jobs}: must be at least 1, or -1 for one thread a core")
    return int(n_jobs)


def _pair(value: float | tuple[float, float]) -> list[float]:
    low, high = (value, value) if np.ndim(value) == 0 else value  # type: ignore[misc]
    return [float(low), float(high)]  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    """Returns a number of NumPy, which a parameter grid may hold, as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a parameter has the type {type(value).__name__}")
