// Tests of the page in a browser (`make test-page`). Arguments: the binary, and a folder for screenshots.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { axe, binary, browser, faults, fits, folder, LOOKS, open, pictures } from "./browser.mjs";
import { colours, png } from "./colours.mjs";

const servers = [];
function serve(...args) {
  return new Promise((done, fail) => {
    const child = spawn(binary, ["serve", "--port", "0", "--json", "--quiet", ...args], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, XDG_CACHE_HOME: join(folder, "cache") },
    });
    servers.push(child);
    child.stdout.once("data", (text) => done({ child, url: JSON.parse(text).url }));
    child.once("exit", (code) => fail(new Error(`the server ended with ${code}`)));
  });
}

const file = (name) => join(folder, name);
const run = (...args) =>
  execFileSync(binary, [...args, "--quiet"], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
const fit = (data, name, ...args) => run("fit", data, "-o", `${name}.dance`, "--split", "0.3,0.4,0.3", ...args);
/** Takes statuses that a test asks for out of the faults: the browser logs them. */
const expectStatus = (status) => faults.splice(0, faults.length, ...faults.filter((fault) => !fault.includes(status)));

const slide = (page, value) =>
  page.locator("#alpha").evaluate((slider, value) => {
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
  }, String(value));
const view = async (page, name, ready) => {
  await page.evaluate((name) => {
    location.hash = name;
  }, name);
  await page.waitForSelector(ready);
};
const labels = (locator) => locator.evaluateAll((chips) => chips.map((chip) => chip.dataset.label));
const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.point);

const VIEWS = [
  ["explore", "#detail .labels li"],
  ["coverage", ".chart svg"],
  ["review", "#under"],
  ["try", "#numbers"],
  ["api", ".operation"],
];

async function looks(url, name) {
  for (const [look, options] of Object.entries(LOOKS)) {
    const page = await open(url, options);
    const isPhone = look.startsWith("phone");
    for (const [path, ready] of VIEWS) {
      await view(page, path, isPhone && path === "explore" ? "#points li" : ready);
      await page.waitForLoadState("networkidle");
      await fits(page, `${path} (${look})`);
      await axe(page, `${path} (${look})`);
      await page.screenshot({ path: join(pictures, `${name}-${path}-${look}.png`), fullPage: path !== "explore" });
    }
    if (isPhone) {
      await view(page, "explore/0", "#detail .answer");
      await page.waitForLoadState("networkidle");
      await fits(page, `a point (${look})`);
      await axe(page, `a point (${look})`);
      await page.screenshot({ path: join(pictures, `${name}-point-${look}.png`), fullPage: true });
    }
    await page.context().close();
  }
}

