// Coverage: measured against the target, overall and by class; the guarantee and its limits; the change monitor.

import { get } from "./api.js";
import { chart, h, number, percent, plural } from "./dom.js";
import { alpha, state } from "./sets.js";

const { Charts } = globalThis;
let view = null;

export async function open(main) {
  view = { main };
  await refresh();
}

export function close() {
  clearTimeout(view.later);
  view = null;
}

export function update() {
  clearTimeout(view.later);
  view.later = setTimeout(refresh, 60);
}

async function refresh() {
  const here = view;
  const [coverage, monitor] = await Promise.all([get(`/page-api/coverage?alpha=${alpha()}`), get(`/v1/monitor?alpha=${alpha()}`)]);
  if (view !== here) return;
  const focus = document.activeElement?.id;
  here.main.replaceChildren(...(coverage.curve.length ? measured(coverage) : unmeasured()), h("div", { class: "pair" }, guarantee(coverage), monitored(monitor, coverage)));
  if (focus) document.getElementById(focus)?.focus();
}

function measured(coverage) {
  const { curve, classes, sizes, points } = coverage;
  const now = curve.find((row) => Math.abs(row.alpha - coverage.alpha) < 1e-9) ?? curve[0];
  const target = percent(1 - now.alpha);
  const below = now.coverage < now.low;
  const verdict = below ? "Coverage is below its target" : now.coverage > now.high ? "Coverage is above its target" : "Coverage agrees with its target";
  const low = classes.filter((one) => one.covered / one.points < one.low);
  const single = sizes[1] ?? 0;
  return [
    h("header", { class: below ? "verdict bad" : "verdict" },
      h("h1", {}, verdict),
      h("p", {}, `The target is ${target}. Coverage is `, h("strong", {}, percent(now.coverage, 1)), ` on ${plural(points, "point")} that took no part in the fit or the calibration; by chance it lies between ${percent(now.low, 1)} and ${percent(now.high, 1)}. `,
        `A set has ${now.size.toFixed(2)} labels on average.`, coverage.left_out ? ` ${plural(coverage.left_out, "point")} that took part ${coverage.left_out === 1 ? "is" : "are"} left out.` : "")),
    h("div", { class: "pair" },
      chart(`${percent(now.coverage, 1)} of sets hold the true label; the target is ${target}`, (width) => Charts.coverage(curve, now.alpha, width), "Grey: the band in which coverage lies 95 times in 100 if the guarantee holds. Dashed: the target."),
      chart(`A set has ${now.size.toFixed(2)} labels on average`, (width) => Charts.ofLevel(curve, now.alpha, "size", "labels per set", width, (value) => value.toFixed(2)), "Sets grow with the target.")),
    h("div", { class: "pair" },
      chart(`${percent(single / points, 0)} of sets have one label, ${percent(now.empty, 1)} are empty`, (width) => Charts.sizes(sizes, width), "In an empty set no label conforms: let a person decide, or raise the target."),
      chart(`${percent(now.empty, 1)} of sets are empty`, (width) => Charts.ofLevel(curve, now.alpha, "empty", "empty sets", width, (value) => percent(value, 1)), "Sets become empty when the error level is larger than the share of errors of the classifier.")),
    chart(low.length ? `${plural(low.length, "class is", "classes are")} covered less than chance explains` : "No class is covered less than chance explains",
      (width) => Charts.classes(classes, now.alpha, width), `Dot: share of the class's points whose set holds it. Bar: the band in which it lies 95 times in 100 if the class is covered like all points. ${FOR_WHOM[state.model.by_class]}`),
  ];
}

const FOR_WHOM = {
  all: "The guarantee holds for all points together, not for each class.",
  balanced: "The guarantee holds for all points together, not for each class.",
  clusters: "The guarantee holds for each cluster of classes.",
  each: "The guarantee holds for each class.",
};

function unmeasured() {
  return [h("header", { class: "verdict" }, h("h1", {}, "Coverage cannot be measured here"), h("p", {}, "The points of this server have no labels, or all of them took part in the fit or the calibration. The audit below grows as labels become known."))];
}

