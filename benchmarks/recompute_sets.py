"""Recomputes the sets of model files with safetensors and NumPy alone, as docs/format.md describes.

    python benchmarks/recompute_sets.py                      # the models of fuzz/corpus, against `dance predict`
    python benchmarks/recompute_sets.py MODEL ANSWERS.json   # one model, against stored answers

ANSWERS.json holds `queries` (rows of numbers), `sets` (by alpha, the class ids of every query) and, where sets may hold a new
label, `new_label` (by alpha, whether each set holds one).

Nothing is approximated: in full calibration the whole bag is scored again for every query and label, so models must be small.
Results differ from the model's own f32 arithmetic by rounding. A tie may therefore be decided otherwise.
"""

import hashlib
import json
import math
import struct
import sys
import tempfile
from pathlib import Path

import environment

if __name__ == "__main__":
    environment.enter("numpy", "safetensors")

import numpy as np
from safetensors import safe_open

FORMAT = "1"
CALIBRATION, QUERIES, FIT = range(3)  # parts of the random numbers
KEYS, TIES = 0x0B46, 0x71E5  # purposes of the random numbers
ALPHAS = ["0.05", "0.1", "0.2", "0.3"]


class Model:
    """A model file: its metadata, its tensors, and the settings that are needed more than once."""

    def __init__(self, path):
        data = bytearray(Path(path).read_bytes())
        length = struct.unpack("<Q", data[:8])[0]
        place = data.index(b'"checksum":"', 8, 8 + length) + len(b'"checksum":"')
        checksum = bytes(data[place : place + 64]).decode()
        data[place : place + 64] = b"0" * 64
        assert hashlib.sha256(data).hexdigest() == checksum, "the checksum does not match"
        with safe_open(path, framework="numpy") as file:
            self.meta = file.metadata()
            self.tensors = {name: file.get_tensor(name) for name in file.keys()}
        assert self.meta["format"] == FORMAT, f"format {self.meta['format']} is not known here"
        self.names = json.loads(self.meta["classes"])
        self.classes = len(self.names)
        self.settings = json.loads(self.meta["config"])["conformal"]
        self.method = self.meta["method"]
        self.calibration = self.meta["calibration"]
        if self.calibration == "null":
            self.calibration = "reuse" if self.method == "dance" else "full"
        self.full = self.calibration == "full"
        self.seed = int(self.meta["seed"])

    def number(self, name):
        return float(self.meta[name])

    def normalise(self, queries):
        z = np.asarray(queries, dtype=np.float32)
        if self.meta["normalize"] == "l2":
            z = (z / np.linalg.norm(z.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)
        elif self.meta["normalize"] == "standardize":
            z = (z - self.tensors["normalize_mean"]) / self.tensors["normalize_scale"]
        return z

    def map(self, normalised):
        return normalised @ self.tensors["metric_root"]

    def strata(self):
        """The stratum of every class: classes in one stratum are compared with each other."""
        by_class = self.settings["by_class"]
        if by_class == "each":
            return np.arange(self.classes)
        if by_class == "clusters":
            clusters = json.loads(self.meta["posterior"])["clusters"]
            of_class = clusters["of_class"][: self.classes]
            return np.array(of_class + [clusters["middle"]] * (self.classes - len(of_class)))
        return np.zeros(self.classes, dtype=int)

    def count(self, conforms_less, label, labels):
        """The count of a query with `label`: `conforms_less` says it of every point of the bag, `labels` are theirs."""
        strata = self.strata()
        own = strata[labels] == strata[label]
        count = 1 + int(conforms_less[own].sum())
        return -(-count * (len(labels) + 1) // (int(own.sum()) + 1))


def bits_of(keys):
    """64 bits, a function of the keys: each key goes through the finaliser of SplitMix64."""
    state, ones = 0, 2**64 - 1
    for key in keys:
        state = (state + 0x9E3779B97F4A7C15 & ones) ^ key
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & ones
        state = (state ^ state >> 27) * 0x94D049BB133111EB & ones
        state ^= state >> 31
    return state


def uniform_of(*keys):
    """A number in [0, 1)."""
    return (bits_of(keys) >> 11) / 2**53


def name_of(query):
    """The name of a query: a hash of the bits of its mapped numbers, in pairs."""
    bits = [int(value) for value in np.asarray(query, dtype=np.float32).view(np.uint32)]
    bits += [0] * (len(bits) % 2)
    return bits_of(low | high << 32 for low, high in zip(bits[::2], bits[1::2], strict=True))


def keys_of(model, part, names):
    """The numbers that order points at the same distance in the method fuse."""
    return np.array([uniform_of(model.seed, KEYS, part, name) for name in names])


def squared_distances(points, query):
    return ((points.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1)


def order_index(alpha, n):
    """The place, from 1, of the threshold among n sorted scores, guarded against rounding."""
    exact = (1 - alpha) * (n + 1)
    return round(exact) if abs(exact - round(exact)) < 1e-9 else math.ceil(exact)


def passes(counts, alpha, n):
    """Whether p-values, counts/(n+1), exceed alpha."""
    return counts >= n + 2 - order_index(alpha, n)


# Neighbor scores.


def exponents(model, squared):
    """u of the kernel exp(-u)."""
    return (np.sqrt(squared) / model.number("bandwidth")) ** (1 / model.number("shape"))


def neighbor_scores(model, query, points, labels, keys):
    """The rank and the contrastive score of every label, classes × 2. `keys` order points at the same distance."""
    squared = squared_distances(points, query)
    order = np.lexsort((keys, squared))
    found = np.full((model.classes, 2), np.inf)
    near = order[: int(model.meta["rank_neighbors"])]
    places = np.arange(len(near))
    if model.full:  # points at the same distance share a rank
        places = np.array([(squared < squared[point]).sum() for point in near])
    np.minimum.at(found[:, 0], labels[near], 1.0 + places)
    near = order[: int(model.meta["contrast_neighbors"])]
    u = exponents(model, squared_distances(points[near], points[near[0]]))
    d = -2 * np.expm1(-u) / model.number("temperature")
    np.minimum.at(found[:, 1], labels[near], d + np.log1p(np.sort(np.exp(-d[1:])).sum()))
    return found


# The method dance.


def dance_counts(model, queries):
    """The rank and the contrastive count of every label, queries × classes × 2, and n."""
    x = model.map(queries)
    reference, labels = model.map(model.tensors["reference"]), model.tensors["reference_labels"]
    rows = np.arange(len(labels))
    scores = np.array([neighbor_scores(model, query, reference, labels, rows) for query in x])
    for row, label in np.ndindex(scores.shape[:2]):
        noise = uniform_of(model.seed, TIES, QUERIES, name_of(x[row]), label)
        scores[row, label, 0] += model.number("tie_noise") * noise
    own = [model.tensors[f"calibration_{name}_scores"] for name in ("rank", "contrast")]
    counts = [1 + (own[which] >= scores[..., which, None]).sum(axis=-1) for which in range(2)]
    return np.stack(counts, axis=-1), len(own[0])


def threshold(sorted_scores, alpha):
    index = order_index(alpha, len(sorted_scores))
    return sorted_scores[index - 1] if index <= len(sorted_scores) else np.inf


def select_mix(model, alpha):
    """The mix at an error level (the paper, appendix F)."""
    if model.settings["mix"] != "auto":
        return model.settings["mix"]
    tensors = model.tensors
    if "tuning_offsets" not in tensors:
        return 0.0
    truth = tensors["tuning_true_labels"]
    rank = np.full((len(truth), model.classes), np.inf)
    contrast = rank.copy()
    rows = np.repeat(np.arange(len(truth)), np.diff(tensors["tuning_offsets"].astype(np.int64)))
    rank[rows, tensors["tuning_labels"]] = tensors["tuning_label_rank_scores"]
    contrast[rows, tensors["tuning_labels"]] = tensors["tuning_label_contrast_scores"]
    columns = []
    for mix in np.arange(11) / 10:
        inside = rank <= threshold(tensors["tuning_rank_scores"], (1 - mix) * alpha)
        inside &= contrast <= threshold(tensors["tuning_contrast_scores"], mix * alpha)
        covered = inside[np.arange(len(truth)), truth]
        gaps = [abs(covered[truth == label].mean() - (1 - alpha)) for label in np.unique(truth)]
        columns.append((inside.sum(axis=1).mean(), np.mean(gaps)))
    columns = np.array(columns)
    mean, deviation = columns.mean(axis=0), columns.std(axis=0)
    varies = deviation > 1e-12 * np.maximum(np.abs(mean), 1e-12)
    objective = np.where(varies, (columns - mean) / np.where(varies, deviation, 1), 0) @ [0.8, 0.2]
    best = 0
    for step in range(11):
        if objective[step] < objective[best] - 1e-9:
            best = step
    return best / 10


# The method fuse.


def class_probabilities(model, x):
    """The kernel machine's class probabilities of mapped points; 0 for a class that it does not know."""
    centers, scale = model.map(model.tensors["train"]), json.loads(model.meta["probabilities"])
    ceiling = np.inf if scale["ceiling"] is None else scale["ceiling"]
    kernel = np.exp(-exponents(model, np.array([squared_distances(centers, point) for point in x])))
    outputs = (kernel @ model.tensors["beta"]).astype(np.float32)
    outputs = outputs.clip(np.float32(scale["floor"]), np.float32(ceiling)).astype(np.float64)
    outputs = (outputs / outputs.max(axis=1, keepdims=True)) ** scale["power"]
    shares = (outputs / outputs.sum(axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    return np.pad(shares, ((0, 0), (0, model.classes - shares.shape[1])))


def fuse_counts(model, queries):
    """The count of every label, queries × classes × 1, and n."""
    x, calibration = model.map(queries), model.map(model.tensors["reference"])
    own, n = model.tensors["reference_labels"].astype(int), len(calibration)
    fit, fit_labels = model.map(model.tensors["train"]), model.tensors["train_labels"]
    fit_keys, calibration_keys = keys_of(model, FIT, range(len(fit))), keys_of(model, CALIBRATION, range(n))
    probabilities = class_probabilities(model, x)
    known = model.tensors["calibration_probabilities"].astype(np.float64)
    again = class_probabilities(model, calibration)[np.arange(n), own]
    assert np.allclose(again, known, rtol=0, atol=1e-4), "the stored probabilities are not those of the kernel machine"
    counts = np.zeros((len(x), model.classes, 1), dtype=int)
    for row, label in np.ndindex(counts.shape[:2]):
        # The query, then the calibration points (with it the bag), then the fit points.
        points = np.concatenate([x[row : row + 1], calibration, fit])
        labels = np.concatenate([[label], own, fit_labels])
        keys = np.concatenate([keys_of(model, QUERIES, [name_of(x[row])]), calibration_keys, fit_keys])
        bag = np.zeros((n + 1, 2))
        for i in range(n + 1):
            others = np.arange(len(points)) != i
            bag[i] = neighbor_scores(model, points[i], points[others], labels[others], keys[others])[labels[i]]
        unlikely = 1 - np.append(probabilities[row, label], known)
        scores = np.stack([bag[:, 0] + 0.99 * unlikely, bag[:, 1], unlikely], axis=-1)
        levels = [[int((scores[:, which] >= own[which]).sum()) for which in range(3)] for own in scores]
        conformity = np.array([rank**2 * contrast * unlikely**2 for rank, contrast, unlikely in levels], dtype=object)
        counts[row, label] = model.count((conformity[1:] <= conformity[0]).astype(bool), label, own)
    return counts, n


# The method posterior.


class Stack:
    """The experts, and the points in the spaces where they compare them."""

    def __init__(self, model):
        self.settings = json.loads(model.meta["posterior"])
        self.classes, self.root = model.classes, model.tensors["metric_root"].astype(np.float64)
        self.whitening = model.tensors.get("whitening")
        fit = model.tensors["train"].astype(np.float64)
        self.center = fit.mean(axis=0) if self.settings["centred"] else None
        self.fit, self.fit_labels = self.place(fit), model.tensors["train_labels"].astype(int)

    def place(self, points):
        """Normalised points in every space, one array for each space."""
        points = points.astype(np.float64)
        raw = points
        if self.center is not None:
            raw = points - self.center
            length = np.linalg.norm(raw, axis=1, keepdims=True)
            raw = np.divide(raw, length, out=np.zeros_like(raw), where=length > 1e-6)
        spaces = {"raw": raw, "learned": points @ self.root}
        if self.whitening is not None:
            spaces["white"] = raw @ self.whitening.astype(np.float64)
        return spaces

    def expert(self, expert, point, others, labels):
        """The log posterior of one expert for every label, trained on `others`."""
        kind = expert["expert"]
        space = {"prototypes": "white", "nearest": "learned"}.get(kind) or expert["space"]
        x, points = point[space], others[space]
        squared = ((points - x) ** 2).sum(axis=1)
        if kind == "prototypes":
            prior, center = expert["prior"], self.fit[space].mean(axis=0)
            sums = np.array([points[labels == label].sum(axis=0) for label in range(self.classes)])
            counts = np.bincount(labels, minlength=self.classes)[:, None]
            return -((x - (prior * center + sums) / (prior + counts)) ** 2).sum(axis=1)
        if kind == "nearest":
            nearest = np.full(self.classes, expert["ceiling"])
            np.minimum.at(nearest, labels, squared)
            return -np.log(np.clip(nearest, expert["floor"], expert["ceiling"]))

        def kernel(squared):
            return np.exp(-((np.sqrt(squared) / expert["bandwidth"]) ** (1 / expert["shape"])))

        between = kernel(((points[:, None] - points[None]) ** 2).sum(axis=-1))
        beta = np.linalg.solve(between + expert["ridge"] * np.eye(len(points)), np.eye(self.classes)[labels])
        return np.log(np.logaddexp(0, kernel(squared) @ beta / expert["softness"]))

    def score(self, point, label, others, labels):
        """The score of a label, -ln p, by experts trained on `others`."""
        log_posterior = sum(
            expert["weight"] * self.expert(expert, point, others, labels) for expert in self.settings["experts"]
        )
        return np.logaddexp.reduce(np.delete(log_posterior, label) - log_posterior[label], initial=-np.inf, axis=0)


def softplus(x):
    return np.logaddexp(0, x)


def least(score, offset):
    """The smallest score that counts as no smaller than `score`, minus an offset."""
    return score * (1 - 1e-6) - (offset + 1e-12 if offset else 0)


def join(*parts):
    """Points in every space, one part after the other."""
    return {space: np.concatenate([part[space] for part in parts]) for space in parts[0]}


def at(points, rows):
    return {space: values[rows] for space, values in points.items()}


def posterior_counts(model, queries):
    """The count of every label, queries × classes × 1, and n. In full calibration, experts are trained anew for every query,
    label and point of the bag."""
    stack = Stack(model)
    queries, counts = stack.place(queries), np.zeros((len(queries), model.classes, 1), dtype=int)
    offsets = np.zeros(model.classes)
    fixed = stack.settings["offsets"]
    offsets[: len(fixed)] = fixed
    if not model.full:
        known = model.tensors["posterior_scores"]
        for row, label in np.ndindex(counts.shape[:2]):
            score = softplus(stack.score(at(queries, row), label, stack.fit, stack.fit_labels))
            counts[row, label] = 1 + (known >= least(score, offsets[label])).sum()
        return counts, len(known)

    bag, own = stack.place(model.tensors["reference"]), model.tensors["reference_labels"].astype(int)
    n, first = len(own), len(stack.fit_labels)
    assert first + n <= stack.settings["whole"], "the kernel is spanned by landmarks: not recomputed here"
    balanced = model.settings["by_class"] == "balanced"
    # The difficulty of points, by experts that only the fit points train.
    alone = [softplus(stack.score(at(bag, row), own[row], stack.fit, stack.fit_labels)) for row in range(n * balanced)]
    for row, label in np.ndindex(counts.shape[:2]):
        query = at(queries, slice(row, row + 1))
        points, labels = join(stack.fit, bag, query), np.concatenate([stack.fit_labels, own, [label]])
        if balanced:
            joined = softplus(stack.score(at(queries, row), label, stack.fit, stack.fit_labels))
            average, offsets = stack.settings["log_loss"] or 0.0, np.zeros(model.classes)
            np.add.at(offsets, np.append(own, label), np.append(alone, joined) - average)
            offsets /= np.bincount(np.append(own, label), minlength=model.classes) + 3
        scores = []
        for i in range(first, len(labels)):
            others = np.arange(len(labels)) != i
            scores.append(softplus(stack.score(at(points, i), labels[i], at(points, others), labels[others])))
        scores, score = np.array(scores[:-1]), scores[-1]
        others = scores - offsets[own] >= least(score, offsets[label])
        reached = np.where(own == label, scores >= least(score, 0.0), others)  # offsets of one class cancel
        counts[row, label] = model.count(reached, label, own)
    return counts, n


# New labels.


def new_label_alpha(model, alpha, n):
    """The part of alpha that is spent on new labels."""
    counts = np.bincount(model.tensors["train_labels"])
    single = (counts == 1).sum() + 1
    bound = (single + 2 * math.sqrt(single)) / (len(model.tensors["train_labels"]) + 1)
    return min(max(bound, 1 / (n + 1)), alpha / 2)


def new_label_counts(model, queries):
    """The count of "a new label" for every query."""
    own, fit = model.tensors["reference_labels"], model.tensors["train_labels"]
    points = np.concatenate([model.map(model.tensors["reference"]), model.map(model.tensors["train"])])
    single = [row for row in range(len(own)) if (own == own[row]).sum() == 1 and own[row] not in fit]
    nearest = np.array([np.delete(squared_distances(points, points[row]), row).min() for row in single])
    counts = []
    for query in model.map(queries):
        squared = squared_distances(points, query)
        counts.append(1 + (np.minimum(nearest, squared[single]) >= squared.min()).sum())
    return np.array(counts)


# All methods.

COUNTS = {"dance": dance_counts, "fuse": fuse_counts, "posterior": posterior_counts}


def sets(model, counted, alpha):
    """The class ids of every set at alpha."""
    counts, n = counted
    if model.method == "dance":
        mix = select_mix(model, alpha)
        named = json.loads(model.meta["mix"]).get(str(alpha), mix)
        assert mix == named, f"the file names mix {named} for alpha {alpha}, its tuning tensors give {mix}"
        inside = passes(counts[..., 0], (1 - mix) * alpha, n) & passes(counts[..., 1], mix * alpha, n)
    else:
        known = alpha - new_label_alpha(model, alpha, n) if model.settings["new_labels"] else alpha
        inside = passes(counts[..., 0], known, n)
    return [np.flatnonzero(row).tolist() for row in inside]


def check(path, answers):
    """Compares the sets of a model with those that are expected."""
    model = Model(path)
    queries = model.normalise(answers["queries"])
    counted = COUNTS[model.method](model, queries)
    for text, expected in answers["sets"].items():
        alpha = float(text)
        found = sets(model, counted, alpha)
        assert found == expected, f"{path}: the sets at alpha {alpha} differ"
        if model.settings["new_labels"]:
            n = counted[1]
            new = passes(new_label_counts(model, queries), new_label_alpha(model, alpha, n), n)
            assert new.tolist() == answers["new_label"][text], f"{path}: the new labels at alpha {alpha} differ"
        size = np.mean([len(labels) for labels in found])
        print(f"{Path(path).name}: {len(found)} sets at alpha {alpha} agree (mean size {size:.2f})")


def predicted(path):
    """Random queries, and what `dance predict` returns for them."""
    model = Model(path)
    ids = {name: place for place, name in enumerate(model.names)}
    reference = model.tensors["reference"]
    random = np.random.default_rng(0)
    queries = reference[random.integers(len(reference), size=12)] + random.normal(size=(12, reference.shape[1])) / 4
    answers = {"queries": queries.astype(np.float32).tolist(), "sets": {}, "new_label": {}}
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "queries.npy", Path(folder) / "answers.jsonl"
        np.save(file, queries.astype(np.float32))
        for alpha in ALPHAS:
            environment.dance("predict", path, file, "-o", out, "--alpha", alpha)
            lines = [json.loads(line) for line in out.read_text().splitlines()]
            answers["sets"][alpha] = [sorted(ids[str(label)] for label in line["set"]) for line in lines]
            answers["new_label"][alpha] = [line.get("new_label") for line in lines]
    return answers


if __name__ == "__main__":
    if len(sys.argv) == 3:
        check(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))
    else:
        for path in sorted((environment.ROOT / "fuzz/corpus/model").glob("*.dance")):
            check(path, predicted(path))
