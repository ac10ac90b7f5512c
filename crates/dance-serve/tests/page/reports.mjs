// Tests of the pages that are files, in a browser (`make test-page`): the reports of `dance bench`,
// `dance demo` and `dance audit`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { axe, binary, browser, faults, fits, folder, LOOKS, open, pictures } from "./browser.mjs";
import { colours } from "./colours.mjs";

const run = (...args) =>
  execFileSync(binary, [...args, "--quiet"], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });

/** Checks that every chart is drawn, has a description and a headline with a number. */
async function drawn(page, where, least) {
  await page.waitForFunction(() =>
    [...document.querySelectorAll("figure.chart")].every((figure) => figure.querySelector(".plot svg")),
  );
  const charts = await page.locator("figure.chart").evaluateAll((figures) =>
    figures.map((figure) => {
      const svg = figure.querySelector(".plot svg");
      const marks = svg.querySelectorAll("path, circle, rect, line, text");
      return {
        id: figure.id,
        headline: figure.querySelector("h3").textContent,
        description: svg.getAttribute("aria-label"),
        role: svg.getAttribute("role"),
        width: svg.getBoundingClientRect().width,
        marks: marks.length,
        broken: svg.outerHTML.includes("NaN"),
      };
    }),
  );
  assert.ok(charts.length >= least, where);
  for (const chart of charts) {
    assert.ok(
      chart.width > 200 && chart.marks > 4 && !chart.broken && chart.role === "img" && chart.description,
      `${where}: ${JSON.stringify(chart)}`,
    );
    assert.match(chart.headline, /\d/, `${where}: ${chart.id} has a headline without a number`);
    assert.doesNotMatch(chart.headline, /NaN|inf/, `${where}: ${chart.id}`);
  }
}

/** Checks that the keyboard sorts a column, ascending and then descending. */
async function sorts(page) {
  const column = 2;
  await page.locator("table").first().locator("thead th").nth(column).locator("button").focus();
  const values = () =>
    page
      .locator("table")
      .first()
      .locator("tbody tr")
      .evaluateAll(
        (rows, column) =>
          rows.map((row) => Number(row.cells[column].dataset.value)).filter((value) => !Number.isNaN(value)),
        column,
      );
  await page.keyboard.press("Enter");
  const up = await values();
  await page.keyboard.press("Enter");
  const down = await values();
  assert.deepEqual(
    up,
    [...up].sort((a, b) => a - b),
  );
  assert.deepEqual(
    down,
    [...up].sort((a, b) => b - a),
  );
}

/** Checks that every chart has its numbers as a table, and that a list leads to every section. */
async function told(page, where) {
  const charts = await page.locator("figure.chart").count();
  for (const summary of await page.locator("figure.chart .as-table summary").all()) await summary.click();
  await page.waitForFunction((count) => document.querySelectorAll(".as-table table").length === count, charts);
  const tables = await page
    .locator(".as-table table")
    .evaluateAll((all) =>
      all.map((table) => [table.tHead.rows[0].cells.length, table.tBodies[0].rows.length, table.textContent]),
    );
  for (const [columns, rows, text] of tables) {
    assert.ok(columns > 1 && rows > 0 && !/NaN|undefined/.test(text), `${where}: ${columns}, ${rows}: ${text}`);
  }
  await axe(page, `${where}, tables of charts`);
  const headings = await page.locator("main section > h2").allTextContents();
  const links = page.locator("nav.contents a");
  const names = await links.allTextContents();
  for (const heading of headings) assert.ok(names.includes(heading), `${where}: ${heading}`);
  const missing = await links.evaluateAll(
    (all) => all.filter((link) => !document.getElementById(link.hash.slice(1))).length,
  );
  assert.equal(missing, 0);
}

/** Checks that every method that is named in the first column of a table is explained. */
async function explained(page) {
  const terms = await page.locator("dl.terms dt").allTextContents();
  const meanings = await page.locator("dl.terms dd").allTextContents();
  assert.ok(
    meanings.every((words) => words.length > 20),
    meanings.join(" | "),
  );
  const rows = await page.locator("main section > .scroll table").first().locator("tbody th").allTextContents();
  assert.ok(rows.length > 3);
  for (const method of rows) assert.ok(terms.includes(method), method);
}

/** Checks that the nearest points are named with their labels. */
async function named(page) {
  const table = page.locator("section", { has: page.getByRole("heading", { name: "Label errors" }) });
  const cells = await table.locator("tbody tr td:last-child").allTextContents();
  assert.ok(cells.length >= 3);
  for (const cell of cells) assert.match(cell, /^(picture-\d+ \(.+\)(; )?)+$/);
}

async function look(name, file, least, ...checks) {
  const url = pathToFileURL(file).href;
  for (const [look, options] of Object.entries(LOOKS)) {
    const page = await open(url, options);
    const where = `${name} (${look})`;
    await drawn(page, where, least);
    await fits(page, where);
    await axe(page, where);
    await page.screenshot({ path: join(pictures, `${name}-${look}.png`), fullPage: true });
    if (look === "light") {
      await sorts(page);
      await told(page, where);
      for (const check of checks) await check(page);
      assert.equal(await page.locator("figure b, figure i, td b, th b").count(), 0, "a name became HTML");
    }
    if (look === "dark") {
      await page.emulateMedia({ media: "print" });
      const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(paper, "rgb(255, 255, 255)", "what is printed is on white paper");
      await page.screenshot({ path: join(pictures, `${name}-print.png`), fullPage: true });
    }
    await page.context().close();
  }
  console.log(`ok: ${name}`);
}

try {
  colours(folder);
  run(
    "bench",
    "colours.csv",
    "-o",
    "results",
    "--seeds",
    "2",
    "--evaluations",
    "3",
    "--ablate",
    "mix,rank-neighbors,contrast-neighbors,reference",
  );
  await look("report", join(folder, "results", "report.html"), 4, explained);
  run("demo", "--evaluations", "3", "--report", "demo.html");
  await look("demo", join(folder, "demo.html"), 4, explained);
  // Every 33rd point has the label of another class; each class has some.
  const [head, ...rows] = readFileSync(join(folder, "colours.csv"), "utf8").trim().split("\n");
  const labelOf = (place) => rows[place % 4].split(",")[1];
  const swap = (row, place) => row.replace(labelOf(place), labelOf(place + 1 + (Math.floor(place / 33) % 3)));
  const wrong = rows.map((row, place) => (place % 33 === 0 ? swap(row, place) : row));
  assert.ok(wrong.filter((row, place) => row !== rows[place]).length > 10);
  writeFileSync(join(folder, "wrong.csv"), `${[head, ...wrong].join("\n")}\n`);
  run("audit", "wrong.csv", "-o", "audit");
  await look("audit", join(folder, "audit", "index.html"), 1, named);
  assert.deepEqual(faults, []);
  console.log("ok: nothing on the console, no request off the machine");
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
