// Tests of the page in a browser (`make test-page`). Arguments: the binary, and a folder for screenshots.

import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { axe, binary, browser, faults, fits, folder, LOOKS, open, pictures } from "./browser.mjs";
import { colours, png } from "./colours.mjs";

const servers = [];
function serve(...args) {
  return new Promise((done, fail) => {
    const child = spawn(binary, ["serve", "--port", "0", "--json", "--quiet", ...args], { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, XDG_CACHE_HOME: join(folder, "cache") } });
    servers.push(child);
    child.stdout.once("data", (text) => done({ child, url: JSON.parse(text).url }));
    child.once("exit", (code) => fail(new Error(`the server ended with ${code}`)));
  });
}

const slide = (page, value) => page.locator("#alpha").evaluate((slider, value) => { slider.value = value; slider.dispatchEvent(new Event("input")); }, String(value));
const view = async (page, name, ready) => { await page.evaluate((name) => { location.hash = name; }, name); await page.waitForSelector(ready); };

const VIEWS = [["explore", "#detail .labels li"], ["coverage", ".chart svg"], ["review", "#under"], ["try", "#numbers"], ["api", ".operation"]];
const tests = {
  async "the slider changes sets and the overview"(url) {
    const page = await open(url);
    await page.waitForSelector("#detail .labels li.in");
    const look = async () => ({ chips: await page.locator("#points .chip").count(), coverage: parseFloat(await page.locator("#coverage").textContent()), inSet: await page.locator("#detail .labels li.in").count() });
    await slide(page, 99);
    const sure = await look();
    await slide(page, 55);
    const loose = await look();
    assert.ok(sure.chips > loose.chips && sure.coverage > loose.coverage && sure.inSet >= loose.inSet, JSON.stringify([sure, loose]));
    await slide(page, 90);
    // The page shows the set that the server returns.
    const place = Number(await page.locator("#points li").first().getAttribute("data-point"));
    const expected = await page.evaluate(async (point) => (await (await fetch("/page-api/explain", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ point, alpha: 0.1 }) })).json()).labels.filter((one) => one.in_set).map((one) => one.label).sort(), place);
    const chips = await page.locator("#points li").first().locator(".chip:not(.empty):not(.more)").allTextContents();
    assert.deepEqual(chips.sort(), expected.slice(0, 6));
    await page.context().close();
  },

  async "search and filters find their points"(url) {
    const page = await open(url);
    await page.waitForSelector("#points li");
    await page.selectOption("#by-mark", "missed");
    const missed = await page.locator("#points .point").count();
    assert.equal(await page.locator("#points .point.missed").count(), missed);
    assert.equal(await page.locator("#points .chip.true").count(), 0);
    await page.selectOption("#by-mark", "");
    await page.selectOption("#by-size", "1");
    for (const chips of await page.locator("#points .chips").all()) assert.equal(await chips.locator(".chip").count(), 1);
    await page.context().close();
  },

  async "every view looks right in light, dark and on a phone, and to a screen reader"(url, name) {
    for (const [look, options] of Object.entries(LOOKS)) {
      const page = await open(url, options);
      for (const [path, ready] of VIEWS) {
        await view(page, path, ready);
        await page.waitForLoadState("networkidle");
        await fits(page, `${path} (${look})`);
        await axe(page, `${path} (${look})`);
        await page.screenshot({ path: join(pictures, `${name}-${path}-${look}.png`), fullPage: look !== "phone" || path !== "explore" });
      }
      await page.context().close();
    }
  },
};

