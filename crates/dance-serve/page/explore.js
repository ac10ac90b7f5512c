// Explore: all points with their sets, a search and filters, and the explanation of the chosen point.

import { h, number, percent, plural } from "./dom.js";
import { isNovel, missed, nameOf, setOf, state, summary } from "./sets.js";
import { face, explain } from "./point.js";

const PAGE = 40;
let view = null;

export function open(main, chosen) {
  const { points } = state;
  const search = h("input", { type: "search", id: "search", placeholder: "Search texts, ids and labels", "aria-label": "Search" });
  const choice = (id, label, options) => h("label", {}, h("span", {}, label), h("select", { id }, options.map(([value, words]) => h("option", { value }, words))));
  const classes = [...points.classes.keys()].filter((label) => points.truth?.includes(label) ?? true);
  const sizes = [["", "any size"], ["0", "empty"], ["1", "one label"], ["2", "two or three"], ["4", "four or more"]];
  const marks = [["", "all"], ...(points.truth ? [["missed", "missed"], ["doubtful", "doubtful label"]] : []), ["empty", "empty set"], ["novel", "novel"], ["known", "reviewed"], ["used", "in the fit or calibration"]];
  const byClass = choice("by-class", "Class", [["", "all"], ...classes.map((label) => [String(label), points.classes[label]])]);
  const bySize = choice("by-size", "Set", sizes);
  const byMark = choice("by-mark", "Show", marks);
  const overview = h("p", { class: "overview", role: "status", id: "overview" });
  const list = h("ol", { class: "points", id: "points" });
  const more = h("button", { type: "button", onclick: () => { view.shown += PAGE; draw(); } }, "Show more");
  const detail = h("section", { class: "detail card", "aria-label": "The chosen point", id: "detail" });
  view = { search, byClass, bySize, byMark, overview, list, more, detail, shown: PAGE, chosen: null, places: [] };
  for (const control of [search, byClass, bySize, byMark]) control.addEventListener("input", () => { view.shown = PAGE; draw(); });
  main.append(
    h("h1", { class: "quiet" }, "Points and their prediction sets"),
    h("div", { class: "filters card" }, search, h("div", { class: "choices" }, points.truth && byClass, bySize, byMark)),
    overview,
    h("div", { class: "split" }, h("div", {}, list, more), detail));
  draw();
  return go(chosen);
}

export function close() { view = null; }

/** Chooses a point by its place. */
export function go(chosen) {
  const place = Number(chosen ?? view.places[0] ?? 0);
  if (!(place >= 0 && place < state.points.count)) return;
  view.chosen = place;
  for (const row of view.list.children) row.querySelector("a").toggleAttribute("aria-current", Number(row.dataset.point) === place);
  return explain(view.detail, { point: place });
}

export function update() {
  draw();
  view.detail.update?.();
}

function wanted() {
  const { points } = state;
  const text = view.search.value.trim().toLowerCase();
  const label = view.byClass.querySelector("select").value;
  const size = view.bySize.querySelector("select").value;
  const mark = view.byMark.querySelector("select").value;
  const places = [];
  for (let place = 0; place < points.count; place++) {
    if (label && points.truth[place] !== Number(label)) continue;
    if (text && ![points.names[place], points.labels?.[place] ?? ""].some((one) => String(one).toLowerCase().includes(text))) continue;
    const count = setOf(place).length;
    if (size && !{ 0: count === 0, 1: count === 1, 2: count === 2 || count === 3, 4: count >= 4 }[size]) continue;
    if (mark === "missed" && !missed(place)) continue;
    if (mark === "empty" && count) continue;
    if (mark === "doubtful" && !((points.p_of_label?.[place] ?? 0) < 0.02)) continue;
    if (mark === "novel" && !isNovel(points.novelty[place])) continue;
    if (mark === "known" && !state.known.has(points.names[place])) continue;
    if (mark === "used" && !points.used[place]) continue;
    places.push(place);
  }
  return places;
}

function draw() {
  const places = (view.places = wanted());
  const { size, empty, coverage } = summary(places);
  const parts = [h("strong", {}, plural(places.length, "point")), ` of ${number(state.points.count)}`];
  if (places.length) {
    if (coverage !== null) parts.push(" · ", h("strong", { id: "coverage" }, percent(coverage, 1)), " hold the true label");
    parts.push(" · ", h("strong", {}, size.toFixed(2)), " labels per set · ", h("strong", {}, percent(empty, 1)), " empty");
  }
  view.overview.replaceChildren(...parts);
  view.list.replaceChildren(...places.slice(0, view.shown).map(row));
  view.more.hidden = places.length <= view.shown;
}

function row(place) {
  const { points } = state;
  const set = setOf(place);
  const truth = points.truth?.[place];
  const chips = set.slice(0, 6).map((label) => h("span", { class: label === truth ? "chip true" : "chip" }, nameOf(label)));
  if (set.length > 6) chips.push(h("span", { class: "chip more" }, `+${set.length - 6}`));
  if (!set.length) chips.push(h("span", { class: "chip empty" }, "empty set"));
  const miss = points.truth && missed(place);
  return h("li", { "data-point": String(place) },
    h("a", { href: `#explore/${place}`, class: miss ? "point missed" : "point", "aria-current": place === view.chosen },
      face(points.names[place], "small"),
      h("span", { class: "of" }, points.labels && h("span", { class: "given" }, miss ? "missed: " : "", points.labels[place]), h("span", { class: "chips" }, chips), isNovel(points.novelty[place]) && h("span", { class: "chip empty" }, "novel"))));
}
