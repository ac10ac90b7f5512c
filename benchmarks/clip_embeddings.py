"""Rebuilds the CLIP files of docs/results.md, or embeds pictures of your own: CLIP ViT-B/32 with OpenAI's weights.

    python3 benchmarks/clip_embeddings.py pets pets_clip_b32.npz
    python3 benchmarks/clip_embeddings.py dtd dtd_clip_b32.npz --prompt "a photo of a {}"
    python3 benchmarks/clip_embeddings.py UCF-101-midframes ucf101_clip_b32.npz --list split_zhou_UCF101.json
    python3 benchmarks/clip_embeddings.py my-pictures mine.npz --device cuda

The first argument is the name of a data set, which torchvision downloads into `--root` (`target/torchvision`), or a folder.
The folder has one sub-folder per class, or, with `--list`, the pictures that a list names. A folder wins over a data set
of the same name.

The files of docs/results.md hold, by their counts, the test pools of CoOp (Zhou and others, 2022), which made its own splits
of some of the data sets. What a name takes is torchvision's split, so counts may differ, and with them the results:

| Name | torchvision's split | Points | Points in docs/results.md |
|---|---|---|---|
| `pets` | OxfordIIITPet, test | 3669 | 3669 |
| `flowers102` | Flowers102, test | 6149 | 2463 |
| `caltech101` | Caltech101, which is not split; without the background | 8677, 101 classes | 2465, 100 classes |
| `dtd` | DTD, test of partition 1 | 1880 | 1692 |
| – | UCF101 is videos: a folder of their middle frames | 13320 | 3783 |

For the same points, take CoOp's lists (`split_zhou_*.json`, published with its code): `--list` reads the part `test` of
such a list, `{"test": [[picture, label, class name], …]}`, with pictures relative to the folder.

The output has `embeddings` (points × dimensions, float16, unit norm), `labels` (int32, from 0), `class_names`, and with
`--prompt` also `prototypes` (one per class, float32, unit norm): the class names, put into the prompt, embedded by the text
half. Pictures that cannot be read are skipped and counted. The file appears whole or not at all.

What has been tried: folders and lists of pictures, and `dtd` and `caltech101` with a few made-up pictures in their places, all
with untrained weights (`--pretrained none`) on a CPU. What has not been tried: the download of the weights and of the data
sets, `pets` and `flowers102`, the counts of torchvision's splits above, CoOp's own lists, and a GPU.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from environment import ROOT, enter

SETS = ("pets", "flowers102", "caltech101", "dtd")
SECONDS_BETWEEN_REPORTS = 5


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help=f"a data set ({', '.join(SETS)}) or a folder with one sub-folder per class")
    parser.add_argument("output", type=Path, help="the .npz file to write")
    parser.add_argument("--model", default="ViT-B-32", help="a model of open_clip [default: ViT-B-32]")
    parser.add_argument("--pretrained", default="openai", help="its weights; `none`: random ones [default: openai]")
    parser.add_argument("--prompt", help='add prototypes, class names in this prompt: "a photo of a {}"')
    parser.add_argument("--list", type=Path, help="a list of CoOp's: embed the pictures of its part `test`")
    parser.add_argument("--batch", type=positive, default=64, help="pictures at a time [default: 64]")
    parser.add_argument("--limit", type=positive, help="at most this many pictures, evenly spaced over the data")
    parser.add_argument("--device", help="`cpu`, `cuda`, … [default: cuda where there is one]")
    parser.add_argument("--root", type=Path, default=ROOT / "target" / "torchvision", help="where torchvision's data sets go")
    options = parser.parse_args()
    output = options.output
    if output.suffix != ".npz" or output.is_dir():
        parser.error(f"{output}: the output is a file that ends in .npz")
    if not output.absolute().parent.is_dir():
        parser.error(f"{output}: its folder does not exist")
    if options.prompt is not None and "{}" not in options.prompt:
        parser.error("--prompt needs a place for the class name: {}")
    if not Path(options.data).is_dir() and (options.data not in SETS or options.list):
        parser.error(f"{options.data}: no such folder" + ("" if options.list else f", and none of {', '.join(SETS)}"))
    return options


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


if __name__ == "__main__":
    OPTIONS = read_options()  # a mistake costs no installation
    enter("open_clip_torch", "torchvision", "numpy", "scipy")

import numpy as np
import open_clip
import torch
import torchvision
from PIL import Image

# What Pillow raises on files that are no pictures, or broken ones.
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Files:
    """Pictures in files, with labels."""

    def __init__(self, items: list, classes: list) -> None:
        self.items, self.classes = items, classes

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int):
        path, label = self.items[row]
        with Image.open(path) as picture:
            return picture.convert("RGB"), label


def of_folder(folder: Path) -> Files:
    """One class per sub-folder; pictures may lie deeper in it."""
    classes, items = [], []
    for sub in sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")):
        files = sorted(path for path in sub.rglob("*") if path.is_file() and not path.name.startswith("."))
        if not files:
            tell(f"{sub}: has no files, and is no class")
            continue
        items += [(path, len(classes)) for path in files]
        classes.append(sub.name)
    if not classes:
        sys.exit(f"{folder}: has no sub-folders with files; one sub-folder per class is needed")
    return Files(items, classes)


def of_list(folder: Path, path: Path) -> Files:
    """The pictures of the part `test` of a list; labels are numbered anew, in their order."""
    try:
        rows = [(folder / picture, int(label), name) for picture, label, name in json.loads(path.read_text())["test"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{path}: not a list with a part `test` of [picture, label, class name]: {error!r}")
    if not any(picture.is_file() for picture, _, _ in rows):
        sys.exit(f"{folder}: has none of the {len(rows)} pictures that {path} names")
    names = {label: name for _, label, name in rows}
    place = {label: number for number, label in enumerate(sorted(names))}
    return Files([(picture, place[label]) for picture, label, _ in rows], [names[label] for label in place])


def of_torchvision(name: str, root: Path):
    """A data set and its class names."""
    root.mkdir(parents=True, exist_ok=True)
    known = torchvision.datasets
    try:
        if name == "pets":
            data = known.OxfordIIITPet(root, split="test", download=True)
        elif name == "flowers102":
            data = known.Flowers102(root, split="test", download=True)
        elif name == "dtd":
            data = known.DTD(root, split="test", partition=1, download=True)
        else:
            data = known.Caltech101(root, download=True)
    except Exception as error:  # whatever the download makes of it
        sys.exit(f"{name}: cannot be had from torchvision: {error}")
    return data, list(data.categories if name == "caltech101" else data.classes)


def load_model(options: argparse.Namespace):
    """The model, what prepares pictures, and what makes tokens of text."""
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    weights = None if options.pretrained.lower() == "none" else options.pretrained
    # OpenAI's weights were trained with another activation than the model of that name has in open_clip.
    quick = bool(weights and (open_clip.get_pretrained_cfg(options.model, weights) or {}).get("quick_gelu"))
    torch.manual_seed(0)  # for random weights
    try:
        model, _, prepare = open_clip.create_model_and_transforms(
            options.model, pretrained=weights, force_quick_gelu=quick, device=device
        )
        tokens = open_clip.get_tokenizer(options.model)
    except Exception as error:  # no such model, no such weights, no way to them, no such device
        sys.exit(f"{options.model} with weights {options.pretrained} on {device}: {error}")
    if weights is None:
        tell("the weights are random: embeddings have the right layout and mean nothing")
    return model.eval(), prepare, tokens, device


def normalised(features: torch.Tensor, what: str) -> np.ndarray:
    """Rows of length 1."""
    rows = features.float().cpu().numpy()
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(rows).all() and (lengths > 0).all()):
        sys.exit(f"the model gave {what} that are not finite, or 0")
    return rows / lengths


def embed(data, model, prepare, device: str, options: argparse.Namespace):
    """Embeddings and labels of the pictures that can be read, and how many cannot."""
    rows = np.arange(len(data))
    if options.limit is not None and options.limit < len(rows):
        rows = np.arange(options.limit) * len(data) // options.limit
    embeddings, labels, batch, unreadable = [], [], [], 0
    begin = reported = time.monotonic()
    for done, row in enumerate(rows, 1):
        try:
            picture, label = data[int(row)]
            batch.append(prepare(picture))
            labels.append(int(label))
        except UNREADABLE as error:
            unreadable += 1
            name = data.items[row][0] if isinstance(data, Files) else f"picture {row}"
            tell(f"skipped {name}: {error}")
        if batch and (len(batch) == options.batch or done == len(rows)):
            features = model.encode_image(torch.stack(batch).to(device))
            embeddings.append(normalised(features, "embeddings").astype(np.float16))
            batch = []
        if time.monotonic() - reported > SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            tell(f"{done} of {len(rows)} pictures, {done / (reported - begin):.1f} a second")
    if not embeddings:
        sys.exit(f"none of the {len(rows)} pictures could be read")
    return np.concatenate(embeddings), np.array(labels, dtype=np.int32), unreadable


def write(path: Path, arrays: dict) -> None:
    """All of the file or nothing."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def main(options: argparse.Namespace) -> None:
    folder = Path(options.data)
    if options.list:
        data = of_list(folder, options.list)
        classes = data.classes
    elif folder.is_dir():
        data = of_folder(folder)
        classes = data.classes
    else:
        data, classes = of_torchvision(options.data, options.root)
    if len(set(classes)) < len(classes):
        sys.exit("two classes have the same name; every class needs one of its own")
    tell(f"{len(data)} pictures, {len(classes)} classes")
    model, prepare, tokens, device = load_model(options)
    with torch.inference_mode():
        embeddings, labels, unreadable = embed(data, model, prepare, device, options)
        arrays = {"embeddings": embeddings, "labels": labels, "class_names": np.array(classes)}
        if options.prompt is not None:
            texts = [options.prompt.replace("{}", name.replace("_", " ")) for name in classes]
            arrays["prototypes"] = normalised(model.encode_text(tokens(texts).to(device)), "prototypes")
    write(options.output, arrays)
    missing = len(classes) - len(np.unique(labels))
    print(
        f"{options.output}: {len(labels)} points, {embeddings.shape[1]} dimensions, {len(classes)} classes"
        + (f", {missing} of them without a point" if missing else "")
        + f"; {unreadable} pictures could not be read"
    )


if __name__ == "__main__":
    try:
        main(OPTIONS)
    except KeyboardInterrupt:
        sys.exit("stopped; nothing was written")
