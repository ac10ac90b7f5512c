"""Which rows of the data fit the kernel, which calibrate, and which are neighbors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native


def split(codes: NDArray[np.uint32], share: float | None, seed: int) -> list[NDArray[np.int64]]:
    """Rows that fit the kernel and, unless ``share`` is ``None``, rows that calibrate."""
    if share is None:
        return [np.arange(len(codes))]
    if not 0 < share < 1:
        raise ValueError(f"calibration_share = {share}: must be between 0 and 1, or None")
    return _native.split(codes, [1 - share, share], seed)


def reference_rows(
    calibration: NDArray[np.int64], kernel: NDArray[np.int64], settings: dict[str, Any]
) -> NDArray[np.int64]:
    """Rows of the reference points, in the order a calibrated model has them."""
    dance = settings["dance"]
    if dance["calibration"] == "disjoint":
        return kernel
    if dance["calibration"] == "exact" and dance["fit_neighbors"]:
        return np.concatenate([calibration, kernel])
    return calibration
