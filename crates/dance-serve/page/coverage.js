// Coverage: what is promised and what was measured, side by side; by class; the limits; the change monitor.

import { get, PATHS } from "./api.js";
import { chart, h } from "./dom.js";
import { decimal, number, percent, plural } from "./format.js";
import { alpha, state } from "./sets.js";

/** @typedef {import("./api.js").Coverage} Coverage */
/** @typedef {import("./api.js").Monitor} Monitor */

const { Charts } = globalThis;
/** The view, or null while it is closed.
 * @type {null | { main: HTMLElement, later?: ReturnType<typeof setTimeout> }} */
let view = null;

/** @param {HTMLElement} main */
export async function open(main) {
  view = { main };
  await refresh();
}

export function close() {
  clearTimeout(view?.later);
  view = null;
}

export function update() {
  if (!view) return;
  clearTimeout(view.later);
  view.later = setTimeout(refresh, 60);
}

async function refresh() {
  const here = view;
  /** @type {[Coverage, Monitor]} */
  const [coverage, monitor] = await Promise.all([get(PATHS.coverage(alpha())), get(PATHS.monitor(alpha()))]);
  if (!here || view !== here) return;
  const focus = document.activeElement?.id;
  const isMeasured = coverage.curve.length > 0;
  const now = coverage.curve.find((row) => Math.abs(row.alpha - coverage.alpha) < 1e-9) ?? coverage.curve[0];
  here.main.replaceChildren(
    h("h1", { class: "quiet" }, "Promised and measured coverage"),
    h("div", { class: "pair" }, promised(coverage), isMeasured ? measured(coverage, now) : unmeasured()),
    ...(isMeasured ? charts(coverage, now) : []),
    h("div", { class: "pair" }, limits(coverage), monitored(monitor, coverage)),
  );
  if (focus) document.getElementById(focus)?.focus();
}

const FOR_WHOM = {
  all: "on average over all new points. Single classes can be covered less.",
  balanced: "on average over all new points. Single classes can be covered less.",
  clusters: "on average over the new points of each cluster of classes. Single classes can be covered less.",
  each: "for the new points of each class.",
};

/** @param {Coverage} coverage */
function promised(coverage) {
  const { guaranteed, by_class: byClass } = state.model;
  const calibrated = plural(coverage.calibration_points, "calibration point");
  return h(
    "section",
    { class: "card statement promised" },
    h("h2", {}, "Promised"),
    guaranteed
      ? h(
          "p",
          { class: "figure" },
          h("strong", {}, `at least ${percent(1 - coverage.alpha)}`),
          " of sets hold the true label",
        )
      : h("p", { class: "figure" }, h("strong", {}, "nothing"), ` (the target is ${percent(1 - coverage.alpha)})`),
    guaranteed
      ? h(
          "p",
          {},
          `The promise holds ${FOR_WHOM[byClass]} New points must come from the same source as the ${calibrated}.`,
        )
      : h("p", {}, "The sets of this model have no guarantee."),
    h("p", { class: "soft" }, `Method and calibration: ${coverage.guarantee}.`),
  );
}

/** @param {Coverage} coverage @param {import("./api.js").LevelCoverage} now */
function measured(coverage, now) {
  const goal = state.model.guaranteed ? "promise" : "target";
  const [verdict, look] =
    now.coverage < now.low
      ? [
          `Less than the ${goal}, and chance does not explain it. Check that these points come from the same source ` +
            "as the calibration points, or recalibrate with recent points.",
          "bad",
        ]
      : now.coverage > now.high
        ? [`More than the ${goal}: sets are larger than they need to be. Recalibrating makes them smaller.`, "good"]
        : [`This agrees with the ${goal}: there is nothing to do.`, "good"];
  const band =
    now.high < 1
      ? `by chance between ${percent(now.low, 1)} and ${percent(now.high, 1)}`
      : `by chance at least ${percent(now.low, 1)}`;
  const out = coverage.left_out;
  return h(
    "section",
    { class: "card statement measured" },
    h("h2", {}, "Measured"),
    h("p", { class: "figure" }, h("strong", {}, percent(now.coverage, 1)), " of sets hold the true label"),
    h("p", { class: `verdict ${look}` }, verdict),
    h(
      "p",
      { class: "soft" },
      `On ${plural(coverage.points, "point")} that took no part in the fit or the calibration. `,
      `If the ${goal} holds, the measured share lies ${band}, 95 times in 100.`,
      out ? ` ${plural(out, "point")} that took part ${out === 1 ? "is" : "are"} left out.` : "",
    ),
  );
}

function unmeasured() {
  return h(
    "section",
    { class: "card statement measured" },
    h("h2", {}, "Measured"),
    h("p", { class: "figure" }, h("strong", {}, "nothing yet")),
    h("p", {}, "The points of this server have no labels, or all of them took part in the fit or the calibration."),
    h("p", { class: "soft" }, "The measurement below grows as labels of random points become known."),
  );
}

