// Promise: what was asked against what came out, overall and by class; what is guaranteed and what is not; the monitor.

import { get } from "./api.js";
import { chart, h, number, percent, plural } from "./dom.js";
import { alpha, state } from "./sets.js";

const { Charts } = globalThis;
let view = null;

export async function open(main) {
  view = { main, charts: null };
  await refresh();
}

export function close() { view = null; }

export function update() {
  clearTimeout(view.later);
  view.later = setTimeout(refresh, 60);
}

async function refresh() {
  const here = view;
  const [promise, monitor] = await Promise.all([get(`/v1/promise?alpha=${alpha()}`), get(`/v1/monitor?alpha=${alpha()}`)]);
  if (view !== here) return;
  const focus = document.activeElement?.id;
  here.main.replaceChildren(...(promise.curve.length ? judged(promise) : unjudged()), h("div", { class: "pair" }, words(promise), monitored(monitor, promise)));
  if (focus) document.getElementById(focus)?.focus();
}

function judged(promise) {
  const { curve, classes, sizes, points } = promise;
  const now = curve.find((row) => Math.abs(row.alpha - promise.alpha) < 1e-9) ?? curve[0];
  const asked = percent(1 - now.alpha);
  const fine = now.coverage >= now.low;
  const out = classes.filter((one) => one.covered / one.points < one.low);
  const one = sizes[1] ?? 0;
  return [
    h("header", { class: fine ? "verdict" : "verdict bad" },
      h("h1", {}, fine ? "The promise holds" : "Fewer sets hold the true label than promised"),
      h("p", {}, `Asked for ${asked}, got `, h("strong", {}, percent(now.coverage, 1)), ` on ${plural(points, "point")} the model never saw; by chance it lies between ${percent(now.low, 1)} and ${percent(now.high, 1)}. `,
        `A set has ${now.size.toFixed(2)} labels on average.`, promise.left_out ? ` ${plural(promise.left_out, "point")} that the model has seen are left out.` : "")),
    h("div", { class: "pair" },
      chart(`${percent(now.coverage, 1)} of sets hold the true label where ${asked} was asked`, (width) => Charts.coverage(curve, now.alpha, width), "Grey: where coverage lies 95 times in 100 if the promise holds. Dashed: exactly what was asked."),
      chart(`It costs ${now.size.toFixed(2)} labels per set`, (width) => Charts.ofLevel(curve, now.alpha, "size", "labels per set", width, (value) => value.toFixed(2)), "More certainty costs more labels.")),
    h("div", { class: "pair" },
      chart(`${percent(one / points, 0)} of sets are a single label, ${percent(now.empty, 1)} are empty`, (width) => Charts.sizes(sizes, width), "An empty set says that no label conforms: hand such a point to a person, or ask for more certainty."),
      chart(`${percent(now.empty, 1)} of sets are empty`, (width) => Charts.ofLevel(curve, now.alpha, "empty", "empty sets", width, (value) => percent(value, 1)), "Sets become empty when more mistakes are allowed than the classifier makes.")),
    chart(out.length ? `${plural(out.length, "class is", "classes are")} covered less than chance explains` : `No class is covered less than chance explains`,
      (width) => Charts.classes(classes, now.alpha, width), "Dot: share of the class's points whose set holds it. Bar: where chance puts it if the class were covered like all together. The promise is about all points together, not about each class."),
  ];
}

function unjudged() {
  return [h("header", { class: "verdict" }, h("h1", {}, "Nothing to judge the promise by"), h("p", {}, "The points of this server have no labels, or the model has seen all of them. The audit below fills as labels become known."))];
}

function words(promise) {
  const share = state.model.unseen_share;
  return h("section", { class: "card" },
    h("h2", {}, "What is guaranteed"),
    h("p", {}, `If new points come from the same source as the ${number(promise.calibration_points)} calibration points, a set holds the true label with probability at least ${percent(1 - promise.alpha)}, whatever the classifier and the embeddings are.`),
    h("p", { class: "soft" }, `What this model knows of itself: ${promise.guarantee}.`),
    h("h2", {}, "What is not"),
    h("ul", {},
      h("li", {}, "Each class or each point by itself: it is an average over all points."),
      h("li", {}, "Points from elsewhere: another camera, another year, other shares of classes."),
      h("li", {}, "Labels the model has never seen: no set can hold them.", share > 0 ? ` About ${percent(share, 1)} of new points are likely to carry one.` : ""),
      h("li", {}, "Points that were picked because they looked odd: only points that come by chance are like new ones.")));
}

function monitored(monitor, promise) {
  const { series, chance, picked } = monitor;
  const about = h("p", { class: "soft" }, `${plural(chance, "label")} of points that came by chance, ${number(picked)} of points that were picked. Only the former say something about new points.`);
  const failure = monitor.failure && h("p", { class: "wrong", role: "alert" }, `Labels cannot be written: ${monitor.failure}`);
  if (!series.length) {
    return h("section", { class: "card" }, h("h2", {}, "Over time"), failure, changed(monitor.change), h("p", {}, "No audited label yet. Under ", h("a", { href: "#review" }, "Review"), " a random audit fills this chart, and so does ", h("code", {}, "POST /v1/labels"), "."), picked > 0 && about);
  }
  const last = series[series.length - 1];
  const drawn = chart(`${percent(last.coverage, 1)} of ${plural(last.points, "audited point")} were covered`, (width) => Charts.monitor(series, promise.alpha, width), "As labels became known. Grey: where it lies 95 times in 100 at that many points.");
  return h("div", {}, h("h2", { class: "hidden" }, "Over time"), failure, drawn, changed(monitor.change), about);
}

// Whether the monitor has raised an alarm. Its capital is what a bet on a change has made of 1.
function changed({ points, false_alarm, bound, watched, failure }) {
  if (failure) return h("p", { class: "soft" }, `Changes are not watched: ${failure}`);
  if (!points) return null;
  const what = { inputs: "the points that come", labels: "the labels that points have" };
  const alarms = watched.filter((one) => one.alarm);
  const risk = `While nothing changes, an alarm comes with probability ${percent(false_alarm)} at most, however long this runs.`;
  const capitals = watched.map((one) => `${one.what} ${one.now < 100 ? one.now.toFixed(2) : number(Math.round(one.now))}`).join(", ");
  const soft = h("p", { class: "soft" }, `${risk} A bet on a change that began with 1 stands at: ${capitals}; ${number(Math.round(bound))} is an alarm.`);
  const told = alarms.length
    ? alarms.map((one) => h("p", { class: "wrong", role: "alert" }, `Alarm: ${what[one.what]} are no longer what they were at the calibration (point ${number(one.alarm.point + 1)}, ${one.alarm.time}). Do not rely on the promise; recalibrate with recent points.`))
    : [h("p", {}, `No alarm over ${plural(points, "label")}: nothing says that ${watched.map((one) => what[one.what]).join(" or ")} have changed.`)];
  return h("div", { class: "change" }, ...told, soft);
}