function guarantee(coverage) {
  const { guaranteed, by_class, new_labels, new_label_share: share } = state.model;
  const news = share > 0 ? ` About ${percent(share, 1)} of new points are likely to carry one.` : "";
  const statement = guaranteed
    ? `A set holds the true label with probability at least ${percent(1 - coverage.alpha)}, if new points come from the same source as the ${number(coverage.calibration_points)} calibration points. This holds for any classifier and any embeddings.`
    : "The sets of this model have no guarantee.";
  return h("section", { class: "card" },
    h("h2", {}, "Guarantee"),
    h("p", {}, statement),
    h("p", { class: "soft" }, `By method and calibration: ${coverage.guarantee}.`),
    h("h2", {}, "Not guaranteed"),
    h("ul", {},
      by_class !== "each" && h("li", {}, by_class === "clusters" ? "Coverage of each class: the guarantee is an average over each cluster of classes." : "Coverage of each class: the guarantee is an average over all points."),
      h("li", {}, "Coverage of points from another source: another camera, another year, other proportions of classes."),
      h("li", {}, new_labels ? "The name of a new label: a set can only hold \"a new label\"." : "Coverage of labels that no point of the model has: no set can hold them.", news),
      h("li", {}, "Coverage of picked points: only points that were drawn at random are like new ones.")));
}

function monitored(monitor, coverage) {
  const { series, random, picked } = monitor;
  const about = h("p", { class: "soft" }, `The journal has ${plural(random, "label")} of random points and ${number(picked)} of picked points. Only random points are like new ones.`);
  const failure = monitor.failure && h("p", { class: "wrong", role: "alert" }, `Labels cannot be written: ${monitor.failure}`);
  if (!series.length) {
    return h("section", { class: "card" }, h("h2", {}, "Over time"), failure, changed(monitor.change), h("p", {}, "There are no labels of random points yet. They come from the random audit under ", h("a", { href: "#review" }, "Review"), " or from ", h("code", {}, "POST /v1/labels"), "."), picked > 0 && about);
  }
  const last = series[series.length - 1];
  const drawn = chart(`${percent(last.coverage, 1)} of ${plural(last.points, "audited point")} were covered`, (width) => Charts.monitor(series, coverage.alpha, width), "In the order of the labels. Grey: the band in which coverage of so many points lies 95 times in 100.");
  return h("div", {}, h("h2", { class: "hidden" }, "Over time"), failure, drawn, changed(monitor.change), about);
}

// The state of the change monitor. The capital of a bet on a change begins with 1; at the bound it raises an alarm.
function changed({ points, false_alarm, bound, watched, failure }) {
  if (failure) return h("p", { class: "soft" }, `Changes are not monitored: ${failure}`);
  if (!points) return null;
  const what = { inputs: "the points", labels: "the labels of points" };
  const alarms = watched.filter((one) => one.alarm);
  const risk = `While nothing changes, the probability of an alarm is at most ${percent(false_alarm)}, however long the server runs.`;
  const capitals = watched.map((one) => `${one.what} ${one.now < 100 ? one.now.toFixed(2) : number(Math.round(one.now))}`).join(", ");
  const soft = h("p", { class: "soft" }, `${risk} Capital of the bets on a change, which began with 1: ${capitals}; an alarm comes at ${number(Math.round(bound))}.`);
  const news = alarms.length
    ? alarms.map((one) => h("p", { class: "wrong", role: "alert" }, `Alarm: ${what[one.what]} have changed since the calibration (point ${number(one.alarm.point + 1)}, ${one.alarm.time}). Do not rely on the guarantee; recalibrate with recent points.`))
    : [h("p", {}, `No alarm over ${plural(points, "label")}: there is no evidence that ${watched.map((one) => what[one.what]).join(" or ")} have changed.`)];
  return h("div", { class: "change" }, ...news, soft);
}
