// The points of the page and their sets. The server sends the levels at which each label is in the set, so that the
// slider needs no further request.

/** @typedef {import("./api.js").Label} Label */
/** @typedef {import("./api.js").Level} Level */
/** The points of the page, as the views need them. Labels are numbers of classes; the number after the last is a new
 * label, which is also the true label of points whose label the model does not know.
 * @typedef {import("./api.js").PointsAnswer & { count: number, sets: { label: number, level: Level }[][],
 *   truth: number[] | null, isRandom: Set<number> }} Points */

/** @type {{ model: import("./api.js").Model, points: Points | null,
 *   known: Map<number, { label: Label, provenance: import("./api.js").Provenance }>, hundredths: number }} */
export const state = { model: /** @type {any} */ (null), points: null, known: new Map(), hundredths: 10 };

/** Returns the points of the page; views that need points are open only if there are some. */
export function pagePoints() {
  if (!state.points) throw new Error("this server has no points");
  return state.points;
}

/** Returns the error level. */
export const alpha = () => state.hundredths / 100;

/** Returns the coverage that belongs to the error level. */
export const target = () => 1 - alpha();

/** Stores the points that the server sent. @param {import("./api.js").PointsAnswer} data */
export function take(data) {
  const index = new Map(data.classes.map((name, place) => [String(name), place]));
  state.points = {
    ...data,
    count: data.names.length,
    sets: data.levels.map(pairs),
    truth: data.labels?.map((name) => index.get(String(name)) ?? data.classes.length) ?? null,
    isRandom: new Set(data.random),
  };
}

/** Returns labels with their levels, from numbers of labels and levels in turn. Those in most sets come first.
 * @param {(number | Level)[]} flat */
function pairs(flat) {
  const labels = [];
  for (let place = 0; place < flat.length; place += 2) {
    labels.push({ label: Number(flat[place]), level: flat[place + 1] });
  }
  return labels.sort((a, b) => height(b.level) - height(a.level) || a.label - b.label);
}

/** @param {Level} level */
const height = (level) => (typeof level === "number" ? level : [...level].filter((digit) => digit === "1").length);

/** Returns whether a label with this level is in the set. @param {Level} level */
export const holds = (level, hundredths = state.hundredths) =>
  typeof level === "number" ? hundredths <= level : level[hundredths - 1] === "1";

/** Returns whether two labels are the same. A label that was a number may have come from a text field.
 * @param {unknown} one @param {unknown} other */
export const isSame = (one, other) => String(one) === String(other);

/** Returns the name of a label by its number. @param {number} label */
export const nameOf = (label) => String(pagePoints().classes[label] ?? "a new label");

/** Returns the set of a point: numbers of labels, the most probable first, then those that are in most sets.
 * @param {number} point */
export function setOf(point) {
  const { sets, predictions } = pagePoints();
  const set = sets[point].filter((one) => holds(one.level)).map((one) => one.label);
  const best = predictions[point];
  return set.includes(best) ? [best, ...set.filter((label) => label !== best)] : set;
}

/** Returns whether the set of a point misses its true label. @param {number} point */
export function missed(point) {
  const { truth, sets } = pagePoints();
  if (!truth) return false;
  return !sets[point].some((one) => one.label === truth[point] && holds(one.level));
}

/** Returns whether a point is novel: at most one in a hundred points like the calibration points has such a p-value.
 * @param {number} novelty */
export const isNovel = (novelty) => novelty <= 0.01;

/** Returns the smallest error level at which a label can be left out: with few calibration points, every label
 * conforms at the levels below. @param {number} calibrationPoints */
export const smallestAlpha = (calibrationPoints) => 1 / (calibrationPoints + 1);

/** Returns the mean size and the share of empty sets of some points, and the coverage of those that took no part in the
 * fit or the calibration. @param {number[]} places */
export function summary(places) {
  const { used, truth } = pagePoints();
  let [labels, empty, covered, measured] = [0, 0, 0, 0];
  for (const place of places) {
    const size = setOf(place).length;
    labels += size;
    empty += Number(size === 0);
    if (used[place]) continue;
    measured += 1;
    covered += Number(!missed(place));
  }
  const count = places.length || 1;
  return { size: labels / count, empty: empty / count, measured: truth ? measured : 0, coverage: covered / measured };
}

/** Returns a text as a label of the kind that the classes have: a number where they are numbers. @param {string} text
 * @returns {Label} */
export function asLabel(text) {
  const classes = state.model.classes;
  const known = classes.find((name) => isSame(name, text));
  if (known !== undefined) return known;
  const areNumbers = classes.length > 0 && classes.every((name) => typeof name === "number");
  return areNumbers && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}
