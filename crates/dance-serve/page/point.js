// One point: the best answer and its probability, the set at the chosen level, and the reasons for each label.

import { PATHS, post } from "./api.js";
import { breakable, h } from "./dom.js";
import { decimal, number, percent, plural, probability, significant } from "./format.js";
import { picture, whenNear } from "./pictures.js";
import { alpha, holds, isNovel, isSame, smallestAlpha, state, target } from "./sets.js";

/** @typedef {import("./api.js").Explanation} Explanation */
/** @typedef {import("./api.js").LabelReason} LabelReason */
/** The labels that are shown before a person asks for more. */
const SHOWN = 8;

/** Returns the picture of a point, or its text or id where there are no pictures.
 * @param {unknown} given @param {"small" | "medium" | "large"} size */
export function face(given, size) {
  const name = String(given);
  if (!state.model.pictures) {
    return h("span", { class: `face text ${size}` }, state.points?.named === false ? `row ${name}` : name);
  }
  const image = h("img", { alt: name, decoding: "async" });
  const box = h("span", { class: `face ${size}` }, image);
  whenNear(box, async () => {
    const address = await picture(name);
    if (address) image.src = address;
    else box.replaceChildren(h("span", { class: "face text" }, name));
  });
  return box;
}

/** Returns a label in a set. The true label is marked. @param {unknown} name @param {boolean} [isTrue] */
export const chip = (name, isTrue) =>
  h(
    "span",
    { class: isTrue ? "chip true" : "chip", "data-label": String(name) },
    isTrue && h("span", { "aria-hidden": "true" }, "✓ "),
    breakable(name),
    isTrue && h("span", { class: "hidden" }, " (true label)"),
  );

/** The signs of the page and what they mean. @param {boolean} withTruth */
export const legend = (withTruth) =>
  h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    h(
      "li",
      {},
      h("strong", {}, "Name"),
      " ",
      h("span", { class: "sure" }, percent(0.9)),
      " best answer and its probability",
    ),
    h("li", {}, h("span", { class: "chip" }, "name"), " label in the set"),
    withTruth && h("li", {}, h("span", { class: "chip true" }, "✓ name"), " true label, in the set"),
    withTruth && h("li", {}, h("span", { class: "chip missed" }, "✗ name"), " true label, not in the set"),
  );

/** A place where a point is explained.
 * @typedef {{ box: HTMLElement, update: () => void }} Shown */
/** What the label of a point in the file means: the truth, or a label that is under review.
 * @typedef {"true" | "given"} Meaning */

/** The explanation that is wanted in each box: answers to earlier questions are thrown away.
 * @type {WeakMap<HTMLElement, object>} */
const wanted = new WeakMap();
/** @type {WeakMap<HTMLElement, () => void>} */
const redraws = new WeakMap();

/** Draws the explanation in a box again, at the present level. @param {HTMLElement | null | undefined} box */
export const update = (box) => box && redraws.get(box)?.();

/** Explains a point into `box`: `{point: place}` or `{embedding: numbers}`.
 * @param {HTMLElement} box @param {{ point: number } | { embedding: number[] }} which @param {Meaning} [meaning] */
export async function explain(box, which, meaning = "true") {
  wanted.set(box, which);
  box.setAttribute("aria-busy", "true");
  try {
    /** @type {Explanation} */
    const found = await post(PATHS.explain, { ...which, alpha: alpha() });
    if (wanted.get(box) !== which) return; // another point was chosen meanwhile
    const shown = { all: false };
    const draw = () => drawInto(box, found, "point" in which ? which.point : null, meaning, shown, draw);
    redraws.set(box, draw);
    draw();
  } catch (error) {
    if (wanted.get(box) !== which) return;
    redraws.delete(box);
    box.replaceChildren(h("p", { class: "wrong", role: "alert" }, /** @type {Error} */ (error).message));
  }
  box.removeAttribute("aria-busy");
}

/** @param {HTMLElement} box @param {Explanation} found @param {number | null} place @param {Meaning} meaning
 * @param {{ all: boolean }} shown @param {() => void} again */
