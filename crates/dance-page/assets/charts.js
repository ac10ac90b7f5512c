/* Charts of one model, with Observable Plot: the accent colour for our method, muted colours for the rest, labels in
   place of legends. A plain script that defines `Charts`, so that pages can hold it inline. */

/** The sets at one error level.
 * @typedef {{ alpha: number, coverage: number, low: number, high: number, size: number, empty: number }} AtLevel */
/** The sets of one class.
 * @typedef {{ class: string | number | boolean, points: number, covered: number, low: number,
 *   high: number }} OfClass */
/** @typedef {{ points: number, coverage: number, low: number, high: number }} OverTime */
/** The numbers of a chart as a table. @typedef {{ columns: string[], rows: string[][] }} Numbers */

globalThis.Charts = (() => {
  "use strict";
  const color = (/** @type {string} */ name) => `var(--${name})`;
  /** The format of numbers, which a page may replace by that of its reader. */
  const format = {
    percent: (/** @type {number} */ value, digits = 0) => `${(100 * value).toFixed(digits)} %`,
    number: (/** @type {number} */ value, digits = 0) => value.toFixed(digits),
  };
  const percent = (/** @type {number} */ value, digits = 0) => charts.format.percent(value, digits);
  const number = (/** @type {number} */ value, digits = 0) => charts.format.number(value, digits);
  /** The label of a tick, with the decimals that it has. @param {number} value */
  const tick = (value) => number(value, Math.min(3, String(value).split(".")[1]?.length ?? 0));
  const inPercent = (/** @type {number} */ value) => percent(value);
  const target = (/** @type {AtLevel} */ row) => 1 - row.alpha;
  /** Error levels above this one are of no use, and charts leave them out. */
  const MOST = 0.4;

  /** Options of every plot. @param {number} width @param {number} height @param {string} label */
  const base = (width, height, label) => ({
    width,
    height,
    ariaLabel: label,
    marginLeft: 46,
    marginRight: 20,
    marginTop: 30,
    marginBottom: 38,
    style: { background: "none", fontSize: "12px", color: "var(--soft)" },
  });

  /** Draws into `element` now and whenever its width changes. `draw(width)` makes the picture.
   * @param {HTMLElement & { redraw?: (again?: (width: number) => Node) => void }} element
   * @param {(width: number) => Node} draw */
  function mount(element, draw) {
    let last = 0;
    const render = () => {
      const width = Math.floor(element.clientWidth);
      if (width < 40 || width === last) return;
      last = width;
      element.replaceChildren(draw(width));
      const svg = element.querySelector("svg");
      if (!svg) return;
      // One picture with one description: names of its parts would only be read out beside it.
      svg.setAttribute("role", "img");
      for (const part of svg.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label");
    };
    element.redraw = (again) => {
      draw = again ?? draw;
      last = 0;
      render();
    };
    new ResizeObserver(render).observe(element);
    render();
    return element;
  }

  /** Returns the numbers of a chart as a table that opens below it. `numbers` is called when it opens first.
   * @param {string} title @param {() => Numbers} numbers */
  function asTable(title, numbers) {
    /** @param {string} tag @param {...(Node | string)} children */
    const element = (tag, ...children) => {
      const made = document.createElement(tag);
      made.append(...children);
      return made;
    };
    const hidden = element("span", `: ${title}`);
    hidden.className = "hidden";
    const details = /** @type {HTMLDetailsElement} */ (
      element("details", element("summary", "Show as a table", hidden))
    );
    details.className = "as-table no-print";
    const fill = () => {
      const { columns, rows } = numbers();
      const head = columns.map((name) => element("th", name));
      for (const cell of head) cell.setAttribute("scope", "col");
      const body = rows.map(([name, ...cells]) => {
        const first = element("th", name);
        first.setAttribute("scope", "row");
        return element("tr", first, ...cells.map((cell) => element("td", cell)));
      });
      const scroll = element(
        "div",
        element("table", element("thead", element("tr", ...head)), element("tbody", ...body)),
      );
      scroll.className = "scroll";
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "region");
      scroll.setAttribute("aria-label", `Numbers: ${title}`);
      details.append(scroll);
    };
    details.addEventListener("toggle", fill, { once: true });
    return details;
  }

  /** The levels of a curve that are drawn, and the one next to `alpha`.
   * @param {AtLevel[]} curve @param {number} alpha */
  function levels(curve, alpha) {
    const rows = curve.filter((row) => row.alpha <= MOST);
    const distance = (/** @type {AtLevel} */ row) => Math.abs(row.alpha - alpha);
    return { rows, here: rows.reduce((a, b) => (distance(b) < distance(a) ? b : a), rows[0]) };
  }

  /** Coverage against the target, with the 95 % band of sampling noise.
   * @param {AtLevel[]} curve @param {number} alpha @param {number} width */
  function coverage(curve, alpha, width) {
    const { rows, here } = levels(curve, alpha);
    return Plot.plot({
      ...base(
        width,
        Math.min(320, 0.62 * width + 60),
        `Coverage against the target. At ${percent(target(here))} it is ${percent(here.coverage, 1)}; ` +
          `by chance ${percent(here.low, 1)} to ${percent(here.high, 1)}.`,
      ),
      x: { label: "target", tickFormat: inPercent, nice: false, ticks: width < 420 ? 4 : 6 },
      y: { label: "sets that hold the true label", tickFormat: inPercent, grid: true, ticks: 5 },
      marks: [
        Plot.areaY(rows, { x: target, y1: "low", y2: "high", fill: color("muted"), fillOpacity: 0.22 }),
        Plot.lineY(rows, { x: target, y: target, stroke: color("muted"), strokeDasharray: "4 4" }),
        Plot.lineY(rows, { x: target, y: "coverage", stroke: color("accent"), strokeWidth: 2.5 }),
        Plot.ruleX([here], { x: target, stroke: color("text"), strokeOpacity: 0.35 }),
        Plot.dot([here], {
          x: target,
          y: "coverage",
          r: 5.5,
          fill: color("accent"),
          stroke: color("surface"),
          strokeWidth: 2,
        }),
        Plot.text([here], {
          x: target,
          y: "coverage",
          text: () => percent(here.coverage, 1),
          dy: -14,
          fill: color("accent"),
          fontWeight: 650,
          fontSize: 13,
          stroke: color("surface"),
          strokeWidth: 4,
        }),
        Plot.text([rows[Math.floor(rows.length * 0.72)]], {
          x: target,
          y: "low",
          text: () => "by chance, 95 in 100",
          dy: 16,
          fill: color("soft"),
          textAnchor: "start",
        }),
      ],
    });
  }

  /** A number for every level. The chosen level is marked.
   * @param {AtLevel[]} curve @param {number} alpha @param {"size" | "empty"} value @param {string} words
   * @param {number} width @param {(value: number) => string} show */
  function ofLevel(curve, alpha, value, words, width, show) {
    const { rows, here } = levels(curve, alpha);
    return Plot.plot({
      ...base(
        width,
        Math.min(320, 0.62 * width + 60),
        `${words}: ${show(here[value])} at a target of ${percent(target(here))}.`,
      ),
      x: { label: "target", tickFormat: inPercent, ticks: width < 420 ? 4 : 6 },
      y: { label: words, grid: true, ticks: 5, zero: true, tickFormat: value === "size" ? tick : inPercent },
      marks: [
        Plot.ruleY([0], { stroke: color("line") }),
        Plot.lineY(rows, { x: target, y: value, stroke: color("accent"), strokeWidth: 2.5 }),
        Plot.ruleX([here], { x: target, stroke: color("text"), strokeOpacity: 0.35 }),
        Plot.dot([here], {
          x: target,
          y: value,
          r: 5.5,
          fill: color("accent"),
          stroke: color("surface"),
          strokeWidth: 2,
        }),
        Plot.text([here], {
          x: target,
          y: value,
          text: () => show(here[value]),
          dy: -14,
          fill: color("accent"),
          fontWeight: 650,
          fontSize: 13,
          stroke: color("surface"),
          strokeWidth: 4,
        }),
      ],
    });
  }

  /** The number of sets with 0, 1, 2 … labels. @param {number[]} counts @param {number} width */
  function sizes(counts, width) {
    const all = counts.reduce((a, b) => a + b, 0) || 1;
    const most = 12;
    const rows = counts.slice(0, most).map((count, size) => ({ size: String(size), count }));
    const rest = counts.slice(most).reduce((a, b) => a + b, 0);
    if (rest) rows.push({ size: `${most}+`, count: rest });
    return Plot.plot({
      ...base(
        width,
        Math.min(260, 0.5 * width + 70),
        `Sets by their number of labels: ${rows.map((row) => `${row.count} with ${row.size}`).join(", ")}.`,
      ),
      x: { label: "labels in the set", domain: rows.map((row) => row.size), type: "band", padding: 0.18 },
      y: { label: "points", grid: true, ticks: 4, tickFormat: tick },
      marks: [
        Plot.barY(rows, {
          x: "size",
          y: "count",
          fill: (/** @type {(typeof rows)[number]} */ row) => (row.size === "0" ? color("miss") : color("accent")),
          ry1: 3,
        }),
        Plot.text(
          rows.filter((row) => row.count),
          {
            x: "size",
            y: "count",
            text: (/** @type {(typeof rows)[number]} */ row) =>
              width < 480 && row.count / all < 0.02 ? "" : number(row.count),
            dy: -9,
            fill: color("text"),
          },
        ),
        Plot.ruleY([0], { stroke: color("line") }),
      ],
    });
  }

  /** The coverage of every class, with the band of sampling noise.
   * @param {OfClass[]} rows @param {number} alpha @param {number} width */
  function classes(rows, alpha, width) {
    const data = rows.map((row) => ({
      ...row,
      class: String(row.class),
      coverage: row.covered / row.points,
      out: row.covered / row.points < row.low,
    }));
    data.sort((a, b) => a.coverage - b.coverage || b.points - a.points);
    const letters = width < 520 ? 14 : 26;
    const left = Math.min(letters * 7, 8 * Math.max(...data.map((row) => Math.min(letters, row.class.length)))) + 12;
    const short = (/** @type {string} */ name) => (name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
    const low = Math.min(...data.map((row) => Math.min(row.coverage, row.low)));
    const out = data.filter((row) => row.out);
    return Plot.plot({
      ...base(
        width,
        22 * data.length + 62,
        `Coverage of ${data.length} classes; ${out.length} of them below what chance explains.`,
      ),
      marginLeft: left,
      marginRight: 46,
      marginTop: 26,
      marginBottom: 10,
      x: {
        domain: [Math.max(0, low - 0.03), 1],
        tickFormat: inPercent,
        label: null,
        ticks: width < 480 ? 3 : 6,
        axis: "top",
        grid: true,
      },
      y: { domain: data.map((row) => row.class), label: null, tickFormat: short, tickSize: 0 },
      marks: [
        Plot.link(data, {
          y: "class",
          x1: "low",
          x2: "high",
          stroke: color("muted"),
          strokeOpacity: 0.35,
          strokeWidth: 7,
          strokeLinecap: "round",
        }),
        Plot.ruleX([1 - alpha], { stroke: color("text"), strokeDasharray: "4 4", strokeOpacity: 0.6 }),
        Plot.dot(data, {
          y: "class",
          x: "coverage",
          r: 5,
          fill: (/** @type {(typeof data)[number]} */ row) => (row.out ? color("miss") : color("accent")),
          stroke: color("surface"),
        }),
        Plot.text(data, {
          y: "class",
          x: 1,
          dx: 10,
          text: (/** @type {OfClass} */ row) => `${number(row.covered)}/${number(row.points)}`,
          textAnchor: "start",
          fill: color("soft"),
          fontSize: 10.5,
        }),
      ],
    });
  }

  /** Running coverage of randomly drawn points, with its band.
   * @param {OverTime[]} series @param {number} alpha @param {number} width */
  function monitor(series, alpha, width) {
    const last = series[series.length - 1];
    return Plot.plot({
      ...base(
        width,
        Math.min(280, 0.5 * width + 70),
        `Running coverage of ${last.points} random points: ${percent(last.coverage, 1)}; ` +
          `by chance ${percent(last.low, 1)} to ${percent(last.high, 1)}.`,
      ),
      x: { label: "random points", ticks: width < 420 ? 4 : 8, nice: false, tickFormat: tick },
      y: {
        label: "sets that held the label",
        tickFormat: inPercent,
        grid: true,
        domain: [Math.min(0.5, ...series.map((row) => row.coverage)), 1],
      },
      marks: [
        Plot.areaY(series, { x: "points", y1: "low", y2: "high", fill: color("muted"), fillOpacity: 0.22 }),
        Plot.ruleY([1 - alpha], { stroke: color("muted"), strokeDasharray: "4 4" }),
        Plot.lineY(series, { x: "points", y: "coverage", stroke: color("accent"), strokeWidth: 2.5 }),
        Plot.dot([last], {
          x: "points",
          y: "coverage",
          r: 5,
          fill: last.coverage < last.low ? color("miss") : color("accent"),
        }),
        Plot.text([last], {
          x: "points",
          y: "coverage",
          text: () => percent(last.coverage, 1),
          dy: -13,
          textAnchor: "end",
          fill: color("accent"),
          fontWeight: 650,
          fontSize: 13,
        }),
      ],
    });
  }

  /** The numbers of each chart as a table. */
  const tables = {
    /** @param {AtLevel[]} curve @returns {Numbers} */
    coverage: (curve) => ({
      columns: ["target", "coverage", "by chance from", "to"],
      rows: curve
        .filter((row) => row.alpha <= MOST)
        .map((row) => [percent(target(row)), ...[row.coverage, row.low, row.high].map((one) => percent(one, 1))]),
    }),
    /** @param {AtLevel[]} curve @param {"size" | "empty"} value @param {string} words
     * @param {(value: number) => string} show @returns {Numbers} */
    ofLevel: (curve, value, words, show) => ({
      columns: ["target", words],
      rows: curve.filter((row) => row.alpha <= MOST).map((row) => [percent(target(row)), show(row[value])]),
    }),
    /** @param {number[]} counts @returns {Numbers} */
    sizes: (counts) => ({
      columns: ["labels in the set", "points"],
      rows: counts.map((count, size) => [number(size), number(count)]),
    }),
    /** @param {OfClass[]} rows @returns {Numbers} */
    classes: (rows) => ({
      columns: ["class", "points", "covered", "coverage", "by chance from", "to"],
      rows: rows.map((row) => {
        const shares = [row.covered / row.points, row.low, row.high].map((one) => percent(one, 1));
        return [String(row.class), number(row.points), number(row.covered), ...shares];
      }),
    }),
    /** @param {OverTime[]} series @returns {Numbers} */
    monitor: (series) => ({
      columns: ["random points", "coverage", "by chance from", "to"],
      rows: series.map((row) => [
        number(row.points),
        ...[row.coverage, row.low, row.high].map((one) => percent(one, 1)),
      ]),
    }),
  };

  const parts = { base, color, percent };
  const charts = { mount, asTable, coverage, ofLevel, sizes, classes, monitor, tables, format, parts };
  return charts;
})();
