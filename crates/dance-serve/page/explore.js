// Explore: all points with their best answers and sets, a search and filters, and the explanation of the chosen point.

import { h, speak } from "./dom.js";
import { decimal, number, percent, plural, probability } from "./format.js";
import { roving, setInTabOrder } from "./keyboard.js";
import { chip, explain, face, legend, update as updateDetail } from "./point.js";
import { isNovel, missed, nameOf, pagePoints, setOf, state, summary } from "./sets.js";

const PAGE = 40;
/** The marks by which points are filtered: their words, and whether a point has the mark.
 * @type {Record<string, [string, (place: number) => boolean]>} */
const MARKS = {
  "": ["all", () => true],
  missed: ["true label missed", missed],
  wrong: ["best answer wrong", (place) => pagePoints().truth?.[place] !== pagePoints().predictions[place]],
  doubtful: ["suspected label errors", (place) => (pagePoints().p_of_label?.[place] ?? 0) < 0.02],
  empty: ["empty set", (place) => setOf(place).length === 0],
  novel: ["novel", (place) => isNovel(pagePoints().novelty[place])],
  known: ["reviewed", (place) => state.known.has(place)],
  used: ["in the fit or calibration", (place) => pagePoints().used[place]],
};
const NEED_TRUTH = ["missed", "wrong", "doubtful"];
/** Set sizes by which points are filtered. An object would put the names that are numbers first.
 * @type {[string, string, (count: number) => boolean][]} */
const SIZES = [
  ["", "any size", () => true],
  ["0", "empty", (count) => count === 0],
  ["1", "one label", (count) => count === 1],
  ["2", "two or three", (count) => count === 2 || count === 3],
  ["4", "four or more", (count) => count >= 4],
];

/** The view, or null while it is closed.
 * @type {null | { main: HTMLElement, search: HTMLInputElement, byClass: HTMLSelectElement, bySize: HTMLSelectElement,
 *   byMark: HTMLSelectElement, overview: HTMLElement, list: HTMLElement, more: HTMLElement, back: HTMLElement,
 *   detail: HTMLElement, shown: number, chosen: number | null, places: number[], faces: Map<number, HTMLElement> }} */
let view = null;

/** @param {HTMLElement} main @param {string} [chosen] */
export function open(main, chosen) {
  const points = pagePoints();
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Search texts, ids and labels",
    "aria-label": "Search",
  });
  const choice = (/** @type {string} */ id, /** @type {[string, string][]} */ options) =>
    h(
      "select",
      { id },
      options.map(([value, words]) => h("option", { value }, words)),
    );
  const classes = [...points.classes.keys()].filter((label) => points.truth?.includes(label) ?? true);
  const marks = Object.entries(MARKS).filter(([mark]) => points.truth || !NEED_TRUTH.includes(mark));
  const byClass = choice("by-class", [["", "all"], ...classes.map(nameWithNumber)]);
  const bySize = choice(
    "by-size",
    SIZES.map(([size, words]) => [size, words]),
  );
  const byMark = choice(
    "by-mark",
    marks.map(([mark, [words]]) => [mark, words]),
  );
  const labeled = (/** @type {string} */ words, /** @type {HTMLElement} */ control) =>
    h("label", {}, h("span", {}, words), control);
  const overview = h("p", { class: "overview", id: "overview" });
  const list = h("ol", { class: "points", id: "points", "aria-label": "Points; arrow keys move" });
  const more = h("button", { type: "button", onclick: showMore }, "Show more");
  const back = h("a", { class: "button back", href: "#explore" }, "← All points");
  const detail = h("section", { class: "detail card", "aria-label": "The chosen point", id: "detail" });
  view = {
    ...{ main, search, byClass, bySize, byMark, overview, list, more, back, detail },
    ...{ shown: PAGE, chosen: null, places: [], faces: new Map() },
  };
  for (const control of [search, byClass, bySize, byMark]) control.addEventListener("input", filter);
  roving(list, "a.point", "vertical");
  main.append(
    h("h1", { class: "quiet" }, "Points, best answers and sets"),
    h(
      "div",
      { class: "split" },
      h(
        "div",
        { class: "list" },
        h(
          "div",
          { class: "filters card" },
          search,
          h(
            "div",
            { class: "choices" },
            points.truth && labeled("True label", byClass),
            labeled("Set", bySize),
            labeled("Show", byMark),
          ),
        ),
        overview,
        legend(points.truth !== null),
        list,
        more,
      ),
      h("div", { class: "chosen" }, back, detail),
    ),
  );
  draw();
  return go(chosen);
}

/** @param {number} label @returns {[string, string]} */
const nameWithNumber = (label) => [String(label), nameOf(label)];

export function close() {
  view = null;
}

function showMore() {
  if (!view) return;
  view.shown += PAGE;
  draw();
}

function filter() {
  if (!view) return;
  view.shown = PAGE;
  draw();
}

/** Chooses a point by its place. Without one, a phone shows the list alone, and a wide window the first point too.
 * @param {string} [chosen] */
