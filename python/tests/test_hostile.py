"""Bytes that are no model, and paths that cannot be written: an exception with the reason, never a panic."""

import contextlib
import errno
import json
import os
import random
import signal

import numpy as np
import pytest
from conftest import FAST

from dance_conformal import DanceClassifier, ModelFormatError
from dance_conformal._native import Model


def parts(pickled):
    """The header and the matrices of a kernel machine's bytes."""
    length = int.from_bytes(pickled[8:16], "little")
    return json.loads(pickled[16 : 16 + length]), pickled[16 + length :]


def joined(header, matrices):
    text = json.dumps(header).encode()
    return b"dancefit" + len(text).to_bytes(8, "little") + text + matrices


@pytest.fixture(scope="module")
def kernel(data):
    """The bytes of a kernel machine that has not been calibrated."""
    X, y, _, _ = data
    model = DanceClassifier(calibration_share=None, **FAST).fit(X[:60], y[:60])
    _, (pickled, _) = model._model.__reduce__()
    assert pickled.startswith(b"dancefit")
    return pickled


def test_headers_that_do_not_fit_the_rest(kernel):
    header, matrices = parts(kernel)
    assert Model.from_bytes(joined(header, matrices)).fit_points == len(header["train_labels"])
    for key, value in [
        ("train_labels", [10**9] * len(header["train_labels"])),
        ("train_labels", []),
        ("classes", ["a"] * len(header["classes"])),
        ("classes", header["classes"][:-1]),
        ("dimensions", 2**63),
        ("dimensions", 2**40),
        ("dimensions", 0),
        ("bandwidth", -1.0),
        ("bandwidth", 0.0),
        ("shape", 0.0),
        ("normalizer", {"kind": "standardize", "mean": [0.0], "scale": [0.0]}),
        ("names", {"rows": [1], "ids": None}),
        ("scale", {"floor": -1.0, "ceiling": None, "power": 1.0}),
        ("validation_hashes", [1, 2]),
    ]:
        with pytest.raises(ModelFormatError):
            Model.from_bytes(joined(header | {key: value}, matrices))
    for cut in (matrices[:-1], b"", np.full(len(matrices) // 4, np.nan, np.float32).tobytes()):
        with pytest.raises(ModelFormatError):
            Model.from_bytes(joined(header, cut))


def test_damaged_bytes(kernel, model):
    """Whatever is overwritten, there is a model or an exception of ours."""
    _, (calibrated, _) = model._model.__reduce__()
    draw = random.Random(0)
    for pickled in (kernel, calibrated):
        for _ in range(300):
            damaged = bytearray(pickled)
            for _ in range(draw.randint(1, 4)):
                damaged[draw.randrange(min(len(damaged), 4000))] = draw.randrange(256)
            if draw.random() < 0.3:
                del damaged[draw.randrange(len(damaged)) :]
            with contextlib.suppress(ModelFormatError):
                Model.from_bytes(bytes(damaged))
    for nonsense in (b"", b"dancefit", b"dancefit" + b"\xff" * 8, b"\x80\x04\x95"):
        with pytest.raises(ModelFormatError):
            Model.from_bytes(nonsense)


def test_places_that_are_no_files(tmp_path):
    with pytest.raises(ModelFormatError, match="is a directory"):
        DanceClassifier.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ModelFormatError, match="is not a regular file"):
            DanceClassifier.load(tmp_path / "pipe")


def test_a_disk_that_is_full(model, tmp_path):
    """A limit on the size of files fails writes as a full disk does: the file is named, and nothing is left."""
    resource = pytest.importorskip("resource", reason="Windows has no limit on the size of files")
    path = tmp_path / "model.dance"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            model.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG
    assert str(caught.value) == f"[Errno {errno.EFBIG}] File too large: '{path}'"
    assert list(tmp_path.iterdir()) == []
