// One point: what it is, which labels its set holds at the chosen level, and the labelled examples that speak for each.

import { picture, post } from "./api.js";
import { h, number, percent } from "./dom.js";
import { alpha, flagged, holds, state } from "./sets.js";

const SHOWN = 8;

/** What a point looks like: its picture where there are pictures, otherwise its text or id. */
export function face(name, size) {
  if (!state.model.images) return h("span", { class: `face text ${size}` }, state.points?.named === false ? `row ${name}` : name);
  const image = h("img", { alt: name, decoding: "async" });
  const box = h("span", { class: `face ${size}` }, image);
  picture(name).then((address) => (address ? (image.src = address) : box.replaceChildren(h("span", { class: "face text" }, name))));
  return box;
}

/** Explains a point into `box`: `{point: place}` or `{embedding: numbers}`. */
export async function explain(box, which) {
  box.wanted = which;
  box.setAttribute("aria-busy", "true");
  let found;
  try {
    found = await post("/v1/explain", { ...which, alpha: alpha() });
  } catch (error) {
    box.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    box.removeAttribute("aria-busy");
    return;
  }
  if (box.wanted !== which) return; // another one was chosen meanwhile
  let shown = SHOWN;
  const head = h("div", {});
  const list = h("ol", { class: "labels" });
  const more = h("button", { type: "button", onclick: () => { shown = Infinity; box.update(); } }, "Show every label");
  box.update = () => draw(found, which.point, head, list, more, shown);
  box.replaceChildren(head, list, more);
  box.update();
  box.removeAttribute("aria-busy");
}

function draw(found, place, head, list, more, shown) {
  const { points } = state;
  const inSet = found.labels.filter((one) => holds(one.level));
  const given = place === undefined ? null : points.labels?.[place];
  const verdict = given === null || given === undefined ? "" : inSet.some((one) => one.label === given) ? " It holds the true label." : " It misses the true label.";
  const sentence = inSet.length
    ? `At ${100 - state.hundredths} % the set holds ${inSet.length === 1 ? "one label" : `${inSet.length} labels`} of ${number(found.labels.length)}.`
    : `At ${100 - state.hundredths} % no label conforms: the set is empty. Ask for more certainty, or have a person look.`;
  head.replaceChildren(...[
    place === undefined ? h("h2", {}, "Your point") : h("h2", { class: "shown" }, face(points.names[place], "large")),
    given && h("p", { class: "soft" }, "came with the label ", h("strong", {}, given), points.seen[place] ? " · the model has seen this very point, so it says nothing about new ones" : ""),
    h("p", { class: "sentence" }, h("strong", {}, sentence), verdict),
    flagged(found.novelty) && h("p", { class: "wrong" }, "It is unlike anything the model has seen: of points like those it was calibrated on, at most one in a hundred is as far away. The promise may not be about this one."),
  ].filter(Boolean));
  const open = new Set([...list.querySelectorAll("details[open]")].map((one) => one.dataset.label));
  const first = !list.children.length;
  const rows = found.labels.slice(0, Math.max(shown, inSet.length));
  list.replaceChildren(...rows.map((one, number) => label(one, given, first ? number < 2 : open.has(one.label))));
  more.hidden = rows.length === found.labels.length;
}

function label(one, given, open) {
  const inSet = holds(one.level);
  const p = one.p_value ?? Math.min(one.rank_p_value, one.contrast_p_value);
  const words = `${inSet ? "in the set" : "not in the set"}, p-value ${p.toFixed(3)}, probability ${percent(one.probability, 1)}`;
  const bar = h("span", { class: "bar", "aria-hidden": "true" },
    h("span", { class: "fill", style: { width: `${100 * p}%` } }),
    h("span", { class: "cut", style: { left: `${100 * alpha()}%` } }));
  const examples = one.examples.map((example) => {
    const name = example.id ?? `row ${example.row ?? "?"}`;
    return h("li", { class: "example" },
      example.id === undefined ? h("span", { class: "face text" }, name) : face(name, "medium"),
      h("span", { class: "soft" }, `no. ${number(example.rank)}, ${example.distance.toPrecision(3)} away`));
  });
  return h("li", { class: inSet ? "in" : "out" },
    h("details", { open, "data-label": one.label },
      h("summary", {}, h("span", { class: "name" }, one.label, given === one.label && h("span", { class: "truth" }, " true label")), bar, h("span", { class: "p" }, p.toFixed(3)), h("span", { class: "hidden" }, words)),
      examples.length ? h("ul", { class: "examples" }, examples) : h("p", { class: "soft" }, "No labelled example of it is anywhere near.")));
}
