// Requests to the server of this page: every path stands here.

/** A label or an id of the user's data, in its own kind.
 * @typedef {string | number | boolean} Label */
/** The error levels at which a label is in the set: the number of hundredths up to which it is, or a digit for each.
 * @typedef {number | string} Level */
/** What kind of points a label is known of: drawn at random, or picked. @typedef {"random" | "picked"} Provenance */
/** The served model.
 * @typedef {{ name: string, version: string, hash: string, dimensions: number, classes: Label[], alphas: number[],
 *   calibration_points: number, method: string, by_class: "all" | "balanced" | "clusters" | "each",
 *   new_labels: boolean, guarantee: string, guaranteed: boolean, new_label_share: number | null, pictures: boolean,
 *   points: number, takes: "pictures" | "texts" | null }} Model */
/** The points of the page. `levels` has, for each point, numbers of labels and their levels in turn. `predictions` are
 * numbers of labels, `random` and the index of every other array are places.
 * @typedef {{ origin: string, classes: Label[], names: Label[], named: boolean, labels: Label[] | null,
 *   levels: (number | Level)[][], predictions: number[], probabilities: number[], p_of_label: (number | null)[] | null,
 *   nearest: number[], novelty: number[], used: boolean[], random: number[] }} PointsAnswer */
/** A reference point near a query.
 * @typedef {{ id?: Label, row?: number, rank: number, distance: number }} Example */
/** One label of an explanation.
 * @typedef {{ label: Label, in_set: boolean, p_value: number, rank_p_value?: number, contrast_p_value?: number,
 *   probability: number, level: Level, examples: Example[] }} LabelReason */
/** The explanation of one set.
 * @typedef {{ prediction: Label, probability: number, calibration_points: number, nearest: number, novelty: number,
 *   new_label_level?: Level, labels: LabelReason[] }} Explanation */
/** The label of a point of the page that is known. @typedef {{ point: number, label: Label,
 *   provenance: Provenance }} Known */
/** The sets at one error level.
 * @typedef {{ alpha: number, coverage: number, low: number, high: number, size: number,
 *   empty: number }} LevelCoverage */
/** The coverage of a class.
 * @typedef {{ class: Label, points: number, covered: number, low: number, high: number }} ClassCoverage */
/** The coverage of the points of the page.
 * @typedef {{ alpha: number, points: number, left_out: number, calibration_points: number, guarantee: string,
 *   curve: LevelCoverage[], classes: ClassCoverage[], sizes: number[] }} Coverage */
/** The change of one stream of data.
 * @typedef {{ what: "inputs" | "labels", now: number, alarm?: { point: number, time: string } }} Watched */
/** The labels of the journal.
 * @typedef {{ random: number, picked: number, failure: string | null,
 *   series: { points: number, coverage: number, low: number, high: number }[],
 *   change: { points: number, false_alarm: number, bound: number, watched: Watched[], failure?: string } }} Monitor */

export const PATHS = {
  // Only the page needs these; they are no public API.
  model: "/page-api/model",
  points: "/page-api/points",
  explain: "/page-api/explain",
  labels: "/page-api/labels",
  /** @param {number} alpha */
  coverage: (alpha) => `/page-api/coverage?alpha=${alpha}`,
  /** @param {string} id */
  picture: (id) => `/page-api/pictures/${id.split("/").map(encodeURIComponent).join("/")}`,
  // The public API.
  embed: "/v1/embed",
  publicLabels: "/v1/labels",
  /** @param {number} alpha */
  monitor: (alpha) => `/v1/monitor?alpha=${alpha}`,
  openapi: "/openapi.json",
};

const STORED = "dance-key";

/** The person closed the dialog that asks for a key. */
export class KeyMissing extends Error {
  constructor() {
    super("This server answers only requests with a key.");
  }
}

/** Sends a request with the key of this tab, and asks for a key where the server wants one.
 * @param {string} path @param {RequestInit} [options] */
export async function request(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem(STORED);
    const headers = new Headers(options.headers);
    if (key) headers.set("Authorization", `Bearer ${key}`);
    const response = await fetch(path, { ...options, headers });
    if (response.status !== 401) return response;
    await enterKey(key !== null);
  }
}

/** @type {Promise<void> | null} */
let entering = null;

/** Asks for a key, in one dialog for all requests. Escape closes it and stores nothing.
 * @param {boolean} isWrong @returns {Promise<void>} */
function enterKey(isWrong) {
  entering ??= new Promise((done, refuse) => {
    const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("key"));
    const text = /** @type {HTMLInputElement} */ (document.getElementById("key-text"));
    const wrong = /** @type {HTMLElement} */ (document.getElementById("key-wrong"));
    wrong.textContent = isWrong ? "The server does not know this key." : "";
    text.value = "";
    dialog.returnValue = "";
    const closed = () => {
      entering = null;
      if (dialog.returnValue !== "ok") return refuse(new KeyMissing());
      sessionStorage.setItem(STORED, text.value);
      return done();
    };
    dialog.addEventListener("close", closed, { once: true });
    dialog.showModal();
  });
  return entering;
}

/** Returns the JSON of a path. Throws the problem that the server reports.
 * @param {string} path @returns {Promise<any>} */
export async function get(path) {
  return json(await request(path));
}

/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export function post(path, body) {
  return send(path, JSON.stringify(body), "application/json");
}

/** Sends a picture or a text as the body. @param {string} path @param {BodyInit} body @param {string} type
 * @returns {Promise<any>} */
export async function send(path, body, type) {
  return json(await request(path, { method: "POST", headers: { "Content-Type": type }, body }));
}

/** @param {Response} response @returns {Promise<any>} */
async function json(response) {
  const value = await response.json().catch(() => ({}));
  if (response.ok) return value;
  throw new Error(value.detail ?? `The server answered ${response.status}.`);
}
