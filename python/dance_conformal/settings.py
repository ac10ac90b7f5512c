"""Parameters of the classifier as settings of a configuration file, and back."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np

from . import _native

#: What scikit-learn takes as a seed.
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
Method: TypeAlias = Literal["posterior", "fuse", "dance"]
Calibration: TypeAlias = Literal["full", "split", "reuse"]
ByClass: TypeAlias = Literal["all", "balanced", "clusters", "each"]
Normalize: TypeAlias = Literal["l2", "standardize", "none"]
EmptySets: TypeAlias = Literal["keep", "top1"]


class KernelSettings(TypedDict, total=False):
    """Settings of the kernel machine and of the search for its kernel: the parameter ``kernel``."""

    #: Bandwidth in median distances: a range to search (the default is 0.1 to 20), or a number to fix it.
    bandwidth: float | tuple[float, float]
    #: Shape of the kernel: a range to search (the default is 0.5 to 2), or a number to fix it.
    shape: float | tuple[float, float]
    #: Ridge of the regression: 1e-3.
    ridge: float
    #: Most rounds of metric learning: 5.
    rounds: int
    #: Most points over which a metric update averages (8000); ``None`` is all.
    agop_points: int | None
    #: Most points that a trial of the search uses (3000); ``None`` is all.
    search_points: int | None
    #: Settings tried again on all points where the trials used fewer: 2.
    confirm: int
    #: Share of the kernel's points held out to compare settings: 0.2.
    validation: float
    #: If True, the default, the kernel is fitted once more with the held-out points.
    refit: bool
    #: The kernel machine's class probabilities: ``"calibrated"`` on held-out points, or ``"clamp"``, those of the paper.
    probabilities: Literal["calibrated", "clamp"]
    #: The floor of clamped probabilities; ``None`` is 1e-3, lower for many classes.
    probability_floor: float | None


class ScoreSettings(TypedDict, total=False):
    """Settings of the scores of the methods fuse and dance: the parameter ``scores``."""

    #: Neighbors that the rank score looks at: 100.
    rank_neighbors: int
    #: Neighbors that the contrastive score looks at: 50.
    contrast_neighbors: int
    #: Temperature of the contrastive score: 0.01.
    temperature: float
    #: Method dance: the share of alpha for the contrastive score, from 0 (k-NN set) to 1 (CLR set), or ``"auto"``.
    mix: float | Literal["auto"]
    #: Method dance: width below 1 of the seeded noise that breaks ties of ranks; 0 leaves ties.
    tie_noise: float


#: The kernel of the paper, where it differs from the default.
PAPER_KERNEL: KernelSettings = {"refit": False, "probabilities": "clamp", "probability_floor": 1e-3}

#: Parameters whose value is one of a few words. ``None`` leaves the first two to the library.
_WORDS = {
    "method": ("posterior", "fuse", "dance"),
    "calibration": ("full", "split", "reuse"),
    "by_class": ("all", "balanced", "clusters", "each"),
    "normalize": ("l2", "standardize", "none"),
}
_OPTIONAL = ("method", "calibration")
#: The part of the settings that holds each setting of the kernel; None is the top.
_KERNEL: dict[str, str | None] = {
    "bandwidth": "tune", "shape": "tune", "ridge": "rfm", "rounds": "rfm", "agop_points": "rfm", "search_points": "tune",
    "confirm": "tune", "validation": "tune", "refit": "tune", "probabilities": None, "probability_floor": None,
}  # fmt: skip
_SCORES: dict[str, str | None] = dict.fromkeys(ScoreSettings.__annotations__, "conformal")
_RANGES = ("bandwidth", "shape")


def to_settings(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns parameters as settings; every random choice has the same seed. Absent settings have the library's default."""
    for name, words in _WORDS.items():
        if not (parameters[name] is None and name in _OPTIONAL):
            check_word(name, parameters[name], words)
    alpha = check_alpha(parameters["alpha"])
    settings: dict[str, Any] = {
        "normalize": parameters["normalize"],
        "rfm": {"seed": seed},
        "tune": {
            "seed": seed,
            "evaluations": parameters["evaluations"],
            "memory": memory_bytes(parameters["memory"]),
        },
        "conformal": {
            "seed": seed,
            "by_class": parameters["by_class"],
            "new_labels": bool(parameters["new_labels"]),
        },
    }
    settings["conformal"] |= {name: parameters[name] for name in _OPTIONAL if parameters[name] is not None}
    if _remembers_alpha():
        settings["alphas"] = [alpha]
    for name, places in (("kernel", _KERNEL), ("scores", _SCORES)):
        for key, value in _checked(name, parameters[name], places).items():
            place = places[key]
            if key == "probabilities":
                check_word(key, value, ("calibrated", "clamp"))
            (settings if place is None else settings[place])[key] = _pair(value) if key in _RANGES else value
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=_plain))
    return plain