export function go(chosen) {
  if (!view) return;
  const before = view.chosen;
  const isChosen = chosen !== undefined;
  const place = Number(chosen ?? view.places[0] ?? 0);
  if (!(place >= 0 && place < pagePoints().count)) return;
  view.chosen = place;
  view.main.classList.toggle("has-point", isChosen);
  for (const row of rows()) {
    if (row.dataset.point === String(place)) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
  const current = rows().find((row) => row.dataset.point === String(isChosen ? place : before));
  setInTabOrder(rows(), current ?? rows()[0]);
  // On a phone the list and the point take turns, and the focus goes along.
  const isPhone = view.back.checkVisibility?.() ?? false;
  if (isChosen && isPhone) {
    scrollTo(0, 0);
    view.back.focus();
  } else if (!isChosen && before !== null) {
    current?.focus();
  }
  return explain(view.detail, { point: place });
}

/** @returns {HTMLElement[]} */
const rows = () => (view ? [...view.list.querySelectorAll("a")] : []);

export function update() {
  draw();
  updateDetail(view?.detail);
}

/** Returns the places of the points that match the search and the filters. */
function wanted() {
  if (!view) return [];
  const points = pagePoints();
  const text = view.search.value.trim().toLowerCase();
  const label = view.byClass.value;
  const size = view.bySize.value;
  const hasSize = SIZES.find(([one]) => one === size)?.[2] ?? (() => true);
  const [, hasMark] = MARKS[view.byMark.value];
  const isFound = (/** @type {number} */ place) =>
    [points.names[place], points.labels?.[place] ?? "", nameOf(points.predictions[place])].some((one) =>
      String(one).toLowerCase().includes(text),
    );
  return [...Array(points.count).keys()].filter(
    (place) =>
      (!label || points.truth?.[place] === Number(label)) &&
      (!text || isFound(place)) &&
      hasSize(setOf(place).length) &&
      hasMark(place),
  );
}

function draw() {
  if (!view) return;
  const { overview, list, more, chosen, shown } = view;
  const places = wanted();
  view.places = places;
  const { size, empty, measured, coverage } = summary(places);
  const count = h("span", {}, h("strong", {}, plural(places.length, "point")), ` of ${number(pagePoints().count)}`);
  /** @type {Node[]} */
  const parts = [count];
  if (places.length) {
    parts.push(
      h("span", {}, h("strong", {}, decimal(size, 2)), " labels per set"),
      h("span", {}, h("strong", {}, percent(empty, 1)), " empty sets"),
    );
  }
  if (measured) {
    const of = measured === places.length ? "" : ` (${number(measured)} took no part in the fit or calibration)`;
    parts.push(
      h(
        "span",
        {},
        "measured: ",
        h("strong", { id: "coverage" }, percent(coverage, 1)),
        ` of these sets hold the true label${of}`,
      ),
    );
  }
  overview.replaceChildren(...parts.flatMap((part, place) => (place ? [" · ", part] : [part])));
  speak(parts.map((part) => part.textContent).join(", "));
  const faces = new Map();
  list.replaceChildren(...places.slice(0, shown).map((place) => row(place, faces)));
  view.faces = faces;
  setInTabOrder(rows(), rows().find((one) => one.dataset.point === String(chosen)) ?? rows()[0]);
  more.hidden = places.length <= shown;
}

/** @param {number} place @param {Map<number, HTMLElement>} faces the pictures that the list shows from now on */
function row(place, faces) {
  const points = pagePoints();
  const set = setOf(place);
  const truth = points.truth?.[place];
  const chips = set.slice(0, 6).map((label) => chip(nameOf(label), label === truth));
  if (set.length > 6) chips.push(h("span", { class: "chip more" }, `+${number(set.length - 6)}`));
  if (!set.length) chips.push(h("span", { class: "chip empty" }, "empty set"));
  // A picture that is shown already stays, so that it does not flicker.
  const shown = view?.faces.get(place) ?? face(points.names[place], "small");
  faces.set(place, shown);
  const best = h(
    "span",
    { class: "best" },
    h("strong", {}, nameOf(points.predictions[place])),
    " ",
    h("span", { class: "sure" }, probability(points.probabilities[place])),
    isNovel(points.novelty[place]) && h("span", { class: "chip empty" }, "novel"),
  );
  if (points.truth && missed(place)) {
    chips.push(
      h(
        "span",
        { class: "chip missed" },
        "✗ ",
        String(points.labels?.[place]),
        h("span", { class: "hidden" }, " (true label, not in the set)"),
      ),
    );
  }
  return h(
    "li",
    { "data-point": String(place) },
    h(
      "a",
      {
        href: `#explore/${place}`,
        class: "point",
        "data-point": String(place),
        "aria-current": place === view?.chosen ? "true" : undefined,
      },
      shown,
      h("span", { class: "of" }, best, h("span", { class: "chips" }, h("span", { class: "hidden" }, "Set: "), chips)),
    ),
  );
}
