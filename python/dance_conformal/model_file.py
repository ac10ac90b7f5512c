"""A classifier in a file: the model file of the ``dance`` program."""

from __future__ import annotations

import json
from os import PathLike
from typing import TypeVar

import numpy as np

from . import _native
from .inputs import class_values
from .maintenance import Maintenance
from .settings import check_word, from_settings, thread_count

Model = TypeVar("Model", bound="StoredModel")


class StoredModel(Maintenance):
    """A classifier that can be saved and loaded."""

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model file, which the ``dance`` program reads and writes as well.

        It keeps the kernel, the calibration and their settings, and labels as integers, floats, booleans or text. It does
        not keep ``alpha``, ``empty``, ``unlabelled`` or feature names; pickle keeps everything.
        """
        self._calibrated().save(path)

    @classmethod
    def load(
        cls: type[Model],
        path: str | PathLike[str],
        *,
        alpha: float = 0.1,
        labels: str = "auto",
        n_jobs: int | None = None,
        device: str = "auto",
    ) -> Model:
        """Reads a model file. It holds no error level, so ``alpha`` is given here, as it is to the constructor.

        ``labels``: ``"auto"`` for labels of the kind that they had in the fit, or ``"str"`` or ``"int"``.

        >>> import os, tempfile
        >>> from dance_conformal import DanceClassifier, datasets
        >>> path = os.path.join(tempfile.mkdtemp(), "model.dance")
        >>> DanceClassifier(evaluations=2).fit(*datasets.clusters(300, classes=3)).save(path)
        >>> DanceClassifier.load(path, alpha=0.05).alpha
        0.05
        """
        check_word("labels", labels, ("auto", "str", "int"))
        model = _native.Model.load(path, device, thread_count(n_jobs))
        parameters = from_settings(json.loads(model.settings))
        loaded = cls(alpha=alpha, **parameters, calibration_share=None, n_jobs=n_jobs, device=device)
        loaded._seed = parameters["random_state"]
        loaded._model = model
        loaded._fit_rows = np.arange(model.fit_points)
        kind = {"auto": model.label_kind, "str": "text", "int": "integer"}[labels]
        loaded.classes_ = class_values(model.classes, kind)
        loaded.n_features_in_ = model.dimensions
        loaded.kernel_ = json.loads(model.kernel)
        loaded.method_ = model.method
        loaded.guarantee_ = model.guarantee
        loaded.new_label_share_ = model.new_label_share
        loaded.reference_indices_ = np.arange(len(model.reference_labels()))
        return loaded