/** @param {Coverage} coverage @param {import("./api.js").LevelCoverage} now */
function charts(coverage, now) {
  const { curve, classes, sizes, points } = coverage;
  const target = percent(1 - now.alpha);
  const low = classes.filter((one) => one.covered / one.points < one.low);
  const single = sizes[1] ?? 0;
  const ofLevel =
    (
      /** @type {"size" | "empty"} */ value,
      /** @type {string} */ words,
      /** @type {(value: number) => string} */ show,
    ) =>
    /** @param {number} width */
    (width) =>
      Charts.ofLevel(curve, now.alpha, value, words, width, show);
  const two = (/** @type {number} */ value) => decimal(value, 2);
  const share = (/** @type {number} */ value) => percent(value, 1);
  return [
    h(
      "div",
      { class: "pair" },
      chart(
        `Measured: ${share(now.coverage)} of sets hold the true label; the target is ${target}`,
        (width) => Charts.coverage(curve, now.alpha, width),
        "Grey: the band in which coverage lies 95 times in 100 if the guarantee holds. Dashed: the target.",
        () => Charts.tables.coverage(curve),
      ),
      chart(
        `A set has ${two(now.size)} labels on average`,
        ofLevel("size", "labels per set", two),
        "Sets grow with the target.",
        () => Charts.tables.ofLevel(curve, "size", "labels per set", two),
      ),
    ),
    h(
      "div",
      { class: "pair" },
      chart(
        `${percent(single / points)} of sets have one label, ${share(now.empty)} are empty`,
        (width) => Charts.sizes(sizes, width),
        "In an empty set no label conforms: let a person decide, or raise the target.",
        () => Charts.tables.sizes(sizes),
      ),
      chart(
        `${share(now.empty)} of sets are empty`,
        ofLevel("empty", "empty sets", share),
        "Sets become empty when the error level is larger than the share of errors of the classifier.",
        () => Charts.tables.ofLevel(curve, "empty", "empty sets", share),
      ),
    ),
    chart(
      low.length
        ? `${plural(low.length, "class is", "classes are")} covered less than chance explains`
        : "No class is covered less than chance explains",
      (width) => Charts.classes(classes, now.alpha, width),
      "Dot: the measured share of the class's points whose set holds it. Bar: the band in which it lies 95 times in " +
        "100 if the class is covered like all points.",
      () => Charts.tables.classes(classes),
    ),
  ];
}

/** @param {Coverage} coverage */
function limits(coverage) {
  const { by_class: byClass, new_labels: newLabels, new_label_share: share } = state.model;
  const news = share ? ` About ${percent(share, 1)} of new points are likely to carry one.` : "";
  const averaged = byClass === "clusters" ? "each cluster of classes" : "all points";
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Not promised"),
    h(
      "ul",
      {},
      byClass !== "each" && h("li", {}, `Coverage of each class: the promise is an average over ${averaged}.`),
      h(
        "li",
        {},
        "Coverage of points from another source: another camera, another year, other proportions of classes.",
      ),
      h(
        "li",
        {},
        newLabels
          ? 'The name of a new label: a set can only hold "a new label".'
          : "Coverage of labels that no point of the model has: no set can hold them.",
        news,
      ),
      h("li", {}, "Coverage of picked points: only points that were drawn at random are like new ones."),
    ),
    h(
      "p",
      { class: "soft" },
      `Alpha is ${decimal(coverage.alpha, 2)}: the share of sets that may miss the true label.`,
    ),
  );
}

/** @param {Monitor} monitor @param {Coverage} coverage */
function monitored(monitor, coverage) {
  const { series, random, picked } = monitor;
  const about = h(
    "p",
    { class: "soft" },
    `The journal has ${plural(random, "label")} of random points and ${number(picked)} of picked points. `,
    "Only random points are like new ones.",
  );
  const failure =
    monitor.failure && h("p", { class: "wrong", role: "alert" }, `Labels cannot be written: ${monitor.failure}`);
  if (!series.length) {
    return h(
      "section",
      { class: "card" },
      h("h2", {}, "Measured over time"),
      failure,
      changed(monitor.change),
      h(
        "p",
        {},
        "There are no labels of random points yet. They come from the random points under ",
        h("a", { href: "#review" }, "Review"),
        " or from ",
        h("code", {}, `POST ${PATHS.publicLabels}`),
        ".",
      ),
      picked > 0 && about,
    );
  }
  const last = series[series.length - 1];
  const drawn = chart(
    `Measured over time: ${percent(last.coverage, 1)} of ${plural(last.points, "random point")} were covered`,
    (width) => Charts.monitor(series, coverage.alpha, width),
    "In the order of the labels. Grey: the band in which coverage of so many points lies 95 times in 100.",
    () => Charts.tables.monitor(series),
  );
  return h(
    "div",
    {},
    h("h2", { class: "hidden" }, "Measured over time"),
    failure,
    drawn,
    changed(monitor.change),
    about,
  );
}

const WATCHED = { inputs: "the points", labels: "the labels of points" };

/** The state of the change monitor: a score that begins with 1 and raises an alarm at its bound.
 * @param {Monitor["change"]} change */
function changed({ points, false_alarm: risk, bound, watched, failure }) {
  if (failure) return h("p", { class: "soft" }, `Changes are not monitored: ${failure}`);
  if (!points) return null;
  const scores = watched.map(({ what, now }) => `${WATCHED[what]} ${now < 100 ? decimal(now, 2) : number(now)}`);
  const soft = h(
    "p",
    { class: "soft" },
    `Change score of ${scores.join(", of ")}. It starts at 1 and raises an alarm at ${number(bound)}. `,
    `While nothing changes, an alarm has probability ${percent(risk)} at most, however long the server runs.`,
  );
  const alarms = watched.flatMap(({ what, alarm }) =>
    alarm
      ? h(
          "p",
          { class: "wrong", role: "alert" },
          `Alarm: ${WATCHED[what]} have changed since the calibration `,
          `(point ${number(alarm.point + 1)}, ${alarm.time}). `,
          "Do not rely on the promise; recalibrate with recent points.",
        )
      : [],
  );
  const streams = watched.map((one) => WATCHED[one.what]).join(" or ");
  const calm = `No alarm over ${plural(points, "label")}: there is no evidence that ${streams} have changed.`;
  return h("div", { class: "change" }, alarms.length ? alarms : h("p", {}, calm), soft);
}
