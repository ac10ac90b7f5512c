// Tests of the pages that are files, in a browser (`make test-page`): the reports of `dance bench` and `dance demo`.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { axe, binary, browser, faults, fits, folder, LOOKS, open, pictures } from "./browser.mjs";
import { colours } from "./colours.mjs";

const run = (...args) =>
  execFileSync(binary, [...args, "--quiet"], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });

/** Checks that every chart is drawn, has a description and a headline with a number. */
async function drawn(page, where) {
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
  assert.ok(charts.length >= 4, where);
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

async function look(name, file) {
  const url = pathToFileURL(file).href;
  for (const [look, options] of Object.entries(LOOKS)) {
    const page = await open(url, options);
    const where = `${name} (${look})`;
    await drawn(page, where);
    await fits(page, where);
    await axe(page, where);
    await page.screenshot({ path: join(pictures, `${name}-${look}.png`), fullPage: true });
    if (look === "light") {
      await sorts(page);
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
  await look("report", join(folder, "results", "report.html"));
  run("demo", "--evaluations", "3", "--report", "demo.html");
  await look("demo", join(folder, "demo.html"));
  assert.deepEqual(faults, []);
  console.log("ok: nothing on the console, no request off the machine");
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
