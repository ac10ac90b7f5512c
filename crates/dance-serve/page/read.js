// Embeddings that a person pastes or drops: JSON, JSON lines, numbers with separators, and .npy files.

/** @param {string} words @returns {never} */
function fail(words) {
  throw new Error(words);
}

/** Returns the embedding of one value of JSON: an array, or an object with the member `embedding`.
 * @param {any} value @returns {number[]} */
function embedding(value) {
  const found = Array.isArray(value) ? value : value?.embedding;
  if (!Array.isArray(found))
    fail(typeof value === "object" ? "the object has no `embedding`" : "an embedding is an array");
  if (!found.every((/** @type {unknown} */ one) => typeof one === "number")) fail("an entry is not a number");
  return found;
}

/** Returns rows of numbers from JSON, JSON lines, or numbers with separators between them.
 * @param {string} text @returns {number[][]} */
export function read(text) {
  const trimmed = text.trim();
  if (!trimmed) return [];
  const whole = parsed(trimmed);
  if (whole !== undefined) {
    if (Array.isArray(whole) && whole.length && typeof whole[0] !== "number") return whole.map(embedding);
    if (typeof whole !== "number") return [embedding(whole)];
  }
  const lines = trimmed.split(/\r?\n/).filter((line) => line.trim());
  if (/^[[{]/.test(lines[0].trim())) {
    return lines.map((line, place) => embedding(parsed(line) ?? fail(`line ${place + 1} is not JSON`)));
  }
  const rows = lines.map((line) =>
    line
      .trim()
      .split(/[\s,;]+/)
      .filter(Boolean)
      .map(Number),
  );
  if (rows.length > 1 && rows[0].some(Number.isNaN)) rows.shift(); // the first line has the names of columns
  if (rows.some((row) => row.some(Number.isNaN))) fail("an entry is not a number");
  return rows;
}

/** Returns the value of a text in JSON, or undefined if it is none. @param {string} text @returns {any} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the rows of a .npy file of 32- or 64-bit numbers.
 * @param {ArrayBuffer} buffer @returns {number[][]} */
export function npy(buffer) {
  const bytes = new Uint8Array(buffer);
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(0, 6)) !== "\x93NUMPY") {
    fail("the file is not in the .npy format");
  }
  // Versions 2 and 3 have longer headers.
  const view = new DataView(buffer);
  const isLong = bytes[6] > 1;
  const begin = isLong ? 12 : 10;
  const end = begin + (isLong ? view.getUint32(8, true) : view.getUint16(8, true));
  if (end > bytes.length) fail("the file ends within its header");
  const header = new TextDecoder("latin1").decode(bytes.subarray(begin, end));
  const kind = /'descr':\s*'<(f4|f8)'/.exec(header)?.[1];
  if (!kind) fail("the file has other numbers than 32- and 64-bit floats");
  if (/'fortran_order':\s*True/.test(header)) {
    fail("the array is in Fortran order; save it with np.ascontiguousarray");
  }
  const inside = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? fail("the header has no shape");
  const shape = inside
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean)
    .map(Number);
  const [rows, columns] = shape.length === 1 ? [1, shape[0]] : shape;
  if (shape.length < 1 || shape.length > 2 || !columns) fail("the array must have one row of numbers per point");
  const size = kind === "f4" ? 4 : 8;
  if (bytes.length - end < rows * columns * size) fail("the file ends before its last number");
  const at = (/** @type {number} */ place) =>
    kind === "f4" ? view.getFloat32(end + place * size, true) : view.getFloat64(end + place * size, true);
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns }, (_, column) => at(row * columns + column)),
  );
}
