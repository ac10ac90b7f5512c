// Unit tests of the page's modules that need no browser (`node --test`, a part of `make lint-page`).

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { number, percent, plural, probability } from "../../page/format.js";
import { moved } from "../../page/keyboard.js";
import { Bounded } from "../../page/pictures.js";
import { npy, read } from "../../page/read.js";
import { asLabel, holds, isSame, missed, setOf, smallestAlpha, state, summary, take } from "../../page/sets.js";

const root = fileURLToPath(new URL("../../../..", import.meta.url));

test("numbers are read from JSON, JSON lines and text", () => {
  const rows = [
    ["[1, -2.5]", [[1, -2.5]]],
    [
      "[[1, 2], [3, 4]]",
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ['{"embedding": [1, 2]}', [[1, 2]]],
    [
      '[{"embedding": [1, 2], "id": "a"}, [3, 4]]',
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ['{"embedding": [1]}\n\n{"embedding": [2]}\r\n', [[1], [2]]],
    [
      "[1, 2]\n[3, 4]",
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ["1, 2; 3\t4", [[1, 2, 3, 4]]],
    [
      "x,y\n1,2\n3,4\n",
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ["1e-3", [[0.001]]],
    [" \n ", []],
  ];
  for (const [text, expected] of rows) assert.deepEqual(read(text), expected, text);
});

test("what is no embedding is refused in words", () => {
  const wrong = [
    ['{"vector": [1]}', "the object has no `embedding`"],
    ["[[1], null]", "the object has no `embedding`"],
    ["[[1], 2]", "an embedding is an array"],
    ['"words"', "an embedding is an array"],
    ['[[1, "2"]]', "an entry is not a number"],
    ['[1, "2"]', "an entry is not a number"],
    ["1, two", "an entry is not a number"],
    ["x,y\n1,z", "an entry is not a number"],
    ["[1, 2]\n[3, 4", "line 2 is not JSON"],
  ];
  for (const [text, message] of wrong) assert.throws(() => read(text), { message }, text);
});

/** Returns a .npy file. */
function file(descr, shape, values, { order = "False", version = 1, cut = 0 } = {}) {
  const header = Buffer.from(`{'descr': '${descr}', 'fortran_order': ${order}, 'shape': (${shape}), }\n`, "latin1");
  const head = Buffer.alloc(version > 1 ? 12 : 10);
  head.write("\x93NUMPY", "latin1");
  head[6] = version;
  if (version > 1) head.writeUInt32LE(header.length, 8);
  else head.writeUInt16LE(header.length, 8);
  const size = descr.endsWith("8") ? 8 : 4;
  const body = Buffer.alloc(values.length * size);
  values.forEach((value, place) => {
    if (size === 8) body.writeDoubleLE(value, 8 * place);
    else body.writeFloatLE(value, 4 * place);
  });
  const all = Buffer.concat([head, header, body]);
  return all.buffer.slice(all.byteOffset, all.byteOffset + all.length - cut);
}

test("files of numpy are read, whatever the length of their header", () => {
  assert.deepEqual(npy(file("<f4", "2, 3", [1, 2, 3, 4, 5, 6])), [
    [1, 2, 3],
    [4, 5, 6],
  ]);
  assert.deepEqual(npy(file("<f8", "3,", [0.1, 0.2, 0.3])), [[0.1, 0.2, 0.3]]);
  // The numbers need not begin at a multiple of their size.
  assert.deepEqual(npy(file("<f8", "1, 2", [0.5, -1], { version: 2 })), [[0.5, -1]]);
  assert.deepEqual(npy(file("<f4", "0, 3", [])), []);
});

test("files of numpy that cannot be read are refused in words", () => {
  const bad = file("<f4", "2, 2", [1, 2, 3, 4]);
  new Uint8Array(bad)[8] = 255;
  new Uint8Array(bad)[9] = 255;
  const wrong = [
    [new ArrayBuffer(0), "the file is not in the .npy format"],
    [new TextEncoder().encode("a text of some length").buffer, "the file is not in the .npy format"],
    [bad, "the file ends within its header"],
    [file("<i8", "1, 1", [1]), "the file has other numbers than 32- and 64-bit floats"],
    [file(">f4", "1, 1", [1]), "the file has other numbers than 32- and 64-bit floats"],
    [file("<f4", "2, 2", [1, 2, 3, 4], { order: "True" }), /Fortran order/],
    [file("<f4", "1, 1, 1", [1]), "the array must have one row of numbers per point"],
    [file("<f4", "", [1]), "the array must have one row of numbers per point"],
    [file("<f4", "2, 2", [1, 2, 3, 4], { cut: 1 }), "the file ends before its last number"],
    [file("<f4", "1000000, 1000000", [1]), "the file ends before its last number"],
  ];
  for (const [buffer, message] of wrong) assert.throws(() => npy(buffer), { message });
});

test("arrow keys move: tabs go round, lists end", () => {
  assert.equal(moved("ArrowRight", 3, 4, "horizontal"), 0);
  assert.equal(moved("ArrowLeft", 0, 4, "horizontal"), 3);
  assert.equal(moved("End", 0, 4, "horizontal"), 3);
  assert.equal(moved("Home", 3, 4, "vertical"), 0);
  assert.equal(moved("ArrowUp", 0, 4, "vertical"), 0);
  assert.equal(moved("ArrowDown", 3, 4, "vertical"), 3);
  assert.equal(moved("ArrowDown", 1, 4, "horizontal"), null);
  assert.equal(moved("a", 1, 4, "vertical"), null);
  assert.equal(moved("ArrowDown", 0, 0, "vertical"), null);
});

test("a cache keeps the values that were used last, and drops the others once", () => {
  const dropped = [];
  const cache = new Bounded(2, (value) => dropped.push(value));
  const get = (key) => cache.get(key, () => `made ${key}`);
  for (const key of ["a", "b", "a", "c", "a", "d"]) get(key);
  assert.deepEqual(dropped, ["made b", "made c"]);
  assert.equal(cache.values.size, 2);
  assert.equal(
    cache.get("a", () => "again"),
    "made a",
  );
});

test("a probability is never rounded to certain or impossible", () => {
  assert.equal(probability(1), percent(1));
  assert.equal(probability(0), percent(0));
  assert.equal(probability(0.999), `> ${percent(0.99)}`);
  assert.equal(probability(0.0001), `< ${percent(0.01)}`);
  assert.equal(probability(0.464), percent(0.46));
  assert.equal(plural(1, "class", "classes"), "1 class");
  assert.equal(plural(1200, "class", "classes"), `${number(1200)} classes`);
});

test("sets follow the level, and the best answer stands first in its set", () => {
  state.model = { classes: ["a", "b", "c"] };
  take({
    classes: ["a", "b", "c"],
    names: ["p", "q", "r"],
    labels: ["b", "c", "other"],
    // Point 0: a up to 0.20 and b up to 0.12; point 1: b at 0.02 alone; point 2: a new label up to 0.50.
    levels: [
      [0, 20, 1, 12],
      [1, `01${"0".repeat(48)}`],
      [3, 50],
    ],
    predictions: [1, 1, 0],
    probabilities: [0.6, 0.5, 0.4],
    used: [false, false, true],
    random: [1],
  });
  state.hundredths = 10;
  assert.deepEqual(setOf(0), [1, 0]);
  assert.deepEqual(setOf(1), []);
  assert.deepEqual([0, 1, 2].map(missed), [false, true, false]);
  state.hundredths = 15;
  assert.deepEqual(setOf(0), [0]);
  assert.ok(holds("01", 2) && !holds("01", 1) && holds(3, 3) && !holds(3, 4));
  // Points that took part in the fit or the calibration are not measured.
  state.hundredths = 10;
  const { measured, coverage, size } = summary([0, 1, 2]);
  assert.deepEqual([measured, coverage, size], [2, 0.5, 1]);
  assert.equal(smallestAlpha(9), 0.1);
});

test("a label keeps its kind", () => {
  state.model = { classes: [1, 2, 10] };
  assert.strictEqual(asLabel("10"), 10);
  assert.strictEqual(asLabel("3"), 3);
  assert.strictEqual(asLabel("new"), "new");
  state.model = { classes: ["1", "b"] };
  assert.strictEqual(asLabel("1"), "1");
  assert.strictEqual(asLabel("2"), "2");
  state.model = { classes: [true, false] };
  assert.strictEqual(asLabel("true"), true);
  assert.ok(isSame(7, "7") && !isSame(7, "70"));
});

test("the server has every file of the page", () => {
  const served = readFileSync(join(root, "crates/dance-serve/src/page.rs"), "utf8");
  const files = readdirSync(join(root, "crates/dance-serve/page")).filter((name) => name !== "package.json");
  for (const name of files) assert.ok(served.includes(`"${name}"`) || served.includes(`/page/${name}`), name);
});

test("no line of a script or a style is longer than 120 characters", () => {
  const folders = ["crates/dance-serve/page", "crates/dance-serve/tests/page", "crates/dance-page/assets", "tools"];
  const files = folders.flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(folder, name)));
  const ours = files.filter((name) => /\.(js|mjs|css|html|d\.ts)$/.test(name) && !name.endsWith("/plot.js"));
  assert.ok(ours.length > 20);
  for (const name of ours) {
    const lines = readFileSync(join(root, name), "utf8").split("\n");
    lines.forEach((line, place) => {
      assert.ok([...line].length <= 120, `${name}:${place + 1} has ${[...line].length}`);
    });
  }
});