function drawInto(box, found, place, meaning, shown, again) {
  const open = new Set([...box.querySelectorAll("details[open]")].map((one) => one.getAttribute("data-label")));
  const byProbability = (/** @type {LabelReason} */ a, /** @type {LabelReason} */ b) => b.probability - a.probability;
  const inSet = found.labels.filter((one) => holds(one.level)).sort(byProbability);
  const outside = found.labels.filter((one) => !holds(one.level)).sort(byProbability);
  const best = found.labels.find((one) => isSame(one.label, found.prediction)) ?? [...inSet, ...outside][0];
  const points = state.points;
  const given = place === null ? null : (points?.labels?.[place] ?? null);
  const rows = (/** @type {LabelReason[]} */ labels) =>
    h(
      "ol",
      { class: "labels" },
      labels.map((one) => reason(one, given, meaning, open.has(String(one.label)))),
    );
  const room = Math.max(0, SHOWN - inSet.length);
  const left = shown.all ? outside : outside.slice(0, room);
  const more = outside.length - left.length;
  const name = place === null ? null : (points?.names[place] ?? null);
  const showAll = () => {
    shown.all = true;
    again();
  };
  box.replaceChildren(
    heading(name, meaning),
    answer(found, best, inSet, given, meaning),
    usedNote(place),
    nearest(best),
    h("h3", {}, `In the set (${number(inSet.length)})`),
    inSet.length ? rows(inSet) : h("p", { class: "soft" }, "No label."),
    h("h3", {}, `Left out (${number(outside.length)})`),
    rows(left),
    more > 0 ? h("button", { type: "button", onclick: showAll }, `Show ${plural(more, "more label")}`) : "",
  );
}

/** The picture or text of a point. Under review, it stands beside the explanation already.
 * @param {import("./api.js").Label | null} name @param {Meaning} meaning */
function heading(name, meaning) {
  if (meaning === "given") return h("h2", {}, "The answer of the model");
  return name === null ? h("h2", {}, "Your point") : h("h2", { class: "shown" }, face(name, "large"));
}

/** What it is, how sure that is, and what to do now.
 * @param {Explanation} found @param {LabelReason} best @param {LabelReason[]} inSet
 * @param {import("./api.js").Label | null} given @param {Meaning} meaning */
function answer(found, best, inSet, given, meaning) {
  const hasNew = found.new_label_level !== undefined && holds(found.new_label_level);
  const isKnown = found.labels.some((one) => isSame(one.label, given));
  const covered = isKnown ? inSet.some((one) => isSame(one.label, given)) : hasNew;
  const isTrue = (/** @type {LabelReason} */ one) => meaning === "true" && given !== null && isSame(one.label, given);
  const chips = inSet.slice(0, 12).map((one) => chip(one.label, isTrue(one)));
  if (inSet.length > 12) chips.push(h("span", { class: "chip more" }, `+${number(inSet.length - 12)}`));
  if (hasNew) chips.push(chip("a new label", meaning === "true" && given !== null && !isKnown));
  if (!chips.length) chips.push(h("span", { class: "chip empty" }, "empty set"));
  const words = { true: "True label", given: "Label in the file" }[meaning];
  const verdict = covered ? "in the set" : "not in the set";
  // A label under review is neither right nor wrong yet.
  const [look, sign] = meaning === "given" ? ["", ""] : covered ? ["given", "✓ "] : ["given missed", "✗ "];
  return h(
    "dl",
    { class: "answer" },
    h("dt", {}, "Best answer"),
    h("dd", { class: "best" }, h("strong", {}, breakable(best.label)), " ", sure(best.probability)),
    h("dt", {}, `Set at ${percent(target())}`),
    h("dd", { class: "chips" }, chips),
    given !== null && [h("dt", {}, words), h("dd", { class: look }, sign, breakable(given), `, ${verdict}`)],
    // Under review, a person is deciding already.
    meaning === "true" && [h("dt", {}, "What now"), h("dd", { class: "now" }, advice(found, inSet.length, hasNew))],
  );
}

/** Returns a probability with its word. @param {number} value */
const sure = (value) => h("span", { class: "sure" }, probability(value), h("span", {}, " probable"));

