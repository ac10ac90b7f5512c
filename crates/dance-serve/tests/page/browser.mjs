// The browser for tests of pages: Debian's Chromium, or that of the variable CHROMIUM.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [given, pictures] = process.argv.slice(2);
// Some tests change the working directory of the binary, so its path is absolute.
export const binary = resolve(given);
export { pictures };

const require = createRequire(join(process.cwd(), "package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** The folder for the files of a test, which the test removes. */
export const folder = mkdtempSync(join(tmpdir(), "dance-page-"));
mkdirSync(pictures, { recursive: true });

export const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: FLAGS,
});
/** The faults of all pages: errors on the console and requests to other machines. */
export const faults = [];

export async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  // With PAGE_FILES the page has its files from these folders, not from the binary.
  if (process.env.PAGE_FILES)
    await context.route(/\/page\/[a-z.]+$/, (route) => {
      const name = new URL(route.request().url()).pathname.split("/").pop();
      const path = process.env.PAGE_FILES.split(":")
        .map((one) => join(one, name))
        .find(existsSync);
      return route.fulfill({ path, contentType: name.endsWith(".css") ? "text/css" : "text/javascript" });
    });
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(url.split("#")[0]) && !request.url().startsWith("blob:"))
      faults.push(`request off the machine: ${request.url()}`);
  });
  await page.goto(url);
  return page;
}

/** Checks that axe finds nothing, of whatever impact. */
export async function axe(page, where) {
  // The script runs through the debugger, which the page's content policy does not block.
  const { violations } = await page.evaluate(`${AXE}; axe.run(document, { resultTypes: ["violations"] })`);
  const html = (one) => one.nodes.slice(0, 3).map((node) => node.html);
  assert.deepEqual(
    violations.map((one) => `${where}: ${one.id}: ${html(one).join(" ")}`),
    [],
  );
}

/** Checks that a page is no wider than its window. */
export async function fits(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where} is ${wide} pixels too wide`);
}

const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true };
export const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { ...PHONE, colorScheme: "light" },
  "phone-dark": { ...PHONE, colorScheme: "dark" },
};
