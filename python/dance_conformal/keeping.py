"""A classifier as a file: the one that the ``dance`` program reads and writes."""

from __future__ import annotations

import json
from os import PathLike
from typing import TypeVar

import numpy as np

from . import _native
from .after import Afterwards
from .inputs import class_values
from .settings import check_word, from_settings, thread_count

Model = TypeVar("Model", bound="Kept")


class Kept(Afterwards):
    """What a classifier can do to be kept."""

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model file, the same that the ``dance`` binary reads and writes.

        It keeps labels as integers, floats, booleans or text, and nothing of feature names; pickle keeps everything.
        """
        self._calibrated().save(path)

    @classmethod
    def load(
        cls: type[Model],
        path: str | PathLike[str],
        *,
        labels: str = "auto",
        n_jobs: int | None = None,
        device: str = "auto",
    ) -> Model:
        """Reads a model file. ``labels``: ``"auto"`` for what they were in the fit, or ``"str"`` or ``"int"`` for that.

        A file that does not say what they were (from an early version) has text.
        """
        check_word("labels", labels, ("auto", "str", "int"))
        model = _native.Model.load(path, device, thread_count(n_jobs))
        parameters = from_settings(json.loads(model.settings))
        loaded = cls(**parameters, calibration_share=None, n_jobs=n_jobs, device=device)
        loaded._seed = parameters["random_state"]
        loaded._model = model
        loaded._fit_rows = np.arange(model.fit_points)
        kind = {"auto": model.label_kind, "str": "text", "int": "integer"}[labels]
        loaded.classes_ = class_values(model.classes, kind)
        loaded.n_features_in_ = model.dimensions
        loaded.kernel_ = json.loads(model.kernel)
        loaded.guarantee_ = model.guarantee
        loaded.unseen_share_ = model.unseen_share
        loaded.reference_indices_ = np.arange(len(model.reference_labels()))
        return loaded
