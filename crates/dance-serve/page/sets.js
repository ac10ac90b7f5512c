// The points of the page and their sets. The server says for every label up to which error level it is in the set, so the slider needs
// no further request.

export const state = { model: null, points: null, known: new Map(), hundredths: 10 };

/** Error level, as the API writes it. */
export const alpha = () => state.hundredths / 100;

/** Takes in what `/v1/points` says. */
export function take(data) {
  const sets = data.levels.map((flat) => {
    const labels = [];
    for (let i = 0; i < flat.length; i += 2) labels.push({ label: flat[i], level: flat[i + 1] });
    return labels.sort((a, b) => height(b.level) - height(a.level) || a.label - b.label);
  });
  const index = new Map(data.classes.map((name, place) => [name, place]));
  state.points = { ...data, sets, count: data.names.length, truth: data.labels?.map((name) => index.get(name) ?? -1) ?? null, audited: new Set(data.audit) };
}

const height = (level) => (typeof level === "number" ? level : [...level].filter((digit) => digit === "1").length);

/** Whether a label with this level is in the set: a number of hundredths up to which it is, or a digit for each. */
export const holds = (level, hundredths = state.hundredths) =>
  typeof level === "number" ? hundredths <= level : level[hundredths - 1] === "1";

/** The set of a point: numbers of labels, most conforming first. */
export const setOf = (point) => state.points.sets[point].filter((one) => holds(one.level)).map((one) => one.label);

export function missed(point) {
  const { truth } = state.points;
  if (!truth) return false;
  return !state.points.sets[point].some((one) => one.label === truth[point] && holds(one.level));
}

/** Whether a point is unlike anything seen: such a p-value has one in a hundred of those that came like the calibration points. */
export const flagged = (novelty) => typeof novelty === "number" && novelty <= 0.01;

/** Coverage, mean size and share of empty sets of some points. */
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
