"""Recomputes the sets of a model file with safetensors and NumPy alone, as docs/format.md says.

    python benchmarks/recompute_sets.py [model.safetensors answers.json]

`answers.json` holds `queries` (rows of numbers) and `sets` (by alpha, a list of labels a query). Without arguments the stored
models of the tests are checked. Nothing is cut short: in exact mode the whole bag is scored anew for every query and label.
Rounding differs from the model's f32 (maps in the last bit, probabilities by about 1e-6): a tie might be decided otherwise.
"""

import hashlib
import json
import math
import struct
import sys
from pathlib import Path

from environment import enter

if __name__ == "__main__":
    enter("numpy", "safetensors")

import numpy as np
from safetensors import safe_open

CALIBRATION, QUERIES, TRAIN = range(3)  # parts of the random numbers


def load(path):
    data = bytearray(Path(path).read_bytes())
    length = struct.unpack("<Q", data[:8])[0]
    place = data.index(b'"checksum":"', 8, 8 + length) + len(b'"checksum":"')
    checksum = bytes(data[place : place + 64]).decode()
    data[place : place + 64] = b"0" * 64
    assert hashlib.sha256(data).hexdigest() == checksum, "the checksum does not match"
    with safe_open(path, framework="numpy") as file:
        meta, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    assert meta["format"] in ("1", "2", "3"), f"format {meta['format']} is not known here"
    return meta, tensors


def uniform_of(*keys):
    """In [0, 1), a function of the keys: each goes through the finaliser of SplitMix64."""
    state, ones = 0, 2**64 - 1
    for key in keys:
        state = (state + 0x9E3779B97F4A7C15 & ones) ^ key
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & ones
        state = (state ^ state >> 27) * 0x94D049BB133111EB & ones
        state ^= state >> 31
    return (state >> 11) / 2**53


def keys_of(meta, part, rows):
    """What decides between points at the same distance, in exact mode."""
    return np.array([uniform_of(int(meta["seed"]), 0x0B46, part, row) for row in rows])


def noise(meta, part, row, label):
    """What breaks ties of a rank, where scores are not fused."""
    return float(meta["tie_noise"]) * uniform_of(int(meta["seed"]), 0x71E5, part, row, int(label))


