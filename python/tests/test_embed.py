"""Pictures and texts from Python: the numbers of transformers, and errors as Python has them."""

from pathlib import Path

import numpy as np
import pytest

import dance_conformal
from dance_conformal import embed

FILES = Path(__file__).parents[2] / "crates" / "dance-embed" / "tests" / "files"
CLIP = FILES / "clip"
pytest.importorskip("onnxruntime")


def assert_alike(found, expected):
    cosine = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosine.min() >= 0.9999


def test_embeddings_are_those_of_transformers(tmp_path):
    expected = np.load(FILES / "expected.npz")
    made = embed(FILES / "pictures", CLIP)
    assert_alike(made.embeddings, expected["image_embeds"])
    assert made.labels is None and made.bad == [] and "bicubic" in made.encoder
    texts = (FILES / "texts.txt").read_text(encoding="utf-8").splitlines()
    made = embed(texts, CLIP, class_names=["cat", "dog"], prompt="a photo of a {}")
    assert_alike(made.embeddings, expected["text_embeds"])
    assert_alike(made.prototypes, expected["text_embeds"][:2])
    assert made.ids == texts
    made.save(tmp_path / "texts.npz")
    with np.load(tmp_path / "texts.npz") as stored:
        assert str(stored["encoder"]) == made.encoder
        assert stored["class_names"].tolist() == ["cat", "dog"]


def test_labels_come_with_a_data_set():
    made = embed(FILES / "pictures.parquet", CLIP, prompt="a photo of a {}")
    assert made.labels.tolist() == ["cat", "dog", "cat"]
    assert made.class_names == ["cat", "dog"] and made.prototypes.shape == (2, 12)


def test_bad_pictures_are_listed(tmp_path):
    (tmp_path / "good.png").write_bytes((FILES / "pictures" / "rgb.png").read_bytes())
    (tmp_path / "bad.png").write_bytes(b"words")
    with pytest.raises(ValueError, match=r"bad\.png: is no picture"):
        embed(tmp_path, CLIP)
    made = embed(tmp_path, CLIP, on_error="skip")
    assert made.ids == ["good.png"]
    assert [name for name, _ in made.bad] == ["bad.png"]


def test_progress_reaches_the_callback():
    events = []
    embed(["one", "two"], CLIP, verbose=events.append)
    assert events == [{"event": "embedded", "done": 2, "of": 2}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["x"], "no-such-encoder"), "no such encoder"),
        (([], CLIP), "no texts"),
        ((FILES / "clip", CLIP), "holds no pictures"),
    ],
)
def test_mistakes_are_value_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        embed(*arguments, offline=True)


def test_missing_files_are_not_found():
    with pytest.raises(FileNotFoundError):
        embed("nowhere.csv", CLIP)
    assert dance_conformal.embed is embed
