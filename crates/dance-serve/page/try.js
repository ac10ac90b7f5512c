// Try: an embedding from the clipboard or a file, or a picture or a text on a server with an encoder.

import { send } from "./api.js";
import { h, number, plural } from "./dom.js";
import { state } from "./sets.js";
import { explain } from "./point.js";

let detail = null;

export function open(main) {
  const { dimensions, takes } = state.model;
  const text = h("textarea", { id: "numbers", rows: "6", spellcheck: false, placeholder: `[0.12, -0.03, …]  ${dimensions} numbers`, "aria-describedby": "format" });
  const problem = h("p", { class: "wrong", role: "alert", id: "problem" });
  const rows = h("label", { hidden: true }, h("span", {}, "Row "), h("select", { id: "row" }));
  const file = h("input", { type: "file", id: "file", accept: ".json,.jsonl,.csv,.tsv,.txt,.npy" });
  detail = h("section", { class: "detail card", "aria-label": "The answer", hidden: true });
  const zone = h("div", { class: "drop card" },
    h("label", { for: "numbers" }, h("strong", {}, "Paste an embedding"), ` of the encoder the model was fitted with (${number(dimensions)} numbers)`),
    text,
    h("p", { class: "soft", id: "format" }, "JSON, or numbers with commas or spaces between them. You can also choose a file or drop one here: .json, .jsonl, .csv, .npy."),
    h("div", { class: "row" }, h("button", { type: "button", class: "primary", id: "ask", onclick: () => ask(text.value) }, "Show its set"), h("label", { class: "button" }, "Choose a file", file), rows),
    problem);
  let points = [];

  const show = async (values) => {
    points = values;
    problem.textContent = "";
    if (!points.length) { problem.textContent = "The text has no numbers."; return; }
    rows.hidden = points.length === 1;
    rows.querySelector("select").replaceChildren(...points.slice(0, 500).map((_, index) => h("option", { value: String(index) }, `${index} of ${plural(points.length, "row")}`)));
    await point(0);
  };
  const point = async (index) => {
    detail.hidden = false;
    await explain(detail, { embedding: points[index] });
  };
  const ask = (words) => {
    try { return show(read(words)); } catch (error) { problem.textContent = error.message; }
  };
  const take = async (chosen) => {
    try {
      await show(chosen.name.endsWith(".npy") ? npy(await chosen.arrayBuffer()) : read(await chosen.text()));
    } catch (error) { problem.textContent = `${chosen.name}: ${error.message}`; }
  };
  rows.querySelector("select").addEventListener("input", (event) => point(Number(event.target.value)));
  file.addEventListener("change", () => file.files[0] && take(file.files[0]));
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  const own = takes && encoded(takes, show, problem);
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const [dropped] = event.dataTransfer.files;
    if (dropped) (takes === "pictures" && dropped.type.startsWith("image/") ? own.take : take)(dropped);
  });
  if (own) zone.prepend(own.part, h("hr", {}));
  main.append(h("h1", { class: "quiet" }, "Enter a point of your own"), h("div", { class: "split" }, zone, detail));
}

/** Returns the form for a picture or a text, which the server embeds. */
function encoded(takes, show, problem) {
  const preview = h("div", { class: "shown" });
  const take = async (content, type = content.type) => {
    problem.textContent = "";
    try {
      const { embedding } = await send("/v1/embed", content, type);
      await show([embedding]);
    } catch (error) { problem.textContent = `${content.name ?? "The text"}: ${error.message}`; }
  };
  if (takes === "texts") {
    const words = h("textarea", { id: "words", rows: "3", placeholder: "A text of the kind that the model was fitted with" });
    const ask = h("button", { type: "button", class: "primary", id: "embed", onclick: () => take(words.value, "text/plain") }, "Show its set");
    return { take, part: h("div", {}, h("label", { for: "words" }, h("strong", {}, "Write a text")), words, h("div", { class: "row" }, ask)) };
  }
  const file = h("input", { type: "file", id: "picture", accept: "image/*" });
  const look = (picture) => {
    const address = URL.createObjectURL(picture);
    preview.replaceChildren(h("span", { class: "face large" }, h("img", { alt: picture.name, src: address, onload: () => URL.revokeObjectURL(address) })));
    return take(picture);
  };
  file.addEventListener("change", () => file.files[0] && look(file.files[0]));
  return { take: look, part: h("div", {}, h("p", {}, h("strong", {}, "Choose a picture"), " or drop one here; it is embedded by the model's own encoder."), preview, h("div", { class: "row" }, h("label", { class: "button primary" }, "Choose a picture", file))) };
}

export function close() { detail = null; }

export function update() { detail?.update?.(); }

/** Returns rows of numbers from JSON, JSON lines, or numbers with separators between them. */
export function read(text) {
  const embedding = (value) => (Array.isArray(value) ? value : value?.embedding);
  const trimmed = text.trim();
  if (!trimmed) return [];
  try {
    const value = JSON.parse(trimmed);
    if (Array.isArray(value) && value.length && typeof value[0] !== "number") return value.map(embedding);
    return [embedding(value) ?? fail("the object has no `embedding`")];
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const lines = trimmed.split(/\r?\n/).filter((line) => line.trim());
  if (/^[[{]/.test(lines[0].trim())) return lines.map((line) => embedding(JSON.parse(line)));
  const rows = lines.map((line) => line.trim().split(/[\s,;]+/).filter(Boolean).map(Number));
  if (rows.length > 1 && rows[0].some(Number.isNaN)) rows.shift(); // the first line has the names of columns
  if (rows.some((row) => row.some(Number.isNaN))) fail("an entry is not a number");
  return rows;
}

/** Returns the rows of a .npy file of 32- or 64-bit numbers. */
export function npy(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < 12 || view.getUint8(0) !== 0x93) fail("the file is not in the .npy format");
  const long = view.getUint8(6) > 1;
  const begin = long ? 12 : 10;
  const length = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder("latin1").decode(new Uint8Array(buffer, begin, length));
  const kind = /'descr':\s*'<(f4|f8)'/.exec(header)?.[1] ?? fail("the file has other numbers than 32- and 64-bit floats");
  if (/'fortran_order':\s*True/.test(header)) fail("the array is in Fortran order; save it with np.ascontiguousarray");
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? "").split(",").map((one) => one.trim()).filter(Boolean).map(Number);
  const bytes = buffer.slice(begin + length);
  const values = kind === "f4" ? new Float32Array(bytes) : new Float64Array(bytes);
  const columns = shape.length === 1 ? shape[0] : shape[1];
  if (shape.length > 2 || !columns) fail("the array must have one row of numbers per point");
  return Array.from({ length: Math.floor(values.length / columns) }, (_, row) => Array.from(values.subarray(row * columns, (row + 1) * columns)));
}

function fail(words) { throw new Error(words); }