def from_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters that settings stand for. ``kernel`` and ``scores`` hold what differs from the defaults."""
    default = json.loads(_native.default_settings())
    parameters: dict[str, Any] = {
        name: settings["conformal"].get(name) for name in ("method", "calibration", "by_class", "new_labels")
    }
    for name, places in (("kernel", _KERNEL), ("scores", _SCORES)):
        changed = {}
        for key, place in places.items():
            value, usual = (some if place is None else some[place] for some in (settings, default))
            if value.get(key) != usual.get(key):
                changed[key] = _unpaired(value[key]) if key in _RANGES else value[key]
        parameters[name] = changed or None
    parameters |= {name: settings["tune"][name] for name in ("evaluations", "memory")}
    return {**parameters, "normalize": settings["normalize"], "random_state": settings["conformal"]["seed"]}


def stored_alpha(settings: Mapping[str, Any]) -> float:
    """Returns the error level that a model remembers: the first of those given to its fit; 0.1 if it remembers none."""
    levels: list[float] = settings.get("alphas") or [0.1]
    return float(levels[0])


def _remembers_alpha() -> bool:
    return "alphas" in json.loads(_native.default_settings())


def check_alpha(alpha: object) -> float:
    """Returns an error level as a number, and refuses everything that is none."""
    if np.ndim(alpha) != 0 or not 0 < float(alpha) < 1:  # type: ignore[arg-type]
        raise ValueError(f"alpha = {alpha!r}: must be a number between 0 and 1, such as 0.1")
    return float(alpha)  # type: ignore[arg-type]


def check_word(name: str, value: object, words: tuple[str, ...]) -> None:
    """Refuses a value that is none of the words.

    >>> check_word("method", "sum", ("posterior", "fuse", "dance"))
    Traceback (most recent call last):
        ...
    ValueError: method = 'sum': must be 'posterior', 'fuse' or 'dance'
    """
    if not isinstance(value, str) or value not in words:
        *most, last = map(repr, words)
        raise ValueError(f"{name} = {value!r}: must be {', '.join(most)} or {last}")


def _checked(name: str, given: object, known: Mapping[str, str | None]) -> Mapping[str, Any]:
    """Returns the settings of a dictionary, and refuses names that are none.

    >>> _checked("kernel", {"bandwith": 2}, {"bandwidth": "tune", "shape": "tune"})
    Traceback (most recent call last):
        ...
    ValueError: kernel has no setting 'bandwith'; did you mean 'bandwidth'? The settings are bandwidth, shape
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} = {given!r}: must be None or a dictionary of settings ({', '.join(known)})")
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}? The" if near else "the"
            raise ValueError(f"{name} has no setting {key!r}; {hint} settings are {', '.join(known)}")
    return given


def memory_bytes(memory: int | str | None) -> int | None:
    """Returns an amount of memory in bytes.

    >>> memory_bytes("8GiB"), memory_bytes("500 MB"), memory_bytes(2**30)
    (8589934592, 500000000, 1073741824)
    >>> memory_bytes("8")
    Traceback (most recent call last):
        ...
    ValueError: memory = '8': a unit is missing: '8GiB' or '8MB'
    """
    if memory is None:
        return None
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:e\d+)?)\s*([kmgt]i?b|b)?\s*", memory, re.IGNORECASE)
        if found is None:
            raise ValueError(f"memory = {memory!r}: an amount such as '8GiB' or '500MB' is needed")
        number, unit = found.groups()
        if unit is None:
            raise ValueError(f"memory = {memory!r}: a unit is missing: '{number}GiB' or '{number}MB'")
        power = " kmgt".index(unit[0].lower()) if len(unit) > 1 else 0
        return int(float(number) * (1024 if "i" in unit.lower() else 1000) ** power)
    if memory < 2**20:
        raise ValueError(f"memory = {memory}: a number is in bytes; '{memory}GiB' has a unit")
    return int(memory)


def draw_seed(random_state: RandomState) -> int:
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
    """Returns the number of threads, as scikit-learn counts jobs.

    ``None`` is one, unless a joblib backend says otherwise; -1 is all cores, -2 all but one.

    >>> thread_count(None), thread_count(3), thread_count(-1) >= thread_count(-2)
    (1, 3, True)
    """
    if n_jobs == 0:
        raise ValueError("n_jobs = 0: must be at least 1, or negative (-1 is all cores, -2 all but one)")
    # A backend can only be active if joblib has been imported.
    joblib = sys.modules.get("joblib")
    if joblib is not None:
        return max(1, int(joblib.effective_n_jobs(n_jobs)))
    if n_jobs is None:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def _pair(value: float | tuple[float, float]) -> list[float]:
    low, high = (value, value) if np.ndim(value) == 0 else value  # type: ignore[misc]
    return [float(low), float(high)]  # type: ignore[arg-type]


def _unpaired(value: list[float]) -> float | tuple[float, float]:
    low, high = value
    return low if low == high else (low, high)


def _plain(value: object) -> object:
    """Returns a number of NumPy, which a parameter grid may hold, as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a parameter has the type {type(value).__name__}")