def squared_distances(points, query):
    return ((points.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1)


def normalised(meta, tensors, queries):
    z = np.asarray(queries, dtype=np.float32)
    if meta["normalize"] == "l2":
        z = (z / np.linalg.norm(z.astype(np.float64), axis=1, keepdims=True)).astype(np.float32)
    elif meta["normalize"] == "standardize":
        z = (z - tensors["normalize_mean"]) / tensors["normalize_scale"]
    return z


def mapped(meta, tensors, queries):
    return normalised(meta, tensors, queries) @ tensors["metric_root"]


def exponents(meta, squared):
    """u of the kernel exp(-u)."""
    return (np.sqrt(squared) / float(meta["bandwidth"])) ** (1 / float(meta["shape"]))


def probabilities(meta, tensors, x):
    """Of every class, mapped points × classes; 0 for a class the kernel does not know."""
    centers, known = tensors["train"] @ tensors["metric_root"], int(meta["fit_classes"])
    if scale := json.loads(meta.get("probabilities", "null")):
        floor, ceiling, power = np.float32(scale["floor"]), scale["ceiling"] or np.inf, scale["power"]
    else:
        floor = json.loads(meta["config"])["probability_floor"]
        floor = np.float32(floor if floor is not None else min(1e-3, 0.1 / known))
        ceiling, power = 1 - floor, 1
    kernel = np.exp(-exponents(meta, np.array([squared_distances(centers, point) for point in x])))
    outputs = (kernel @ tensors["beta"]).astype(np.float32).clip(floor, np.float32(ceiling)).astype(np.float64)
    outputs = (outputs / outputs.max(axis=1, keepdims=True)) ** power
    shares = (outputs / outputs.sum(axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    return np.pad(shares, ((0, 0), (0, len(json.loads(meta["classes"])) - known)))


def label_scores(meta, query, points, labels, keys):
    """Rank and contrastive score of every label, classes × 2. Neighbors at the same distance are in the order of `keys`."""
    squared = squared_distances(points, query)
    order = np.lexsort((keys, squared))
    found = np.full((len(json.loads(meta["classes"])), 2), np.inf)
    near = order[: int(meta["rank_neighbors"])]
    places = np.arange(len(near))
    if meta["calibration"] == "exact":  # points at the same distance share a rank
        places = np.array([(squared < squared[point]).sum() for point in near])
    np.minimum.at(found[:, 0], labels[near], 1.0 + places)
    near = order[: int(meta["contrast_neighbors"])]
    u = exponents(meta, squared_distances(points[near], points[near[0]]))
    d = -2 * np.expm1(-u) / float(meta["temperature"])
    np.minimum.at(found[:, 1], labels[near], d + np.log1p(np.sort(np.exp(-d[1:])).sum()))
    return found


def fused(pairs, p):
    """Rank and contrastive score with the class probability."""
    return np.stack([pairs[..., 0] + 0.99 * (1 - p), pairs[..., 1], 1 - p], axis=-1)


def conformity(meta, rank, contrast, probability):
    """One number from the counts of scores that are at least as large."""
    if meta["combine"] == "fuse":
        rank, contrast, probability = (np.maximum(counts, 1) for counts in (rank, contrast, probability))
        return rank * rank * contrast * probability * probability
    mix = round((json.loads(meta["joint"]) or [0])[0] * 10**6)
    if mix in (0, 10**6):
        return contrast if mix else rank
    return np.minimum(rank * mix, contrast * (10**6 - mix))


def exact_counts(meta, tensors, x):
    """How many of the n calibration points and the query conform no better by rank, contrast and both (or all) combined:
    queries × classes × 3, and n."""
    calibration, own = tensors["reference"] @ tensors["metric_root"], tensors["reference_labels"]
    n, behind = len(own), len(tensors["train"]) if meta["fit_neighbors"] == "true" else 0
    reference = np.concatenate([calibration, (tensors["train"] @ tensors["metric_root"])[:behind]])
    reference_labels = np.concatenate([own, tensors["train_labels"][:behind]])
    reference_keys = np.concatenate([keys_of(meta, CALIBRATION, range(n)), keys_of(meta, TRAIN, range(behind))])
    if fuse := meta["combine"] == "fuse":
        asked, known = probabilities(meta, tensors, x), tensors["calibration_probabilities"].astype(np.float64)
        again = probabilities(meta, tensors, calibration)[np.arange(n), own]
        assert np.allclose(again, known, rtol=0, atol=1e-4), "the stored probabilities are not those of the kernel"
    counts = np.zeros((len(x), len(json.loads(meta["classes"])), 3), dtype=int)
    for row, label in np.ndindex(counts.shape[:2]):
        # The newcomer, the calibration points, and behind this bag of n+1 the training points.
        points = np.concatenate([x[row : row + 1], reference])
        labels = np.append(label, reference_labels)
        keys = np.append(keys_of(meta, QUERIES, [row]), reference_keys)
        bag = np.zeros((n + 1, 2))
        for i in range(n + 1):
            others = np.arange(len(points)) != i
            bag[i] = label_scores(meta, points[i], points[others], labels[others], keys[others])[labels[i]]
        if fuse:
            bag = fused(bag, np.append(asked[row, label], known))
        else:
            bag[0, 0] += noise(meta, QUERIES, row, label)
            bag[1:, 0] += [noise(meta, CALIBRATION, i, own[i]) for i in range(n)]
            bag = np.pad(bag, ((0, 0), (0, 1)))
        reached = np.array([(bag >= scores).sum(axis=0) for scores in bag])
        counts[row, label, :2] = reached[0, :2]
        if meta["combine"] != "union":
            combined = conformity(meta, *reached.T.astype(object))  # whole numbers of any size
            counts[row, label, 2] = (combined <= combined[0]).sum()
    return counts, n


def split_counts(meta, tensors, x):
    """The same in reuse and disjoint mode, where the scores of the calibration points do not depend on the query."""
    reference, labels = tensors["reference"] @ tensors["metric_root"], tensors["reference_labels"]
    scores = np.array([label_scores(meta, query, reference, labels, np.arange(len(labels))) for query in x])
    if meta["combine"] == "fuse":
        scores = fused(scores, probabilities(meta, tensors, x))
    else:
        for row, label in np.ndindex(scores.shape[:2]):
            scores[row, label, 0] += noise(meta, QUERIES, row, label)
        scores = np.pad(scores, ((0, 0), (0, 0), (0, 1)))

    def at_least(name, values):
        return (tensors[name] >= values[..., None]).sum(axis=-1)

    counts = np.ones(scores.shape, dtype=int)
    for which, name in enumerate(("rank", "contrast")):
        counts[..., which] += at_least(f"calibration_{name}_scores", scores[..., which])
    if meta["combine"] != "union":
        names = enumerate(("rank", "contrast", "probability"))
        reached = [at_least(f"level_{name}_scores", scores[..., which]).astype(float) for which, name in names]
        counts[..., 2] += at_least("combined_scores", -conformity(meta, *reached))
    return counts, len(tensors["calibration_rank_scores"])


def expert_evidence(expert, point, others, labels, classes, middle):
    """What one expert says of a point for every label, from labelled others; all in the expert's space. `middle` is the fit points' mean."""
    squared = ((others - point) ** 2).sum(axis=1)
    if expert["expert"] == "prototypes":
        said, prior = np.full(classes, -expert["nothing"]), expert.get("prior", 0.0)
        for label in range(classes):
            own = others[labels == label]
            count = prior + len(own)
            if count:
                mean = (prior * middle + own.sum(axis=0)) / count
                said[label] = expert["spread"] / count - ((point - mean) ** 2).sum()
        return said
    if expert["expert"] == "nearest":
        least = np.full(classes, expert["ceiling"])
        np.minimum.at(least, labels, squared)
        return -np.log(np.clip(least, expert["floor"], expert["ceiling"]))
    kernel = lambda squared: np.exp(-((np.sqrt(squared) / expert["bandwidth"]) ** (1 / expert["shape"])))
    between = ((others[:, None] - others[None]) ** 2).sum(axis=-1)
    targets = np.eye(classes)[labels]
    outputs = kernel(squared) @ np.linalg.solve(kernel(between) + expert["ridge"] * np.eye(len(others)), targets)
    softness = expert.get("softness", 0.0)
    return np.log(np.logaddexp(0, outputs / softness)) if softness else outputs


def evidence_counts(meta, tensors, queries):
    """Counts where evidence is combined in exact mode: every posterior is rebuilt for every query, label and point of the bag."""
    stack, classes = json.loads(meta["evidence"]), len(json.loads(meta["classes"]))
    config = json.loads(meta["config"])["dance"]
    assert config.get("by_class", "together") == "together" and not config.get("unseen", False), "not recomputed here"
    maps = {"raw": None, "white": tensors.get("whitening"), "learned": tensors["metric_root"]}
    maps = {name: None if map is None else map.astype(np.float64) for name, map in maps.items()}
    space = {"prototypes": "white", "nearest": "learned"}
    parts = [tensors["train"], tensors["reference"], normalised(meta, tensors, queries).astype(np.float64)]
    fit, bag = tensors["train_labels"].astype(int), tensors["reference_labels"].astype(int)
    n = len(bag)
    assert len(fit) + n <= stack["whole"], "the kernel is spanned by landmarks: not recomputed here"

    mean = parts[0].astype(np.float64).mean(axis=0)

    def place(part, name):
        """Points in one of the spaces."""
        if stack.get("centred", False) and name != "learned":
            part = part - mean
            length = np.linalg.norm(part, axis=-1, keepdims=True)
            part = np.divide(part, length, out=np.zeros_like(part), where=length > 1e-6)
        return part if maps[name] is None else part @ maps[name]

    def score(point, label, others, labels):
        said = np.zeros(classes)
        for expert in stack["experts"]:
            name = space.get(expert["expert"], expert.get("space"))
            middle = place(parts[0].astype(np.float64), name).mean(axis=0)
            seen = place(point, name), place(others, name)
            said += expert["weight"] * expert_evidence(expert, *seen, labels, classes, middle)
        return np.logaddexp.reduce(np.delete(said, label) - said[label], initial=0.0)

    offsets = np.zeros(classes)
    if stack.get("score", {}).get("score", "lac") == "lac":
        offsets[: len(stack.get("offsets", []))] = stack.get("offsets", [])
    points = np.concatenate([part.astype(np.float64) for part in parts[:2]])
    counts = np.zeros((len(queries), classes, 3), dtype=int)
    for row, label in np.ndindex(counts.shape[:2]):
        everyone = np.concatenate([points, parts[2][row : row + 1]])
        labels = np.concatenate([fit, bag, [label]])
        bagged = range(len(fit), len(everyone))
        scores = [score(everyone[i], labels[i], np.delete(everyone, i, 0), np.delete(labels, i)) for i in bagged]
        least = scores[-1] * (1 - 1e-6) - offsets[label] - 1e-12
        counts[row, label, 2] = (np.array(scores) - offsets[labels[len(fit) :]] >= least).sum()
    return counts, n


def threshold(sorted_scores, alpha):
    n = len(sorted_scores)
    exact = (1 - alpha) * (n + 1)
    index = round(exact) if abs(exact - round(exact)) < 1e-9 else math.ceil(exact)
    return sorted_scores[index - 1] if index <= n else np.inf


def select_mix(meta, tensors, alpha):
    """Appendix F of the paper, for an alpha the file does not name."""
    given = json.loads(meta["config"])["dance"]["mix"]
    if given != "auto":
        return given
    if "tuning_offsets" not in tensors:
        return 0.0
    offsets, labels = tensors["tuning_offsets"].astype(np.int64), tensors["tuning_labels"]
    truth, classes = tensors["tuning_true_labels"], len(json.loads(meta["classes"]))
    rank = np.full((len(truth), classes), np.inf)
    contrast = rank.copy()
    rows = np.repeat(np.arange(len(truth)), np.diff(offsets))
    rank[rows, labels] = tensors["tuning_label_rank_scores"]
    contrast[rows, labels] = tensors["tuning_label_contrast_scores"]
    columns = []
    for mix in np.arange(11) / 10:
        inside = rank <= threshold(tensors["tuning_rank_scores"], (1 - mix) * alpha)
        inside &= contrast <= threshold(tensors["tuning_contrast_scores"], mix * alpha)
        covered = inside[np.arange(len(truth)), truth]
        gaps = [abs(covered[truth == label].mean() - (1 - alpha)) for label in np.unique(truth)]
        columns.append((inside.sum(axis=1).mean(), np.mean(gaps)))
    columns = np.array(columns)
    deviation = columns.std(axis=0)
    z = np.where(deviation > 1e-12, (columns - columns.mean(axis=0)) / np.where(deviation > 1e-12, deviation, 1), 0)
    objective = z @ [0.8, 0.2]
    best = 0
    for step in range(11):
        if objective[step] < objective[best] - 1e-9:
            best = step
    return best / 10


def sets(meta, tensors, counted, alpha):
    """Labels whose p-value, count/(n+1), exceeds alpha."""
    counts, n = counted
    if meta["combine"] == "union":
        mix = select_mix(meta, tensors, alpha)
        named = json.loads(meta["mix"]).get(str(alpha), mix)
        assert mix == named, f"the file names mix {named} for alpha {alpha}, its tuning tensors say {mix}"
        counts, least = counts[..., :2], [(1 - mix) * alpha * (n + 1), mix * alpha * (n + 1)]
    else:
        counts, least = counts[..., 2:], [alpha * (n + 1)]
    inside = (counts - least > 1e-9).all(axis=-1)  # guarded against rounding
    return [np.flatnonzero(row).tolist() for row in inside]


def check(model, answers):
    meta, tensors = load(model)
    answers = json.loads(Path(answers).read_text())
    if meta["combine"] == "evidence":
        assert meta["calibration"] == "exact", "evidence is recomputed in exact mode"
        counted = evidence_counts(meta, tensors, answers["queries"])
    else:
        x = mapped(meta, tensors, answers["queries"])
        counted = (exact_counts if meta["calibration"] == "exact" else split_counts)(meta, tensors, x)
    for alpha, expected in answers["sets"].items():
        found = sets(meta, tensors, counted, float(alpha))
        assert found == expected, f"{model}: the sets at alpha {alpha} differ"
        size = np.mean([len(labels) for labels in found])
        print(f"{Path(model).name}: {len(found)} sets at alpha {alpha} agree (mean size {size:.2f})")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        check(*sys.argv[1:])
    else:
        files = Path(__file__).resolve().parent.parent / "crates/dance/tests/files"
        for model in sorted(files.glob("model-v*.safetensors")):
            check(model, model.with_suffix(".json"))