try {
  colours(folder);
  execFileSync(binary, ["fit", join(folder, "colours.csv"), "-o", join(folder, "colours.dance"), "--split", "0.3,0.4,0.3", "--test-out", join(folder, "test.csv"), "--evaluations", "2", "--quiet"]);
  const model = join(folder, "colours.dance");
  const args = [model, "--points", join(folder, "test.csv"), "--pictures", join(folder, "pictures")];
  let server = await serve(...args);
  for (const [name, test] of Object.entries(tests)) {
    await test(server.url, "pictures");
    console.log(`ok: ${name}`);
  }

  // Each example has its own picture: the pixel has the colour of the file.
  {
    const page = await open(server.url);
    await page.waitForSelector("#detail .example img[src^=blob]");
    await page.waitForLoadState("networkidle");
    const shown = await page.locator("#detail .example img").evaluateAll(async (images) => Promise.all(images.map(async (image) => {
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
      canvas.getContext("2d").drawImage(image, 0, 0, 1, 1);
      return [image.alt, [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data].slice(0, 3)];
    })));
    const rows = new Map(readFileSync(join(folder, "colours.csv"), "utf8").trim().split("\n").slice(1).map((line) => [line.split(",")[0], line.split(",").slice(-3).map((part) => Math.round(255 * part))]));
    assert.ok(shown.length > 3);
    for (const [id, pixel] of shown) assert.deepEqual(pixel, rows.get(id), id);
    assert.equal(await page.locator("#points b").count(), 0, "a class name became HTML");
    await page.context().close();
    console.log("ok: neighbors are shown with the right pictures");
  }

  // Labels survive kill -9.
  {
    let page = await open(`${server.url}/#review`);
    const decided = () => page.locator("#progress strong").textContent();
    await page.waitForSelector("#under");
    assert.match(await decided(), /^0 of/);
    for (const keys of [["Enter"], ["1"], ["/", ..."blue", "Enter"]]) {
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
    page = await open(`${server.url}/#review`);
    await page.waitForSelector("#under");
    assert.match(await decided(), /^3 of/);
    await view(page, "coverage", ".chart svg");
    assert.ok(await page.getByText("3 audited points were covered").count() === 1);
    assert.ok(await page.getByText("No alarm over 3 labels").count() === 1);
    await page.screenshot({ path: join(pictures, "pictures-monitor-light.png"), fullPage: true });
    await page.context().close();
    console.log("ok: a review survives kill -9");
  }

  // An entered point.
  {
    const page = await open(`${server.url}/#try`);
    await page.fill("#numbers", "0.8 0.2 0.2");
    await page.click("#ask");
    await page.waitForSelector(".detail .labels li.in");
    assert.equal(await page.locator(".detail .labels li.in .name").first().textContent(), "red");
    await page.fill("#numbers", "0.8 0.2");
    const failed = page.waitForResponse("**/page-api/explain");
    await page.click("#ask");
    await failed;
    await page.getByText("2 numbers, but the model was fitted with 3 dimensions").waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !fault.includes("422"))); // the browser logs the status
    await page.context().close();
    console.log("ok: an entered point");
  }

  // A picture, embedded by the encoder that the model names: a tiny CLIP.
  {
    const clip = fileURLToPath(new URL("../../../dance-embed/tests/files/clip", import.meta.url));
    for (const [kind, base] of [["dark", 20], ["light", 150]]) {
      mkdirSync(join(folder, "photos", kind), { recursive: true });
      for (let number = 0; number < 60; number++) writeFileSync(join(folder, "photos", kind, `${number}.png`), png([7, 31, 53].map((step) => base + (step * (number + 3)) % 80)));
    }
    const run = (...args) => execFileSync(binary, [...args, "--quiet"], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
    run("embed", "photos", "-o", "photos.npz", "--model", clip);
    run("fit", "photos.npz", "-o", "photos.dance", "--split", "0.4,0.4,0.2", "--test-out", "photos-test.npz", "--evaluations", "1");
    const seeing = await serve(join(folder, "photos.dance"), "--encoder", "auto");
    const page = await open(`${seeing.url}/#try`);
    await page.setInputFiles("#picture", join(folder, "photos", "light", "7.png"));
    await page.waitForSelector(".detail .labels li.in");
    assert.equal(await page.locator(".detail .labels li.in .name").first().textContent(), "light");
    assert.ok(await page.locator(".drop img").evaluate((image) => image.decode().then(() => image.naturalWidth === 16)));
    await axe(page, "try a picture");
    await page.screenshot({ path: join(pictures, "pictures-own-light.png"), fullPage: true });
    await page.context().close();
    console.log("ok: a picture");
  }

  // Models of other methods: a set can hold a new label, and the method dance has two p-values.
  {
    const lines = readFileSync(join(folder, "colours.csv"), "utf8").trim().split("\n");
    const single = lines.map((line, row) => (row > 0 && row % 5 === 0 ? line.replace(/,.*?(,[\d.e-]+,[\d.e-]+,[\d.e-]+)$/, `,name ${row}$1`) : line));
    writeFileSync(join(folder, "single.csv"), single.join("\n") + "\n");
    const run = (name, ...args) => execFileSync(binary, ["fit", "single.csv", "-o", `${name}.dance`, "--split", "0.3,0.4,0.3", "--test-out", `${name}.csv`, "--evaluations", "2", "--quiet", ...args], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
    const file = (name) => join(folder, name);
    run("new", "--new-labels");
    const news = await serve(file("new.dance"), "--points", file("new.csv"));
    let page = await open(news.url);
    await page.waitForSelector("#points li");
    assert.ok(await page.locator("#points .chip", { hasText: /^a new label$/ }).count() > 0);
    await page.locator("#points li", { has: page.locator(".chip", { hasText: /^a new label$/ }) }).first().locator("a").click();
    await page.getByText(/the set holds .*a new label/).waitFor();
    await view(page, "coverage", ".chart svg");
    assert.equal(await page.getByText("The name of a new label").count(), 1);
    await page.context().close();
    run("dance", "--method", "dance");
    const paper = await serve(file("dance.dance"), "--points", file("dance.csv"));
    page = await open(paper.url);
    await page.getByText(/rank \d\.\d+, contrastive score \d\.\d+/).first().waitFor();
    await view(page, "coverage", ".chart svg");
    assert.equal(await page.getByText("The sets of this model have no guarantee.").count(), 1);
    await page.context().close();
    console.log("ok: models of other methods");
  }

  // With a key.
  {
    writeFileSync(join(folder, "keys"), "0123456789abcdef\n");
    const locked = await serve(model, "--api-key-file", join(folder, "keys"), "--journal", join(folder, "locked.jsonl"));
    const page = await open(locked.url);
    await page.waitForSelector("#key[open]");
    await page.fill("#key-text", "0123456789abcdef");
    await page.keyboard.press("Enter");
    await page.getByText("This server has no points").waitFor();
    faults.splice(0, faults.length, ...faults.filter((fault) => !fault.includes("401")));
    await page.context().close();
    console.log("ok: a key is needed");
  }

  // The data set that ships, with texts.
  const shipped = await serve();
  await tests["every view looks right in light, dark and on a phone, and to a screen reader"](shipped.url, "texts");
  console.log("ok: the data set that ships");

  assert.deepEqual(faults, []);
  console.log("ok: nothing on the console, no request off the machine");
} finally {
  for (const server of servers) { server.removeAllListeners("exit"); server.kill("SIGKILL"); }
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}

