// The views of the page, and the error level that they share.

import { get, KeyMissing, PATHS } from "./api.js";
import * as coverage from "./coverage.js";
import { byId, h } from "./dom.js";
import * as explore from "./explore.js";
import { decimal, number, percent, plural } from "./format.js";
import * as reference from "./reference.js";
import * as review from "./review.js";
import { alpha, state, take, target } from "./sets.js";
import * as tryOwn from "./try.js";

/** A view of the page. `go` is called in place of `open` where the view is open already.
 * @typedef {{ open: (main: HTMLElement, rest?: string) => unknown, close?: () => void, update?: () => void,
 *   go?: (rest?: string) => unknown }} View */

/** @type {Record<string, View>} */
const VIEWS = { explore, coverage, review, try: tryOwn, api: reference };
/** @type {Record<string, string>} */
const TITLES = { explore: "Explore", coverage: "Coverage", review: "Review", try: "Try your own", api: "API" };
const NEED_POINTS = ["explore", "coverage", "review"];
const main = byId("main");
const slider = /** @type {HTMLInputElement} */ (byId("alpha"));
/** @type {View | null} */
let view = null;

async function show() {
  const [name, rest] = (location.hash.slice(1) || "explore").split("/");
  const wanted = VIEWS[name] ? name : "explore";
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.getAttribute("href") === `#${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[wanted]} · dance`;
  byId("level").hidden = wanted === "api";
  if (view === VIEWS[wanted] && view.go) return view.go(rest);
  view?.close?.();
  main.replaceChildren();
  main.className = `view-${wanted}`;
  if (!state.points && NEED_POINTS.includes(wanted)) {
    view = null;
    main.append(noPoints());
    return;
  }
  view = VIEWS[wanted];
  try {
    await view.open(main, rest);
  } catch (error) {
    view = null;
    failed(error, show);
  }
}

/** Shows an error. Without a key, a button asks for it again. @param {unknown} error @param {() => unknown} again */
function failed(error, again) {
  const retry = () => Promise.resolve(again()).catch((failure) => failed(failure, again));
  main.replaceChildren(
    h(
      "div",
      { class: "card narrow" },
      h("h1", {}, "This cannot be shown"),
      h("p", { class: "wrong", role: "alert" }, /** @type {Error} */ (error).message),
      error instanceof KeyMissing && h("button", { type: "button", class: "primary", onclick: retry }, "Enter a key"),
    ),
  );
}

function noPoints() {
  return h(
    "div",
    { class: "card narrow" },
    h("h1", {}, "This server has no points"),
    h(
      "p",
      {},
      "It was started with a model alone. Start it with ",
      h("code", {}, "--points FILE"),
      " to see the points of a file here, or enter a point under ",
      h("a", { href: "#try" }, "Try"),
      ".",
    ),
  );
}

/** Says what the level promises. It is no live region: the slider itself tells its value at each step. */
function words() {
  const share = percent(target());
  const level = h("span", { class: "alpha" }, ` (alpha ${decimal(alpha(), 2)})`);
  byId("level-words").replaceChildren(
    ...(state.model.guaranteed
      ? ["at least ", h("strong", {}, share), h("span", { class: "long" }, " of sets hold the true label"), level]
      : [h("strong", {}, share), h("span", { class: "long" }, " is the target; this model promises nothing"), level]),
  );
  slider.setAttribute("aria-valuetext", share);
}

slider.addEventListener("input", () => {
  state.hundredths = 100 - Number(slider.value);
  words();
  view?.update?.();
});

async function start() {
  globalThis.Charts.format = { percent, number: decimal };
  state.model = await get(PATHS.model);
  const { classes, calibration_points: calibrated, hash, method, name, version, guaranteed, alphas } = state.model;
  byId("model").textContent =
    `${name} · ${method} · ${plural(classes.length, "class", "classes")} · ` +
    `${number(calibrated)} calibration points`;
  byId("model").title = `${name}, version ${version}, hash ${hash}`;
  byId("promise").textContent = guaranteed ? "Promised" : "Target";
  if (state.model.points) {
    take(await get(PATHS.points));
    await review.fetchKnown();
  }
  slider.value = String(Math.round(100 * (1 - (alphas[0] ?? 0.1))));
  state.hundredths = 100 - Number(slider.value);
  words();
  addEventListener("hashchange", show);
  await show();
}

start().catch((error) => failed(error, start));
