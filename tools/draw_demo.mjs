// Draws docs/demo.svg, the picture of the README: the demo's coverage and size charts, as the demo's page shows them.
// `make pictures`; takes the binary and the file to write, and needs Chromium like `make test-page`.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [binary, target] = process.argv.slice(2);
const { chromium } = createRequire(join(process.cwd(), "package.json"))("playwright-core");
const [WIDTH, GAP, HEAD, LINE] = [470, 28, 34, 19];
const folder = mkdtempSync(join(tmpdir(), "dance-picture-"));
const page = join(folder, "demo.html");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  execFileSync(binary, ["demo", "--report", page, "--quiet"], { stdio: ["ignore", "ignore", "inherit"] });
  const tab = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await tab.goto(pathToFileURL(page).href);
  const charts = await tab.evaluate(
    (width) =>
      ["coverage", "size"].map((id) => {
        const plot = document.querySelector(`#${id} .plot`);
        plot.style.width = `${width}px`;
        plot.redraw();
        const svg = plot.querySelector("svg");
        return {
          headline: document.querySelector(`#${id} h3`).textContent,
          told: svg.getAttribute("aria-label"),
          height: Number(svg.getAttribute("height")),
          svg: new XMLSerializer().serializeToString(svg),
        };
      }),
    WIDTH,
  );
  // The colours of the page, light and dark: an image has no page to follow.
  const styles = readFileSync(page, "utf8").match(/<style>([\s\S]*?)<\/style>/)[1];
  const colours = (text) => [...text.matchAll(/--[a-z-]+: #[0-9a-f]+;/g)].map((one) => one[0]).join(" ");
  const [light, dark] = styles.split("@media screen and (prefers-color-scheme: dark)");
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
  const lines = (text) =>
    text.split(" ").reduce((all, word) => {
      const last = all[all.length - 1];
      if (last && last.length + word.length < 54) all[all.length - 1] = `${last} ${word}`;
      else all.push(word);
      return all;
    }, []);
  const heads = charts.map((chart) => lines(chart.headline));
  const top = HEAD + LINE * Math.max(...heads.map((head) => head.length)) - 8;
  const [width, height] = [2 * WIDTH + 3 * GAP, top + Math.max(...charts.map((chart) => chart.height)) + 18];
  const drawn = charts.map((chart, place) => {
    const left = GAP + place * (WIDTH + GAP);
    const head = heads[place]
      .map((line, at) => `<text class="head" x="${left}" y="${HEAD + LINE * at}">${escaped(line)}</text>`)
      .join("");
    return `${head}${chart.svg.replace("<svg ", `<svg x="${left}" y="${top}" `)}`;
  });
  const attributes = [
    'xmlns="http://www.w3.org/2000/svg"',
    `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`,
    `role="img" aria-label="${escaped(charts.map((chart) => chart.told).join(" "))}"`,
    'font-family="system-ui, sans-serif"',
  ];
  const rules = [
    `svg { ${colours(light)} color: var(--soft); }`,
    `@media (prefers-color-scheme: dark) { svg { ${colours(dark.split("}")[0])} } }`,
    ".head { font-size: 15px; font-weight: 650; fill: var(--text); }",
  ];
  const parts = [
    `<svg ${attributes.join(" ")}>`,
    `<style>${rules.join(" ")}</style>`,
    '<rect width="100%" height="100%" rx="12" fill="var(--surface)"/>',
    ...drawn,
    "</svg>",
  ];
  writeFileSync(target, `${parts.join("\n")}\n`);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
