// Review: queues of points for a person who knows the labels. A decision goes to the journal with the provenance of the
// point: those of the first queue were drawn at random, and those of the other queues are picked.

import { get, PATHS, post } from "./api.js";
import { announce, breakable, byId, h } from "./dom.js";
import { number, percent, plural } from "./format.js";
import { hasShortcuts, roving, setInTabOrder, setShortcuts } from "./keyboard.js";
import { explain, face, update as updateDetail } from "./point.js";
import { asLabel, isSame, pagePoints, setOf, state, target } from "./sets.js";

/** @typedef {import("./api.js").Label} Label */
/** @typedef {"random" | "largest" | "doubtful" | "novel"} QueueName */

/** @type {Record<QueueName, { title: string, why: string, provenance: import("./api.js").Provenance }>} */
const QUEUES = {
  random: {
    title: "Random points",
    why:
      "These points were drawn at random, so they are like new points: their labels feed the monitor and may " +
      "calibrate a model. Decide all of them. The label in the file and the answer of the model are hidden, so that " +
      "they do not sway you.",
    provenance: "random",
  },
  largest: { title: "Largest sets", why: "The model is least certain of these points.", provenance: "picked" },
  doubtful: {
    title: "Suspected label errors",
    why: "The label in the file conforms worst for these points.",
    provenance: "picked",
  },
  novel: {
    title: "Novel points",
    why: "These points are the least like the calibration points, whatever their label.",
    provenance: "picked",
  },
};
/** The most labels to choose from, one for each digit. */
const MOST = 9;

/** The view.
 * @type {{ queue: QueueName, skipped: Set<number>, tabs: HTMLElement[], work: HTMLElement, place: number | null,
 *   options: Label[], detail: HTMLElement | null, isBusy: boolean }} */
const view = {
  queue: "random",
  skipped: new Set(),
  tabs: [],
  work: h("section"),
  place: null,
  options: [],
  detail: null,
  isBusy: false,
};

