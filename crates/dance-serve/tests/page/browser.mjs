// A real browser for the tests of pages: Debian's Chromium, or what CHROMIUM names. Takes the binary and a folder for screenshots.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [given, pictures] = process.argv.slice(2);
// Some runs have a folder of their own.
export const binary = resolve(given);
export { pictures };
const require = createRequire(join(process.cwd(), "package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** A folder for the files of a test; whoever uses it removes it. */
export const folder = mkdtempSync(join(tmpdir(), "dance-page-"));
mkdirSync(pictures, { recursive: true });

export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
/** What no page may do: errors on the console, requests off the machine. */
export const faults = [];

export async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  // While the page is being worked on: its files from here, not from the binary.
  if (process.env.PAGE_FILES) await context.route(/\/page\/[a-z.]+$/, (route) => {
    const name = new URL(route.request().url()).pathname.split("/").pop();
    const path = process.env.PAGE_FILES.split(":").map((one) => join(one, name)).find(existsSync);
    return route.fulfill({ path, contentType: name.endsWith(".css") ? "text/css" : "text/javascript" });
  });
  const page = await context.newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => { if (!request.url().startsWith(url.split("#")[0]) && !request.url().startsWith("blob:")) faults.push(`request off the machine: ${request.url()}`); });
  await page.goto(url);
  return page;
}

export async function axe(page, where) {
  // Through the debugger, which the page's policy does not hold back.
  const found = await page.evaluate(`${AXE}; axe.run(document, { resultTypes: ["violations"] })`);
  const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(serious.map((one) => `${where}: ${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(" ")}`), []);
}

/** Whether all of a page is within its window. */
export async function fits(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where} is ${wide} pixels too wide`);
}

export const LOOKS = { light: { colorScheme: "light" }, dark: { colorScheme: "dark" }, phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", deviceScaleFactor: 2 } };
