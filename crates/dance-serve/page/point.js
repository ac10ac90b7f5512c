// One point: its picture or text, its set at the chosen level, and the nearest examples of each label.

import { picture, post } from "./api.js";
import { h, number, percent } from "./dom.js";
import { alpha, holds, isNovel, state } from "./sets.js";

const SHOWN = 8;

/** Returns the picture of a point, or its text or id where there are no pictures. */
export function face(name, size) {
  if (!state.model.pictures) return h("span", { class: `face text ${size}` }, state.points?.named === false ? `row ${name}` : name);
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
    found = await post("/page-api/explain", { ...which, alpha: alpha() });
  } catch (error) {
    box.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    box.removeAttribute("aria-busy");
    return;
  }
  if (box.wanted !== which) return; // another point was chosen meanwhile
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
  const hasNew = found.new_label_level !== undefined && holds(found.new_label_level);
  const isKnown = found.labels.some((one) => one.label === given);
  const covered = isKnown ? inSet.some((one) => one.label === given) : hasNew;
  const verdict = given === null || given === undefined ? "" : covered ? " It holds the true label." : " It misses the true label.";
  const size = `${inSet.length === 1 ? "one label" : `${inSet.length} labels`} of ${number(found.labels.length)}`;
  const target = `At ${100 - state.hundredths} %`;
  const sentence = inSet.length
    ? `${target} the set holds ${size}${hasNew ? ", and a new label that no point of the model has" : ""}.`
    : hasNew ? `${target} the set holds a new label alone: no label of the model conforms.`
    : `${target} the set is empty: no label conforms. Raise the target coverage, or let a person decide.`;
  head.replaceChildren(...[
    place === undefined ? h("h2", {}, "Your point") : h("h2", { class: "shown" }, face(points.names[place], "large")),
    given && h("p", { class: "soft" }, "The label in the file is ", h("strong", {}, given), ".", points.used[place] ? " The point took part in the fit or the calibration, so that its set shows nothing about new points." : ""),
    h("p", { class: "sentence" }, h("strong", {}, sentence), verdict),
    isNovel(found.novelty) && h("p", { class: "wrong" }, "The point is novel: at most one in a hundred points like the calibration points is as far from them. The guarantee may not hold for it."),
  ].filter(Boolean));
  const open = new Set([...list.querySelectorAll("details[open]")].map((one) => one.dataset.label));
  const first = !list.children.length;
  const rows = found.labels.slice(0, Math.max(shown, inSet.length));
  list.replaceChildren(...rows.map((one, number) => label(one, given, first ? number < 2 : open.has(String(one.label)))));
  more.hidden = rows.length === found.labels.length;
}

function label(one, given, open) {
  const inSet = holds(one.level);
  const p = one.p_value;
  const scores = one.rank_p_value === undefined ? "" : ` (rank ${one.rank_p_value.toFixed(3)}, contrastive score ${one.contrast_p_value.toFixed(3)})`;
  const words = `p-value ${p.toFixed(3)}${scores} · probability ${percent(one.probability, 1)}`;
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
    h("details", { open, "data-label": String(one.label) },
      h("summary", {}, h("span", { class: "name" }, String(one.label), given === one.label && h("span", { class: "truth" }, " true label")), bar, h("span", { class: "p" }, p.toFixed(3)), h("span", { class: "hidden" }, inSet ? "in the set" : "not in the set")),
      h("p", { class: "soft" }, words),
      examples.length ? h("ul", { class: "examples" }, examples) : h("p", { class: "soft" }, "No example of it is among the nearest points.")));
}
