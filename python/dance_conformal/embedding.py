"""Embeddings of pictures and texts, as ``dance embed`` makes them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _native
from .progress import Event, Listener
from .settings import check_word, thread_count


@dataclass(frozen=True)
class Embeddings:
    """The result of :func:`embed`: a row for every picture or text that could be embedded."""

    embeddings: NDArray[np.float32]
    ids: list[str]
    #: A label for every row, where labels are known.
    labels: NDArray[np.str_] | None
    #: Ids of the items that were left out, with the reasons.
    bad: list[tuple[str, str]]
    #: The encoder's identity as JSON: its name, the hash of its weights and the preparation.
    encoder: str
    #: Names of the classes, and an embedding of each, where a prompt or names were given.
    class_names: list[str] | None = None
    prototypes: NDArray[np.float32] | None = None

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the .npz file that ``dance embed`` writes and ``dance fit`` reads."""
        arrays: dict[str, Any] = {"embeddings": self.embeddings, "ids": np.array(self.ids)}
        arrays["encoder"] = np.array(self.encoder)
        if self.labels is not None:
            arrays["labels"] = self.labels
        if self.prototypes is not None:
            arrays |= {"class_names": np.array(self.class_names), "prototypes": self.prototypes}
        np.savez_compressed(path, **arrays)


def embed(
    source: str | PathLike[str] | Sequence[str],
    encoder: str | PathLike[str],
    *,
    prompt: str | None = None,
    class_names: Sequence[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    device: str = "cpu",
    offline: bool = False,
    runtime: str | PathLike[str] | None = None,
    parts: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    verbose: int | Callable[[Event], object] = 0,
) -> Embeddings:
    """Embeds pictures or texts with an encoder that ONNX Runtime runs (``pip install onnxruntime``).

    ``source`` is a list of texts, or a path: a folder of pictures (sub-folders are classes), a .csv, .tsv, .jsonl or
    .parquet with ``path`` or ``text``, ``label`` and ``id``, a .parquet of Hugging Face's datasets, a .txt with a text per
    line. ``encoder`` is a name (``clip-vit-b-32``, ``all-MiniLM-L6-v2`` …), a folder, or an .onnx file.

    With ``prompt`` (``"a photo of a {}"``) or ``class_names``, class names are embedded too, as ``prototypes``; without
    ``class_names`` those of the labels. ``parts`` is a folder for finished parts, from which an interrupted run resumes.
    ``on_error="skip"`` leaves out items that cannot be embedded: ``bad`` lists them.

    >>> found = embed(["a red cat"], "all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> found.embeddings.shape  # doctest: +SKIP
    (1, 384)
    """
    check_word("on_error", on_error, ("raise", "skip"))
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is 'cpu' or 'cuda', not {device!r}")
    if prompt is not None and "{}" not in prompt:
        raise ValueError("prompt has no {}, where the class name goes: 'a photo of a {}'")
    given: str | list[str]
    if isinstance(source, str | PathLike):
        given = fspath(source)
    else:
        given = list(source)
        if not given:
            raise ValueError("there are no texts to embed")
    library = Path(runtime) if runtime is not None else _installed()
    which = (fspath(encoder), library, device == "cuda", offline)
    place = Path(parts) if parts is not None else None
    threads, listener = thread_count(n_jobs), Listener(verbose)
    rows, ids, labels, bad, identity = _native.embed(
        given, *which, on_error == "skip", place, threads, listener
    )
    listener.warn()
    names, prototypes = None, None
    if prompt is not None or class_names is not None:
        if class_names is None and labels is None:
            raise ValueError("there are no labels, whose names the prompt would embed; give class_names")
        names = list(class_names) if class_names is not None else sorted(set(labels or []))
        prototypes = _native.embed_names(names, prompt or "{}", *which, threads)
    return Embeddings(
        embeddings=rows,
        ids=ids,
        labels=None if labels is None else np.array(labels),
        bad=bad,
        encoder=identity,
        class_names=names,
        prototypes=prototypes,
    )


def _installed() -> Path | None:
    """Returns the library of the onnxruntime package that is installed for this Python."""
    found = importlib.util.find_spec("onnxruntime")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]) / "capi"
    return folder if folder.is_dir() else None
