"""Models for worker processes, sent as a path or as bytes, and opened once per process."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Hashable
from os import PathLike, fspath
from typing import Any, TypeAlias

from . import _native
from .classifier import DanceClassifier

#: A model: a classifier, the bytes of a model file, or its path.
AnyModel: TypeAlias = DanceClassifier | bytes | bytearray | str | PathLike[str]

#: Models that this process has open: a worker answers many batches with one model.
_opened: dict[Hashable, _native.Model] = {}
#: Most models that stay open.
_MOST_OPEN = 4


class ShippedModel:
    """A model that goes into a job: a path that every worker can read, or the bytes of the model file."""

    def __init__(self, model: AnyModel, device: str = "cpu") -> None:
        #: The device. The CPU by default: many workers share a machine, and sets are the same on every device.
        self.device = device
        self.path: str | None = None
        #: The bytes, or an object with the bytes as its ``value`` (a broadcast variable of Spark).
        self.contents: Any = None
        if isinstance(model, DanceClassifier):
            self.contents = model._calibrated().__reduce__()[1][0]
        elif isinstance(model, bytes | bytearray):
            self.contents = bytes(model)
        elif isinstance(model, str | PathLike):
            self.path = os.path.abspath(fspath(model))
        else:
            raise TypeError(
                f"model is a {type(model).__name__}: pass the path or the bytes of a model file, or a DanceClassifier"
            )
        self._digest = hashlib.sha256(self.contents).hexdigest() if self.contents is not None else ""

    def with_contents(self) -> ShippedModel:
        """Returns this model with its bytes, read here, so that workers need no file."""
        if self.path is None:
            return self
        with open(self.path, "rb") as file:
            return ShippedModel(file.read(), self.device)

    def open(self, threads: int) -> _native.Model:
        """Opens the model, unless this process has it open already."""
        key = self._key()
        if key not in _opened:
            model = self._read(threads)
            if not model.is_calibrated:
                raise ValueError(
                    "the model is fitted but not calibrated: call recalibrate(X, y) before it is shipped"
                )
            while len(_opened) >= _MOST_OPEN:
                del _opened[next(iter(_opened))]
            _opened[key] = model
        return _opened[key]

    def _key(self) -> Hashable:
        if self.path is None:
            return (self._digest, self.device)
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise type(error)(
                error.errno,
                f"the model cannot be read on {socket.gethostname()}: {error.strerror}. Every worker reads it from "
                "this path: put it where all of them see it, or ship it with the job as bytes",
                self.path,
            ) from None
        return (self.path, found.st_mtime_ns, found.st_size, self.device)

    def _read(self, threads: int) -> _native.Model:
        if self.path is not None:
            return _native.Model.load(self.path, self.device, threads)
        return _native.Model.from_bytes(getattr(self.contents, "value", self.contents), self.device)