/** The tests of one server with pictures. Each has a page of its own. */
const tests = {
  async "the slider changes sets and the overview"(page) {
    await page.waitForSelector("#detail .labels li.in");
    const look = async () => ({
      chips: await page.locator("#points .chip:not(.missed)").count(),
      coverage: parseFloat(await page.locator("#coverage").textContent()),
      inSet: await page.locator("#detail .labels li.in").count(),
    });
    await slide(page, 99);
    const sure = await look();
    await slide(page, 55);
    const loose = await look();
    const words = JSON.stringify([sure, loose]);
    assert.ok(sure.chips > loose.chips && sure.coverage > loose.coverage && sure.inSet >= loose.inSet, words);
    await slide(page, 90);
    // The page shows the set that the server returns.
    const row = page.locator("#points li").first();
    const place = Number(await row.getAttribute("data-point"));
    const expected = await explained(page, place);
    const shown = await labels(row.locator(".chip[data-label]"));
    assert.deepEqual(
      shown.sort(),
      expected.labels
        .filter((one) => one.in_set)
        .map((one) => one.label)
        .sort(),
    );
  },

  async "screen readers hear where the slider stopped, not every step"(page) {
    await page.waitForSelector("#points li");
    await page.waitForTimeout(1200);
    await page.evaluate(() => {
      globalThis.spoken = [];
      const watch = () => globalThis.spoken.push(document.getElementById("spoken").textContent);
      new MutationObserver(watch).observe(document.getElementById("spoken"), { childList: true });
    });
    for (let value = 80; value < 95; value++) await slide(page, value);
    await page.waitForTimeout(1200);
    const spoken = await page.evaluate(() => globalThis.spoken);
    assert.equal(spoken.length, 1);
    assert.match(spoken[0], /points.*labels per set.*hold the true label/);
    // Nothing else that a slider step changes is a live region.
    const live = "[role=status], [role=alert], [aria-live], output";
    assert.deepEqual(await page.locator(live).evaluateAll((all) => all.map((one) => one.id).sort()), [
      "key-wrong",
      "message",
      "spoken",
    ]);
  },

  async "the best answer and its probability are seen first, the p-value behind why"(page) {
    await page.waitForSelector("#detail .answer");
    const place = Number(await page.locator("#points li").first().getAttribute("data-point"));
    const { labels: all, prediction } = await explained(page, place);
    const best = all.find((one) => one.label === prediction);
    assert.equal(await page.locator("#detail .answer .best strong").textContent(), String(prediction));
    const shown = await page.locator("#detail .answer .best .sure").textContent();
    assert.match(shown, new RegExp(`${Math.round(100 * best.probability)}%|[<>]`));
    assert.match(shown, /probable/);
    const row = page.locator("#points li").first();
    assert.equal(await row.locator(".best strong").textContent(), String(prediction));
    assert.match(await row.locator(".best .sure").textContent(), /\d%$/);
    assert.match(await page.locator("#detail .answer").textContent(), /Best answer.*Set at 90%.*True label.*What now/s);
    // No p-value is seen before a person asks why; then the word stands before the number.
    assert.equal(
      await page
        .getByText(/p-value/)
        .filter({ visible: true })
        .count(),
      0,
    );
    await page.locator("#detail .labels summary").first().click();
    const words = await page
      .getByText(/^p-value/)
      .filter({ visible: true })
      .textContent();
    assert.equal(words, `p-value ${all.find((one) => one.label === prediction).p_value.toFixed(3)}`);
    assert.match(await page.locator("#detail .labels li").first().textContent(), /not a probability/);
    // The signs are explained.
    assert.match(
      await page.locator(".legend").textContent(),
      /best answer.*label in the set.*true label, in the set.*true label, not in the set/s,
    );
  },

  async "what is promised and what was measured stand apart"(page) {
    await page.waitForSelector("#points li");
    assert.equal(await page.locator("#promise").textContent(), "Promised");
    assert.match(await page.locator("#level-words").textContent(), /at least 90% of sets hold the true label/);
    assert.match(await page.locator("#overview").textContent(), /measured: [\d.]+% of these sets/);
    await view(page, "coverage", ".chart svg");
    const [promised, measured] = [page.locator(".promised"), page.locator(".measured")];
    assert.match(await promised.textContent(), /^Promised.*at least 90%.*on average/s);
    assert.match(await measured.textContent(), /^Measured\d+(\.\d)?% of sets hold the true label/);
    assert.doesNotMatch(await promised.textContent(), /Measured/);
  },

  async "search and filters find their points"(page) {
    await page.waitForSelector("#points li");
    await page.selectOption("#by-mark", "missed");
    const missed = await page.locator("#points .point").count();
    assert.equal(await page.locator("#points .chip.missed").count(), missed);
    assert.equal(await page.locator("#points .chip.true").count(), 0);
    await page.selectOption("#by-mark", "");
    await page.selectOption("#by-size", "1");
    assert.ok((await page.locator("#points li").count()) > 3);
    for (const chips of await page.locator("#points .chips").all()) {
      assert.equal(await chips.locator(".chip[data-label]").count(), 1);
    }
  },

  async "arrow keys move through the points, of which one is in the tab order"(page) {
    await page.waitForSelector("#points li");
    const inTabOrder = () => page.locator("#points a[tabindex='0']").count();
    const points = await page.locator("#points a").evaluateAll((all) => all.map((one) => one.dataset.point));
    await page.locator("#points a").first().focus();
    for (const [key, place] of [
      ["ArrowDown", 1],
      ["ArrowDown", 2],
      ["ArrowUp", 1],
      ["End", 39],
      ["Home", 0],
      ["ArrowUp", 0],
    ]) {
      await page.keyboard.press(key);
      assert.equal(await focused(page), points[place], key);
      assert.equal(await inTabOrder(), 1);
    }
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForSelector(`#points a[data-point="${points[1]}"][aria-current=true]`);
    assert.equal(await page.evaluate(() => location.hash), `#explore/${points[1]}`);
    const current = await page
      .locator("#points a[aria-current]")
      .evaluateAll((all) => all.map((one) => [one.dataset.point, one.ariaCurrent]));
    assert.deepEqual(current, [[points[1], "true"]]);
    assert.equal(await page.locator("header nav a[aria-current=page]").textContent(), "Explore");
  },

  async "arrow keys move through the queues, and a panel has the name of its tab"(page) {
    await view(page, "review", "#under");
    const tabs = page.locator("[role=tab]");
    const names = await tabs.evaluateAll((all) => all.map((one) => one.id));
    assert.equal(names.length, 4);
    await tabs.first().focus();
    for (const [key, place] of [
      ["ArrowRight", 1],
      ["ArrowRight", 2],
      ["End", 3],
      ["ArrowRight", 0],
      ["ArrowLeft", 3],
      ["Home", 0],
      ["ArrowRight", 1],
    ]) {
      await page.keyboard.press(key);
      assert.equal(await focused(page), names[place], key);
      assert.deepEqual(await tabs.evaluateAll((all) => all.filter((one) => one.tabIndex === 0).map((one) => one.id)), [
        names[place],
      ]);
      assert.equal(await page.locator("[role=tab][aria-selected=true]").getAttribute("id"), names[place]);
      assert.equal(await page.locator("[role=tabpanel]").getAttribute("aria-labelledby"), names[place]);
    }
    await page.getByText("The model is least certain of these points.").waitFor();
    await page.waitForSelector(".detail .answer");
    await axe(page, "a queue of picked points");
    await page.screenshot({ path: join(pictures, "pictures-queue-light.png"), fullPage: true });
  },

  async "single keys do nothing where they are turned off, also after a reload"(page) {
    await view(page, "review", "#under");
    const point = () => page.locator("#under").getAttribute("data-point");
    const before = await point();
    await page.uncheck("#shortcuts");
    await page.locator("#main").focus();
    for (const key of ["1", "s", "Enter", "/"]) await page.keyboard.press(key);
    assert.equal(await point(), before);
    assert.equal(await focused(page), "main");
    await page.reload();
    await page.waitForSelector("#under");
    assert.equal(await page.isChecked("#shortcuts"), false);
    await page.keyboard.press("1");
    assert.equal(await point(), before);
    await page.check("#shortcuts");
  },

  async "a random point shows neither the label in the file nor the answer before a person asks"(page) {
    await view(page, "review", "#under");
    assert.equal(await page.locator(".answer").filter({ visible: true }).count(), 0);
    assert.equal(await page.locator(".option.given").count(), 0);
    const options = await page.locator(".option span").allTextContents();
    assert.deepEqual(
      options,
      [...options].sort((a, b) => a.localeCompare(b)),
    );
    await page.getByText("Show the label in the file").click();
    await page.waitForSelector(".hidden-answer .answer");
    assert.match(await page.locator(".hidden-answer .answer").textContent(), /Label in the file/);
    assert.doesNotMatch(await page.locator(".hidden-answer .answer").textContent(), /true label/i);
  },

  async "every chart has its numbers as a table"(page) {
    await view(page, "coverage", ".chart svg");
    const charts = await page.locator("figure.chart").count();
    assert.equal(await page.locator("figure.chart .as-table").count(), charts);
    for (const summary of await page.locator(".as-table summary").all()) await summary.click();
    await page.waitForFunction((count) => document.querySelectorAll(".as-table table").length === count, charts);
    const rows = await page
      .locator(".as-table table")
      .evaluateAll((tables) => tables.map((table) => table.tBodies[0].rows.length));
    assert.ok(rows.length === charts && rows.every((count) => count > 1), String(rows));
    const first = await page.locator(".as-table table").first().locator("tbody tr").first().textContent();
    assert.match(first, /^99%\d/);
    await axe(page, "tables of charts");
  },

  async "a phone shows the list first, then one point with a way back"() {
    const page = await open(server.url, LOOKS.phone);
    await page.waitForSelector("#points li");
    assert.equal(await page.locator("#detail").isVisible(), false);
    const top = await page
      .locator("#points li")
      .first()
      .evaluate((row) => row.getBoundingClientRect().top);
    assert.ok(top < 600, `the list begins at ${top}`);
    const third = page.locator("#points a").nth(2);
    const point = await third.getAttribute("data-point");
    await third.click();
    await page.waitForSelector("#detail .answer");
    assert.equal(await page.locator("#points").isVisible(), false);
    await page.getByText("← All points").click();
    await page.waitForSelector("#points li");
    assert.equal(await page.locator("#detail").isVisible(), false);
    assert.equal(await focused(page), point);
    assert.equal(await page.locator(".keys").filter({ visible: true }).count(), 0);
    await page.context().close();
  },

  async "numbers are written as the reader's language writes them"() {
    const page = await open(`${server.url}#coverage`, { locale: "de-DE" });
    await page.waitForSelector(".chart svg");
    assert.match(await page.locator(".measured .figure").textContent(), /^\d+,\d\u00a0% of sets/);
    assert.match(await page.locator("#level-words").textContent(), /90\u00a0%.*0,10/);
    assert.match(await page.locator(".chart svg").first().textContent(), /\d,\d\u00a0%/);
    await page.context().close();
  },
};