/** @param {Explanation} found @param {number} size @param {boolean} hasNew */
function advice(found, size, hasNew) {
  const coverage = percent(target());
  if (isNovel(found.novelty)) {
    return h(
      "span",
      { class: "wrong" },
      "Let a person decide. The point is novel: at most one in a hundred points like the calibration points is as far ",
      "from them. The promise may not hold for it.",
    );
  }
  if (alpha() < smallestAlpha(found.calibration_points) && size === found.labels.length) {
    const least = Math.floor(100 * (1 - smallestAlpha(found.calibration_points))) / 100;
    return h(
      "span",
      { class: "wrong" },
      `Calibrate with more points: ${plural(found.calibration_points, "calibration point")} cannot rule out any label `,
      `at ${coverage}. They can at ${percent(least)} and below.`,
    );
  }
  if (size === 0 && hasNew) return "No label of the model conforms: it may be a class that the model has never seen.";
  if (size === 0) return "No label conforms at this level. Let a person decide, or raise the coverage.";
  if (hasNew) return "One of these labels, or one that the model has never seen: let a person decide.";
  if (size === 1) return "One label remains. Take it, or raise the coverage to be more careful.";
  if (size <= 4) return `${number(size)} labels remain. Let a person choose between them.`;
  return `${number(size)} labels remain. Let a person decide; the model is unsure here.`;
}

/** @param {number | null} place */
function usedNote(place) {
  if (place === null || !state.points?.used[place]) return "";
  return h(
    "p",
    { class: "soft" },
    "The point took part in the fit or the calibration. Its set shows nothing about new points.",
  );
}

/** The nearest points with the best label: what a person can compare with their own eyes.
 * @param {LabelReason} best */
function nearest(best) {
  if (!best.examples.length) return "";
  const most = state.model.pictures ? 5 : 3;
  return h(
    "div",
    { class: "nearest" },
    h("h3", {}, "Nearest points with the label ", breakable(best.label)),
    h(
      "ul",
      { class: "examples" },
      best.examples.slice(0, most).map((one) => example(one, false)),
    ),
  );
}

/** @param {import("./api.js").Example} one @param {boolean} withDistance */
function example(one, withDistance) {
  const name = one.id === undefined ? `row ${one.row ?? "?"}` : String(one.id);
  return h(
    "li",
    { class: "example" },
    one.id === undefined ? h("span", { class: "face text" }, name) : face(name, "medium"),
    withDistance &&
      h("span", { class: "soft" }, `neighbor no. ${number(one.rank)}, distance ${significant(one.distance, 3)}`),
  );
}

/** One label with its probability; the p-value stands behind "why".
 * @param {LabelReason} one @param {import("./api.js").Label | null} given @param {Meaning} meaning
 * @param {boolean} open */
function reason(one, given, meaning, open) {
  const inSet = holds(one.level);
  const bar = h(
    "span",
    { class: "bar", "aria-hidden": "true" },
    h("span", { class: "fill", style: { width: `${100 * one.probability}%` } }),
  );
  const mark =
    given !== null &&
    isSame(one.label, given) &&
    h("span", { class: "truth" }, { true: " true label", given: " label in the file" }[meaning]);
  return h(
    "li",
    { class: inSet ? "in" : "out", "data-label": String(one.label) },
    h(
      "details",
      { open, "data-label": String(one.label) },
      h(
        "summary",
        {},
        h("span", { class: "name" }, breakable(one.label), mark),
        bar,
        h("span", { class: "sure" }, probability(one.probability)),
        h("span", { class: "why" }, "why"),
      ),
      h("p", { class: "soft" }, ...pValue(one, inSet)),
      one.examples.length
        ? h(
            "ul",
            { class: "examples" },
            one.examples.map((near) => example(near, true)),
          )
        : h("p", { class: "soft" }, "No point with this label is among the nearest 5,000."),
    ),
  );
}

/** Returns the p-value of a label in words. @param {LabelReason} one @param {boolean} inSet */
function pValue(one, inSet) {
  const p = one.p_value;
  const scores =
    one.rank_p_value === undefined
      ? ""
      : ` Its two parts: rank ${decimal(one.rank_p_value, 3)}, ` +
        `contrastive score ${decimal(one.contrast_p_value ?? 0, 3)}.`;
  return [
    h("strong", { class: "p-value" }, `p-value ${decimal(p, 3)}`),
    ` (not a probability): ${percent(p)} of the calibration points fit their label no better than this point would `,
    `fit this one. It ${inSet ? "exceeds" : "does not exceed"} alpha ${decimal(alpha(), 2)}, `,
    `so the label is ${inSet ? "in the set" : "left out"}.${scores}`,
  ];
}
