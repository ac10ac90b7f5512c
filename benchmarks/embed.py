"""`dance embed` beside Python's onnxruntime with Pillow and tokenizers: the same weights, the same threads, decoding included.

    python3 benchmarks/export_encoders.py                       # once: the encoders
    python3 benchmarks/embed.py images eurosat_5000.parquet     # EfficientNet-Lite2 on pictures in the layout of HF datasets
    python3 benchmarks/embed.py texts                           # all-MiniLM-L6-v2 on the definitions that ship with dance
    python3 benchmarks/embed.py all eurosat_5000.parquet        # both, one after the other

`--limit` makes it smaller, to try it. DANCE_PROGRAM names a program in place of the one that is built here.

Both are whole processes, from the file of inputs to the file of embeddings, run in turn, `--runs` times; the fastest of each counts.
The peer prepares the next batch on other threads while one runs, puts texts in the order of their lengths, and gives ONNX Runtime all
threads. Then embeddings are compared: with the peer's, with PyTorch's on a sample of pictures, with those that ship for texts.
"""

import argparse
import io
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from environment import ROOT, enter
from export_encoders import PACKAGES, SIDE, TARGET

BATCH = 32
SHIPPED = ROOT / "crates" / "dance-cli" / "data" / "wordnet_minilm.npz"


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["images", "texts", "all"])
    parser.add_argument("source", nargs="?", type=Path, help="a .parquet with pictures")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=2000, help="at most this many pictures or texts")
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)  # where this script, as the peer, writes
    return parser.parse_args()


def session(folder: Path, threads: int):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])


def peer_images(source: Path, threads: int):
    import numpy as np
    import pyarrow.parquet as pq
    from PIL import Image

    files = pq.read_table(source, columns=["image"])["image"].combine_chunks().field("bytes").to_pylist()
    run = session(TARGET / "efficientnet", threads)

    def prepare(contents: bytes):
        picture = Image.open(io.BytesIO(contents)).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        return (np.asarray(picture, np.float32).transpose(2, 0, 1) / 255 - 127 / 255) / (128 / 255)

    def batch(begin: int):
        return np.stack([prepare(contents) for contents in files[begin : begin + BATCH]]).astype(np.float32)

    with ThreadPoolExecutor(threads) as pool:
        ready = pool.map(batch, range(0, len(files), BATCH))
        return np.concatenate([run.run(None, {"pixel_values": pixels})[0] for pixels in ready])


def peer_texts(source: Path, threads: int):
    import numpy as np
    from tokenizers import Tokenizer

    texts = source.read_text(encoding="utf-8").splitlines()
    run = session(TARGET / "minilm", threads)
    tokenizer = Tokenizer.from_file(str(TARGET / "minilm" / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    out = np.empty((len(texts), 384), np.float32)
    for begin in range(0, len(texts), BATCH):
        rows = order[begin : begin + BATCH]
        tokens = tokenizer.encode_batch([texts[row] for row in rows])
        ids, mask = (np.array([getattr(text, name) for text in tokens]) for name in ("ids", "attention_mask"))
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = run.run(None, inputs)[0]
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        out[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return out


def torch_images(source: Path, rows):
    """PyTorch on Pillow's pixels: the same network before it was exported."""
    import numpy as np
    import pyarrow.parquet as pq
    import torch
    from export_encoders import efficientnet
    from PIL import Image

    column = pq.read_table(source, columns=["image"])["image"].combine_chunks().field("bytes")
    pixels = []
    for row in rows:
        picture = Image.open(io.BytesIO(column[int(row)].as_py())).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        pixels.append((np.asarray(picture, np.float32).transpose(2, 0, 1) - 127) / 128)
    with torch.inference_mode():
        return efficientnet()(torch.from_numpy(np.stack(pixels))).numpy()


def seconds(command: list) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return time.perf_counter() - begin


def main(options: argparse.Namespace) -> None:
    for what in ["images", "texts"] if options.what == "all" else [options.what]:
        print(what, flush=True)
        measure(argparse.Namespace(**{**vars(options), "what": what}))


def measure(options: argparse.Namespace) -> None:
    import numpy as np

    folder = ROOT / "target" / "embed"
    folder.mkdir(parents=True, exist_ok=True)
    if options.what == "images":
        import pyarrow.parquet as pq

        source, encoder = folder / "pictures.parquet", TARGET / "efficientnet"
        table = pq.read_table(options.source)
        pq.write_table(table.take(np.arange(min(options.limit, len(table))) * len(table) // min(options.limit, len(table))), source)
    else:
        source, encoder = folder / "texts.txt", TARGET / "minilm"
        texts = np.load(SHIPPED)["ids"][: options.limit]
        source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    if "DANCE_PROGRAM" not in os.environ:
        subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "dance-cli"], cwd=ROOT, check=True)
    binary = Path(os.environ.get("DANCE_PROGRAM", ROOT / "target" / "release" / "dance"))
    ours, peers = folder / "ours.npz", folder / "peers.npy"
    threads = ["--threads", str(options.threads)]
    os.environ.setdefault("ORT_DYLIB_PATH", str(next(Path(sys.prefix).glob("lib/python*/site-packages/onnxruntime/capi"))))
    commands = {
        "dance embed": [binary, "embed", source, "-o", ours, "--encoder", encoder, "--quiet", *threads],
        "onnxruntime": [sys.executable, __file__, options.what, source, "--peer", peers, *threads],
    }
    times = {name: [] for name in commands}
    for _ in range(options.runs):
        for name, command in commands.items():
            times[name].append(seconds(command))
    best = {name: min(all_times) for name, all_times in times.items()}
    found, peer = np.load(ours)["embeddings"], np.load(peers)
    for name, time_of in best.items():
        print(f"{name:12} {time_of:6.2f} s, {len(found) / time_of:6.1f} a second")
    wanted = 1.0 if options.what == "images" else 1.2
    print(f"ratio        {best['onnxruntime'] / best['dance embed']:.2f} (wanted: at least {wanted})")

    def compare(name: str, one, other) -> None:
        cosine = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        print(f"{name}: cosine at least {cosine.min():.7f}, entries differ by at most {np.abs(one - other).max():.2e}")

    compare("with the peer", found, peer)
    if options.what == "images":
        rows = np.arange(0, len(found), max(1, len(found) // 200))
        compare("with PyTorch, a sample", found[rows], torch_images(source, rows))
    else:
        compare("with what ships", found, np.load(SHIPPED)["embeddings"][: options.limit].astype(np.float32))


if __name__ == "__main__":
    OPTIONS = read_options()
    enter(*PACKAGES, "onnxruntime", "pillow", "pyarrow", "tokenizers", "numpy")
    if OPTIONS.peer:
        import numpy

        peer = peer_images if OPTIONS.what == "images" else peer_texts
        numpy.save(OPTIONS.peer, peer(OPTIONS.source, OPTIONS.threads))
    else:
        main(OPTIONS)
