// The views of the page, and the error level that they share.

import { get } from "./api.js";
import { h, number } from "./dom.js";
import { alpha, state, take } from "./sets.js";
import * as explore from "./explore.js";
import * as coverage from "./coverage.js";
import * as review from "./review.js";
import * as tryOwn from "./try.js";
import * as reference from "./reference.js";

const VIEWS = { explore, coverage, review, try: tryOwn, api: reference };
const TITLES = { explore: "Explore", coverage: "Coverage", review: "Review", try: "Try your own", api: "API" };
const main = document.getElementById("main");
const slider = document.getElementById("alpha");
let view = null;

async function show() {
  const [name, rest] = (location.hash.slice(1) || "explore").split("/");
  const wanted = VIEWS[name] ? name : "explore";
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === `#${wanted}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[wanted]} · dance`;
  document.getElementById("level").hidden = wanted === "api";
  if (view === VIEWS[wanted] && view.go) return view.go(rest);
  view?.close?.();
  view = VIEWS[wanted];
  main.replaceChildren();
  main.className = `view-${wanted}`;
  try {
    if (!state.points && ["explore", "coverage", "review"].includes(wanted)) {
      main.append(noPoints());
      return;
    }
    await view.open(main, rest);
  } catch (error) {
    main.replaceChildren(h("p", { class: "card wrong", role: "alert" }, error.message));
  }
}

function noPoints() {
  return h("div", { class: "card narrow" },
    h("h1", {}, "This server has no points"),
    h("p", {}, "It was started with a model alone. Start it with ", h("code", {}, "--points FILE") , " to see the points of a file here, or enter a point under ", h("a", { href: "#try" }, "Try"), "."));
}

function words() {
  const target = 100 - state.hundredths;
  document.getElementById("level-words").replaceChildren(
    h("strong", {}, `${target} %`), ` of sets shall hold the true label (alpha ${alpha().toFixed(2)})`);
  slider.setAttribute("aria-valuetext", `${target} percent`);
}

slider.addEventListener("input", () => {
  state.hundredths = 100 - Number(slider.value);
  words();
  view?.update?.();
});

async function start() {
  state.model = await get("/page-api/model");
  const { classes, calibration_points: calibrated, name, method } = state.model;
  document.getElementById("model").textContent = `model ${name} · method ${method} · ${number(classes.length)} classes · calibrated on ${number(calibrated)} points`;
  if (state.model.points) take(await get("/page-api/points"));
  words();
  addEventListener("hashchange", show);
  await show();
}

start().catch((error) => main.replaceChildren(h("p", { class: "card wrong", role: "alert" }, error.message)));
