// Review: queues of points for a person who knows the labels. A decision goes to the journal with the provenance of the point: the
// points of the audit were drawn at random, and those of the other queues are picked.

import { get, post } from "./api.js";
import { announce, h, number, plural } from "./dom.js";
import { setOf, state } from "./sets.js";
import { explain, face } from "./point.js";

const QUEUES = {
  audit: { title: "Random audit", why: "These points were drawn at random, so they are like new points: their labels feed the monitor and may calibrate a model. Decide all of them.", provenance: "random" },
  largest: { title: "Largest sets", why: "The model is least certain of these points.", provenance: "picked" },
  doubtful: { title: "Suspected label errors", why: "The label in the file conforms worst for these points.", provenance: "picked" },
  novel: { title: "Novel points", why: "These points are the least like the calibration points, whatever their label.", provenance: "picked" },
};
let view = null;

export async function open(main) {
  const { points } = state;
  view = { queue: view?.queue ?? "audit", skipped: new Set() };
  await fetchKnown();
  const tabs = Object.entries(QUEUES).filter(([name]) => name !== "doubtful" || points.p_of_label).map(([name, queue]) =>
    h("button", { type: "button", role: "tab", id: `queue-${name}`, "aria-controls": "work", onclick: () => choose(name) }, queue.title));
  view.tabs = tabs;
  view.work = h("section", { class: "work", id: "work", role: "tabpanel", "aria-label": "Point under review" });
  main.append(h("h1", { class: "quiet" }, "Points for review"), h("div", { class: "tabs", role: "tablist", "aria-label": "Queues" }, tabs), view.work);
  document.addEventListener("keydown", keys);
  await choose(view.queue);
}

export function close() {
  document.removeEventListener("keydown", keys);
}

export function update() {
  if (view.queue === "largest") next();
  else view.detail?.update?.();
}

async function fetchKnown() {
  const known = await get("/page-api/labels");
  state.known = new Map(known.map((one) => [state.points.names[one.point], one]));
}

function order(queue) {
  const { points } = state;
  if (queue === "audit") return points.audit;
  const rest = [...Array(points.count).keys()].filter((place) => !points.audited.has(place));
  const value = { largest: (place) => -setOf(place).length, doubtful: (place) => points.p_of_label[place] ?? -1, novel: (place) => points.novelty[place] }[queue];
  return rest.sort((a, b) => value(a) - value(b) || (queue === "novel" && points.nearest[b] - points.nearest[a]) || a - b);
}

function choose(queue) {
  view.queue = queue;
  for (const tab of view.tabs) {
    const here = tab.id === `queue-${queue}`;
    tab.setAttribute("aria-selected", String(here));
    tab.tabIndex = here ? 0 : -1;
  }
  return next();
}

function next() {
  const { points } = state;
  const all = order(view.queue);
  const left = all.filter((place) => !state.known.has(points.names[place]) && !view.skipped.has(place));
  const queue = QUEUES[view.queue];
  const done = all.length - all.filter((place) => !state.known.has(points.names[place])).length;
  const progress = h("p", { class: "soft", id: "progress" }, queue.why, " ", h("strong", {}, `${number(done)} of ${number(all.length)} decided.`));
  if (!left.length) {
    view.place = null;
    view.work.replaceChildren(progress, h("p", { class: "card" }, "Nothing is left in this queue."));
    return;
  }
  const place = (view.place = left[0]);
  const given = points.labels?.[place];
  const set = setOf(place);
  const names = [...new Set([given, ...set.map((label) => points.classes[label])].filter((name) => name !== undefined))].slice(0, 9);
  view.options = names;
  const buttons = names.map((name, number) => h("button", { type: "button", class: name === given ? "option given" : "option", onclick: () => decide(name) },
    h("kbd", {}, String(number + 1)), h("span", {}, name), name === given && h("span", { class: "soft" }, " label in the file")));
  const other = h("input", { id: "other", list: "every-label", "aria-label": "Another label", placeholder: "another label…" });
  const form = h("form", { class: "other", onsubmit: (event) => { event.preventDefault(); if (other.value.trim()) decide(other.value.trim()); } },
    other, h("datalist", { id: "every-label" }, points.classes.map((name) => h("option", { value: name }))), h("button", {}, "Use it"));
  const skip = queue.provenance === "picked" && h("button", { type: "button", class: "quiet", onclick: skipIt }, h("kbd", {}, "S"), " skip");
  view.detail = h("section", { class: "detail card", "aria-label": "Explanation" });
  view.work.replaceChildren(progress,
    h("div", { class: "split" },
      h("div", { class: "card under", id: "under", "data-point": String(place) },
        h("div", { class: "shown" }, face(points.names[place], "large")),
        h("p", {}, h("strong", {}, "Which label is true?"), h("span", { class: "soft" }, ` The set at ${100 - state.hundredths} % holds ${plural(set.length, "label")}.`)),
        h("div", { class: "options" }, buttons), form, h("p", { class: "soft keys" }, h("kbd", {}, "Enter"), " confirms the label in the file, ", h("kbd", {}, "1"), "–", h("kbd", {}, "9"), " choose, ", h("kbd", {}, "/"), " types another. ", skip)),
      view.detail));
  return explain(view.detail, { point: place });
}

function skipIt() {
  if (QUEUES[view.queue].provenance !== "picked" || view.place === null) return;
  view.skipped.add(view.place);
  next();
}

async function decide(label) {
  if (view.busy || view.place === null) return;
  view.busy = true;
  const { provenance } = QUEUES[view.queue];
  const place = view.place;
  try {
    const body = { provenance, labels: [{ point: place, label }] };
    if (provenance === "picked") body.why = QUEUES[view.queue].title.toLowerCase();
    await post("/page-api/labels", body);
    state.known.set(state.points.names[place], { label, provenance });
    announce(`Saved: ${label}`);
    view.busy = false;
    await next();
  } catch (error) {
    view.busy = false;
    announce(`Not saved: ${error.message}`);
  }
}

function keys(event) {
  if (event.target.closest("input, select, textarea, dialog, a, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
  const digit = Number(event.key);
  if (digit >= 1 && digit <= 9 && view.options?.[digit - 1]) decide(view.options[digit - 1]);
  else if (event.key === "Enter" && event.target.closest("button") === null && state.points.labels) decide(state.points.labels[view.place]);
  else if (event.key.toLowerCase() === "s") skipIt();
  else if (event.key === "/") document.getElementById("other")?.focus();
  else return;
  event.preventDefault();
}