/** Returns the explanation of a point of the page. */
const explained = (page, point) =>
  page.evaluate(async (point) => {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ point, alpha: 0.1 });
    return (await fetch("/page-api/explain", { method: "POST", headers, body })).json();
  }, point);

let server;
try {
  colours(folder);
  fit("colours.csv", "colours", "--test-out", "test.csv", "--evaluations", "2");
  const args = [file("colours.dance"), "--points", file("test.csv"), "--pictures", file("pictures")];
  server = await serve(...args);
  const url = server.url;
  for (const [name, test] of Object.entries(tests)) {
    const page = await open(url);
    await test(page);
    await page.context().close();
    console.log(`ok: ${name}`);
  }
  await looks(url, "pictures");
  console.log("ok: every view in light, dark and on a phone, and to a screen reader");

  // Each example has its own picture: the pixel has the colour of the file.
  {
    const page = await open(url);
    await page.waitForSelector("#detail .example img[src^=blob]");
    await page.waitForLoadState("networkidle");
    const colour = async (image) => {
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
      canvas.getContext("2d").drawImage(image, 0, 0, 1, 1);
      return [image.alt, [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data].slice(0, 3)];
    };
    const images = await page.locator(".nearest .example img").all();
    const shown = await Promise.all(images.map((image) => image.evaluate(colour)));
    const lines = readFileSync(file("colours.csv"), "utf8").trim().split("\n").slice(1);
    const rows = new Map(
      lines.map((line) => {
        const cells = line.split(",");
        return [cells[0], cells.slice(-3).map((part) => Math.round(255 * part))];
      }),
    );
    assert.ok(shown.length > 3);
    for (const [id, pixel] of shown) assert.deepEqual(pixel, rows.get(id), id);
    assert.equal(await page.locator("#points b").count(), 0, "a class name became HTML");
    await page.context().close();
    console.log("ok: neighbors are shown with the right pictures");
  }

  // Labels survive kill -9.
  {
    let page = await open(`${url}#review`);
    const decided = () => page.locator("#progress strong").textContent();
    await page.waitForSelector("#under");
    assert.match(await decided(), /^0 of/);
    for (const keys of [["2"], ["1"], ["/", ..."blue", "Enter"]]) {
      const before = await page.locator("#under").getAttribute("data-point");
      for (const key of keys) await page.keyboard.press(key);
      await page.waitForFunction((before) => document.querySelector("#under")?.dataset.point !== before, before);
    }
    assert.match(await decided(), /^3 of/);
    await page.context().close();
    const gone = new Promise((done) => server.child.once("exit", done));
    server.child.removeAllListeners("exit");
    server.child.kill("SIGKILL");
    await Promise.race([gone, new Promise((done) => server.child.once("close", done))]);
    server = await serve(...args);
    page = await open(`${server.url}#review`);
    await page.waitForSelector("#under");
    assert.match(await decided(), /^3 of/);
    // Another view knows them too, at once.
    const other = await open(server.url);
    await other.waitForSelector("#points li");
    await other.selectOption("#by-mark", "known");
    assert.equal(await other.locator("#points li").count(), 3);
    await other.context().close();
    await view(page, "coverage", ".chart svg");
    assert.equal(await page.locator("h3", { hasText: "3 random points were covered" }).count(), 1);
    assert.equal(await page.getByText("No alarm over 3 labels").count(), 1);
    await page.screenshot({ path: join(pictures, "pictures-monitor-light.png"), fullPage: true });
    await page.context().close();
    console.log("ok: a review survives kill -9");
  }

  // An entered point.
  {
    const page = await open(`${server.url}#try`);
    await page.getByText("The answer appears here").waitFor();
    await page.fill("#numbers", "0.8 0.2 0.2");
    await page.click("#ask");
    await page.waitForSelector(".detail .answer");
    assert.equal(await page.locator(".detail .answer .best strong").textContent(), "red");
    await page.fill("#numbers", "0.8 0.2");
    const failed = page.waitForResponse("**/page-api/explain");
    await page.click("#ask");
    await failed;
    await page.getByText("2 numbers, but the model was fitted with 3 dimensions").waitFor();
    expectStatus("422");
    // Whoever has no embedding can look at a point of the page.
    await page.click("#example");
    await page.waitForSelector(".detail .answer");
    await page.context().close();
    console.log("ok: an entered point");
  }

  // A picture, embedded by the encoder that the model names: a tiny CLIP.
  {
    const clip = fileURLToPath(new URL("../../../dance-embed/tests/files/clip", import.meta.url));
    for (const [kind, base] of Object.entries({ dark: 20, light: 150 })) {
      mkdirSync(join(folder, "photos", kind), { recursive: true });
      for (let number = 0; number < 60; number++) {
        const colour = [7, 31, 53].map((step) => base + ((step * (number + 3)) % 80));
        writeFileSync(join(folder, "photos", kind, `${number}.png`), png(colour));
      }
    }
    run("embed", "photos", "-o", "photos.npz", "--encoder", clip);
    fit("photos.npz", "photos", "--test-out", "photos-test.npz", "--evaluations", "1");
    const seeing = await serve(file("photos.dance"), "--encoder", "auto");
    const page = await open(`${seeing.url}#try`);
    await page.setInputFiles("#picture", join(folder, "photos", "light", "7.png"));
    await page.waitForSelector(".detail .answer");
    assert.equal(await page.locator(".detail .answer .best strong").textContent(), "light");
    const isDrawn = (image) => image.decode().then(() => image.naturalWidth === 16);
    assert.ok(await page.locator(".drop img").evaluate(isDrawn));
    await axe(page, "try a picture");
    await page.screenshot({ path: join(pictures, "pictures-own-light.png"), fullPage: true });
    await page.context().close();
    console.log("ok: a picture");
  }

  // Models of other methods: a set can hold a new label, and the method dance has two p-values and no guarantee.
  {
    const lines = readFileSync(file("colours.csv"), "utf8").trim().split("\n");
    const isSingle = (row) => row > 0 && row % 5 === 0;
    const single = lines.map((line, row) =>
      isSingle(row) ? line.replace(/,.*?(,[\d.e-]+,[\d.e-]+,[\d.e-]+)$/, `,name ${row}$1`) : line,
    );
    writeFileSync(file("single.csv"), `${single.join("\n")}\n`);
    fit("single.csv", "new", "--test-out", "new.csv", "--evaluations", "2", "--new-labels");
    const news = await serve(file("new.dance"), "--points", file("new.csv"));
    let page = await open(news.url);
    await page.waitForSelector("#points li");
    const withNew = page.locator("#points li", { has: page.locator(".chip[data-label='a new label']") });
    await withNew.first().locator("a").click();
    await page.locator(".answer .chip[data-label='a new label']").waitFor();
    await page.getByText(/a class that the model has never seen|one that the model has never seen/).waitFor();
    await view(page, "coverage", ".chart svg");
    assert.equal(await page.getByText("The name of a new label").count(), 1);
    await page.context().close();
    fit("single.csv", "dance", "--test-out", "dance.csv", "--evaluations", "2", "--method", "dance");
    const paper = await serve(file("dance.dance"), "--points", file("dance.csv"));
    page = await open(paper.url);
    await page.locator("#detail .labels summary").first().click();
    await page
      .getByText(/rank \d\.\d+, contrastive score \d\.\d+/)
      .first()
      .waitFor();
    assert.equal(await page.locator("#promise").textContent(), "Target");
    assert.match(await page.locator("#level-words").textContent(), /promises nothing/);
    await view(page, "coverage", ".chart svg");
    assert.equal(await page.getByText("The sets of this model have no guarantee.").count(), 1);
    await page.context().close();
    console.log("ok: models of other methods");
  }

  // With a key. Escape stores nothing, and the page says how to go on.
  {
    writeFileSync(file("keys"), "0123456789abcdef\n");
    const journal = ["--journal", file("locked.jsonl")];
    const locked = await serve(file("colours.dance"), "--api-key-file", file("keys"), ...journal);
    const page = await open(locked.url);
    await page.waitForSelector("#key[open]");
    await page.keyboard.press("Escape");
    await page.getByText("This server answers only requests with a key.").waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    await axe(page, "without a key");
    await page.getByRole("button", { name: "Enter a key" }).click();
    await page.waitForSelector("#key[open]");
    await page.fill("#key-text", "0123456789abcdef");
    await page.keyboard.press("Enter");
    await page.getByText("This server has no points").waitFor();
    expectStatus("401");
    await page.context().close();
    console.log("ok: a key is needed");
  }

  // The data set that ships, with texts.
  const shipped = await serve();
  await looks(shipped.url, "texts");
  console.log("ok: the data set that ships");

  assert.deepEqual(faults, []);
  console.log("ok: nothing on the console, no request off the machine");
} finally {
  for (const child of servers) {
    child.removeAllListeners("exit");
    child.kill("SIGKILL");
  }
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
