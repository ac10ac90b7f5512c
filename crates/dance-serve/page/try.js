// Try: an embedding from the clipboard or a file, or a picture or a text on a server with an encoder.

import { PATHS, send } from "./api.js";
import { h } from "./dom.js";
import { number, plural } from "./format.js";
import { explain, legend, update as updateDetail } from "./point.js";
import { npy, read } from "./read.js";
import { state } from "./sets.js";

/** The most rows of a file to choose from. */
const MOST = 500;
/** @type {HTMLElement | null} */
let detail = null;

/** @param {HTMLElement} main */
export function open(main) {
  const { dimensions, takes } = state.model;
  const text = h("textarea", {
    id: "numbers",
    rows: "6",
    spellcheck: false,
    placeholder: `[0.12, -0.03, …]  ${number(dimensions)} numbers`,
    "aria-describedby": "format",
  });
  const problem = h("p", { class: "wrong", role: "alert", id: "problem" });
  const row = h("select", { id: "row" });
  const rows = h("label", { hidden: true }, h("span", {}, "Row "), row);
  const file = h("input", { type: "file", id: "file", accept: ".json,.jsonl,.csv,.tsv,.txt,.npy" });
  const answer = h("section", { class: "detail card", "aria-label": "The answer" });
  answer.append(
    h("h2", {}, "The answer appears here"),
    h(
      "p",
      {},
      "The best answer with its probability, the set of labels that the promise is about, and what to do now.",
    ),
    legend(false),
  );
  detail = answer;
  /** @type {number[][]} */
  let points = [];

  const show = async (/** @type {number[][]} */ values) => {
    points = values;
    problem.textContent = points.length ? "" : "The text has no numbers.";
    if (!points.length) return;
    const many = plural(points.length, "row");
    rows.hidden = points.length === 1;
    row.replaceChildren(
      ...points
        .slice(0, MOST)
        .map((_, place) => h("option", { value: String(place) }, `${number(place + 1)} of ${many}`)),
    );
    await explain(answer, { embedding: points[0] });
    // On a phone the answer is below the form.
    if (answer.getBoundingClientRect().top > innerHeight) answer.scrollIntoView({ block: "start" });
  };
  const ask = () => {
    try {
      return show(read(text.value));
    } catch (error) {
      problem.textContent = /** @type {Error} */ (error).message;
    }
  };
  const take = async (/** @type {File} */ chosen) => {
    try {
      await show(chosen.name.endsWith(".npy") ? npy(await chosen.arrayBuffer()) : read(await chosen.text()));
    } catch (error) {
      problem.textContent = `${chosen.name}: ${/** @type {Error} */ (error).message}`;
    }
  };
  const example = () => explain(answer, { point: Math.floor(Math.random() * (state.points?.count ?? 1)) });
  row.addEventListener("input", () => explain(answer, { embedding: points[Number(row.value)] }));
  file.addEventListener("change", () => file.files?.[0] && take(file.files[0]));
  const zone = h(
    "div",
    { class: "drop card" },
    h(
      "label",
      { for: "numbers" },
      h("strong", {}, "Paste an embedding"),
      ` of the encoder that the model was fitted with (${plural(dimensions, "number")})`,
    ),
    text,
    h(
      "p",
      { class: "soft", id: "format" },
      "JSON, or numbers with commas or spaces between them. You can also choose a file or drop one here: ",
      ".json, .jsonl, .csv, .npy.",
    ),
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", class: takes ? "" : "primary", id: "ask", onclick: ask }, "Show the answer"),
      h("label", { class: "button" }, "Choose a file", file),
      state.points && h("button", { type: "button", id: "example", onclick: example }, "Take one of the points here"),
      rows,
    ),
    problem,
  );
  const own = takes && encoded(takes, show, problem);
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const dropped = event.dataTransfer?.files[0];
    if (!dropped) return;
    if (own && takes === "pictures" && dropped.type.startsWith("image/")) own.take(dropped);
    else take(dropped);
  });
  if (own) zone.prepend(own.part, h("hr", {}));
  main.append(h("h1", { class: "quiet" }, "Try a point of your own"), h("div", { class: "split" }, zone, answer));
}

/** Returns the form for a picture or a text, which the server embeds.
 * @param {"pictures" | "texts"} takes @param {(points: number[][]) => Promise<void>} show @param {HTMLElement} problem
 * @returns {{ part: HTMLElement, take: (picture: File) => Promise<void> }} */
function encoded(takes, show, problem) {
  const embed = async (/** @type {BodyInit} */ content, /** @type {string} */ type, /** @type {string} */ name) => {
    problem.textContent = "";
    try {
      const { embedding } = await send(PATHS.embed, content, type);
      await show([embedding]);
    } catch (error) {
      problem.textContent = `${name}: ${/** @type {Error} */ (error).message}`;
    }
  };
  const preview = h("div", { class: "shown" });
  const take = (/** @type {File} */ picture) => {
    const address = URL.createObjectURL(picture);
    const free = () => URL.revokeObjectURL(address);
    const image = h("img", { alt: picture.name, src: address, onload: free, onerror: free });
    preview.replaceChildren(h("span", { class: "face large" }, image));
    return embed(picture, picture.type, picture.name);
  };
  if (takes === "texts") {
    const words = h("textarea", {
      id: "words",
      rows: "3",
      placeholder: "A text of the kind that the model was fitted with",
    });
    const ask = () => embed(words.value, "text/plain", "The text");
    const button = h("button", { type: "button", class: "primary", id: "embed", onclick: ask }, "Show the answer");
    const label = h("label", { for: "words" }, h("strong", {}, "Write a text"));
    return { take, part: h("div", {}, label, words, h("div", { class: "row" }, button)) };
  }
  const file = h("input", { type: "file", id: "picture", accept: "image/*" });
  file.addEventListener("change", () => file.files?.[0] && take(file.files[0]));
  const words = [h("strong", {}, "Choose a picture"), " or drop one here. The model's own encoder embeds it."];
  const button = h("label", { class: "button primary" }, "Choose a picture", file);
  return { take, part: h("div", {}, h("p", {}, words), preview, h("div", { class: "row" }, button)) };
}

export function close() {
  detail = null;
}

export function update() {
  updateDetail(detail);
}
