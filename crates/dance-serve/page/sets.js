// The points of the page and their sets. The server sends the levels at which each label is in the set, so that the slider needs no
// further request.

export const state = { model: null, points: null, known: new Map(), hundredths: 10 };

/** Returns the error level. */
export const alpha = () => state.hundredths / 100;

/** Stores the response of `/page-api/points`. The label after the last class is a new label, which is also the true label of points whose
 * label the model does not know. */
export function take(data) {
  const sets = data.levels.map((flat) => {
    const labels = [];
    for (let i = 0; i < flat.length; i += 2) labels.push({ label: flat[i], level: flat[i + 1] });
    return labels.sort((a, b) => height(b.level) - height(a.level) || a.label - b.label);
  });
  const index = new Map(data.classes.map((name, place) => [name, place]));
  state.points = { ...data, sets, count: data.names.length, truth: data.labels?.map((name) => index.get(name) ?? data.classes.length) ?? null, audited: new Set(data.audit) };
}

const height = (level) => (typeof level === "number" ? level : [...level].filter((digit) => digit === "1").length);

/** Returns whether a label with this level is in the set: a number of hundredths up to which it is, or a digit for each. */
export const holds = (level, hundredths = state.hundredths) =>
  typeof level === "number" ? hundredths <= level : level[hundredths - 1] === "1";

/** Returns the name of a label. */
export const nameOf = (label) => String(state.points.classes[label] ?? "a new label");

/** Returns the set of a point: numbers of labels, the best conforming first. */
export const setOf = (point) => state.points.sets[point].filter((one) => holds(one.level)).map((one) => one.label);

/** Returns whether the set of a point misses its true label. */
export function missed(point) {
  const { truth } = state.points;
  if (!truth) return false;
  return !state.points.sets[point].some((one) => one.label === truth[point] && holds(one.level));
}

/** Returns whether a point is novel: at most one in a hundred points like the calibration points has such a p-value. */
export const isNovel = (novelty) => novelty <= 0.01;

/** Returns coverage, mean size and share of empty sets of some points. */
export function summary(points) {
  let [labels, empty, covered] = [0, 0, 0];
  for (const point of points) {
    const size = setOf(point).length;
    labels += size;
    empty += size === 0;
    covered += !missed(point);
  }
  const count = points.length || 1;
  return { size: labels / count, empty: empty / count, coverage: state.points.truth ? covered / count : null };
}