/** @param {HTMLElement} main */
export async function open(main) {
  const points = pagePoints();
  view.skipped = new Set();
  await fetchKnown();
  const names = /** @type {QueueName[]} */ (Object.keys(QUEUES));
  view.tabs = names
    .filter((name) => name !== "doubtful" || points.p_of_label)
    .map((name) =>
      h(
        "button",
        { type: "button", role: "tab", id: `queue-${name}`, "aria-controls": "work", onclick: () => choose(name) },
        QUEUES[name].title,
      ),
    );
  view.work = h("section", { class: "work", id: "work", role: "tabpanel" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Queues" }, view.tabs);
  roving(tabs, "[role=tab]", "horizontal", (tab) => tab.click());
  main.append(h("h1", { class: "quiet" }, "Points for review"), tabs, view.work);
  document.addEventListener("keydown", keys);
  await choose(view.queue);
}

export function close() {
  document.removeEventListener("keydown", keys);
}

export function update() {
  if (view.queue === "largest") next();
  else updateDetail(view.detail);
}

/** Fetches the labels of the points of the page that are known. */
export async function fetchKnown() {
  /** @type {import("./api.js").Known[]} */
  const known = await get(PATHS.labels);
  state.known = new Map(known.map((one) => [one.point, one]));
}

/** Returns the places of a queue in the order of the review. @param {QueueName} queue */
function order(queue) {
  const points = pagePoints();
  if (queue === "random") return points.random;
  const rest = [...Array(points.count).keys()].filter((place) => !points.isRandom.has(place));
  const value = {
    largest: (/** @type {number} */ place) => -setOf(place).length,
    doubtful: (/** @type {number} */ place) => points.p_of_label?.[place] ?? -1,
    novel: (/** @type {number} */ place) => points.novelty[place],
  }[queue];
  const byDistance = (/** @type {number} */ a, /** @type {number} */ b) =>
    queue === "novel" ? points.nearest[b] - points.nearest[a] : 0;
  return rest.sort((a, b) => value(a) - value(b) || byDistance(a, b) || a - b);
}

/** @param {QueueName} queue */
function choose(queue) {
  view.queue = queue;
  const chosen = view.tabs.find((tab) => tab.id === `queue-${queue}`);
  for (const tab of view.tabs) tab.setAttribute("aria-selected", String(tab === chosen));
  setInTabOrder(view.tabs, chosen);
  view.work.setAttribute("aria-labelledby", `queue-${queue}`);
  return next();
}

/** Returns the labels to choose from. For random points they stand in the order of their names: neither the file nor
 * the model suggests one. @param {number} place @param {Label | undefined} given */
function optionsOf(place, given) {
  const { classes } = pagePoints();
  const byName = (/** @type {Label} */ a, /** @type {Label} */ b) =>
    String(a).localeCompare(String(b), undefined, { numeric: true });
  const isRandom = view.queue === "random";
  if (isRandom && classes.length <= MOST) return [...classes].sort(byName);
  const set = setOf(place).flatMap((label) => classes[label] ?? []);
  const all = given === undefined ? set : [given, ...set.filter((name) => !isSame(name, given))];
  const options = all.slice(0, MOST);
  return isRandom ? options.sort(byName) : options;
}

function next() {
  const points = pagePoints();
  const queue = QUEUES[view.queue];
  const isRandom = view.queue === "random";
  const all = order(view.queue);
  const open = all.filter((place) => !state.known.has(place));
  const left = open.filter((place) => !view.skipped.has(place));
  const done = h("strong", {}, `${number(all.length - open.length)} of ${number(all.length)} decided.`);
  const progress = h("p", { class: "soft", id: "progress" }, queue.why, " ", done);
  view.detail = null;
  if (!left.length) {
    view.place = null;
    view.options = [];
    view.work.replaceChildren(progress, h("p", { class: "card" }, "Nothing is left in this queue."));
    return;
  }
  const place = left[0];
  const given = points.labels?.[place];
  view.place = place;
  view.options = optionsOf(place, given);
  const detail = h("section", { class: "detail card", "aria-label": "The answer of the model" });
  view.detail = detail;
  const hidden = h(
    "details",
    { class: "card hidden-answer", ontoggle: () => hidden.open && explain(detail, { point: place }, "given") },
    h("summary", {}, "Show the label in the file and the answer of the model"),
    h("p", { class: "soft" }, "Look after you have decided for yourself."),
    detail,
  );
  view.work.replaceChildren(
    progress,
    h("div", { class: "split" }, form(place, given, isRandom), isRandom ? hidden : detail),
  );
  if (!isRandom) return explain(detail, { point: place }, "given");
}

/** @param {number} place @param {Label | undefined} given @param {boolean} isRandom */
function form(place, given, isRandom) {
  const points = pagePoints();
  const isGiven = (/** @type {Label} */ name) => !isRandom && given !== undefined && isSame(name, given);
  const buttons = view.options.map((name, place) =>
    h(
      "button",
      { type: "button", class: isGiven(name) ? "option given" : "option", onclick: () => decide(name) },
      h("kbd", { "aria-hidden": "true" }, String(place + 1)),
      h("span", {}, breakable(name)),
      isGiven(name) && h("span", { class: "soft" }, " label in the file"),
    ),
  );
  const other = h("input", {
    id: "other",
    list: "every-label",
    "aria-label": "Another label",
    placeholder: "another label…",
  });
  const use = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (other.value.trim()) decide(asLabel(other.value.trim()));
  };
  const every = h(
    "datalist",
    { id: "every-label" },
    points.classes.map((name) => h("option", { value: String(name) })),
  );
  const size = plural(setOf(place).length, "label");
  return h(
    "div",
    { class: "card under", id: "under", tabindex: "-1", "data-point": String(place) },
    h("div", { class: "shown" }, face(points.names[place], "large")),
    h(
      "p",
      {},
      h("strong", {}, "Which label is true?"),
      !isRandom && h("span", { class: "soft" }, ` The set at ${percent(target())} holds ${size}.`),
    ),
    h("div", { class: "options" }, buttons),
    h("form", { class: "other", onsubmit: use }, other, every, h("button", {}, "Use it")),
    QUEUES[view.queue].provenance === "picked" &&
      h("button", { type: "button", class: "quiet", onclick: skip }, h("kbd", { "aria-hidden": "true" }, "S"), " Skip"),
    shortcuts(isRandom),
  );
}

/** The shortcuts, and the switch that turns them off. @param {boolean} isRandom */
function shortcuts(isRandom) {
  const box = h("input", { type: "checkbox", id: "shortcuts", checked: hasShortcuts() });
  const hints = h(
    "span",
    {},
    h("kbd", {}, "1"),
    "–",
    h("kbd", {}, "9"),
    " choose, ",
    h("kbd", {}, "/"),
    " types another label",
    !isRandom && [", ", h("kbd", {}, "Enter"), " confirms the label in the file, ", h("kbd", {}, "S"), " skips"],
  );
  const show = () => {
    hints.hidden = !box.checked;
    view.work.classList.toggle("no-shortcuts", !box.checked);
  };
  box.addEventListener("change", () => {
    setShortcuts(box.checked);
    show();
  });
  show();
  return h("p", { class: "soft keys" }, h("label", {}, box, " Single keys decide"), " ", hints);
}

function skip() {
  if (QUEUES[view.queue].provenance !== "picked" || view.place === null) return;
  view.skipped.add(view.place);
  next();
}

/** Sends a decision and shows the next point. @param {Label} label */
async function decide(label) {
  if (view.isBusy || view.place === null) return;
  view.isBusy = true;
  const { provenance, title } = QUEUES[view.queue];
  const place = view.place;
  const hadFocus = view.work.contains(document.activeElement);
  try {
    const why = provenance === "picked" ? { why: title.toLowerCase() } : {};
    await post(PATHS.labels, { provenance, ...why, labels: [{ point: place, label }] });
    state.known.set(place, { label, provenance });
    announce(`Saved: ${label}`);
    view.isBusy = false;
    const shown = next();
    // The chosen button is gone: the focus goes to the next point.
    if (hadFocus) document.getElementById("under")?.focus({ preventScroll: true });
    await shown;
  } catch (error) {
    view.isBusy = false;
    announce(`Not saved: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {KeyboardEvent} event */
function keys(event) {
  if (!hasShortcuts() || event.ctrlKey || event.metaKey || event.altKey || view.place === null) return;
  const at = event.target instanceof Element ? event.target : document.body;
  if (at.closest("input, select, textarea, dialog, a, summary, [role=tab]")) return;
  const digit = Number(event.key);
  const given = pagePoints().labels?.[view.place];
  if (digit >= 1 && digit <= MOST && view.options[digit - 1] !== undefined) decide(view.options[digit - 1]);
  else if (event.key === "Enter" && !at.closest("button") && view.queue !== "random" && given !== undefined)
    decide(given);
  else if (event.key.toLowerCase() === "s") skip();
  else if (event.key === "/") byId("other").focus();
  else return;
  event.preventDefault();
}
