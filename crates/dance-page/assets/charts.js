/* Charts of one model, with Observable Plot: the accent colour for our method, muted colours for the rest, labels in place of
   legends. A plain script that defines `Charts`, so that pages can hold it inline. */
globalThis.Charts = (() => {
  "use strict";
  const color = (name) => `var(--${name})`;
  const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)} %`;
  const base = (width, height, label) => ({
    width, height, ariaLabel: label, marginLeft: 46, marginRight: 20, marginTop: 30, marginBottom: 38,
    style: { background: "none", fontSize: "12px", color: "var(--soft)" },
  });

  /** Draws into `element` now and whenever its width changes. `draw(width)` makes the picture. */
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
    element.redraw = (again) => { draw = again ?? draw; last = 0; render(); };
    new ResizeObserver(render).observe(element);
    render();
    return element;
  }

  /** Coverage against the target, with the 95 % band of sampling noise. */
  function coverage(curve, alpha, width) {
    const rows = curve.filter((row) => row.alpha <= 0.4);
    const target = (row) => 1 - row.alpha;
    const here = rows.reduce((a, b) => (Math.abs(b.alpha - alpha) < Math.abs(a.alpha - alpha) ? b : a), rows[0]);
    return Plot.plot({
      ...base(width, Math.min(320, 0.62 * width + 60), `Coverage against the target. At ${percent(target(here))} it is ${percent(here.coverage, 1)}; by chance ${percent(here.low, 1)} to ${percent(here.high, 1)}.`),
      x: { label: "target", tickFormat: (x) => percent(x), nice: false, ticks: width < 420 ? 4 : 6 },
      y: { label: "sets that hold the true label", tickFormat: (y) => percent(y), grid: true, ticks: 5 },
      marks: [
        Plot.areaY(rows, { x: target, y1: "low", y2: "high", fill: color("muted"), fillOpacity: 0.22 }),
        Plot.lineY(rows, { x: target, y: target, stroke: color("muted"), strokeDasharray: "4 4" }),
        Plot.lineY(rows, { x: target, y: "coverage", stroke: color("accent"), strokeWidth: 2.5 }),
        Plot.ruleX([here], { x: target, stroke: color("text"), strokeOpacity: 0.35 }),
        Plot.dot([here], { x: target, y: "coverage", r: 5.5, fill: color("accent"), stroke: color("surface"), strokeWidth: 2 }),
        Plot.text([here], { x: target, y: "coverage", text: (row) => percent(row.coverage, 1), dy: -14, fill: color("accent"), fontWeight: 650, fontSize: 13, stroke: color("surface"), strokeWidth: 4 }),
        Plot.text([rows[Math.floor(rows.length * 0.72)]], { x: target, y: "low", text: () => "by chance, 95 in 100", dy: 16, fill: color("soft"), textAnchor: "start" }),
      ],
    });
  }

  /** A number for every level. The chosen level is marked. */
  function ofLevel(curve, alpha, value, words, width, show) {
    const rows = curve.filter((row) => row.alpha <= 0.4);
    const target = (row) => 1 - row.alpha;
    const here = rows.reduce((a, b) => (Math.abs(b.alpha - alpha) < Math.abs(a.alpha - alpha) ? b : a), rows[0]);
    return Plot.plot({
      ...base(width, Math.min(320, 0.62 * width + 60), `${words}: ${show(here[value])} at a target of ${percent(target(here))}.`),
      x: { label: "target", tickFormat: (x) => percent(x), ticks: width < 420 ? 4 : 6 },
      y: { label: words, grid: true, ticks: 5, zero: true, tickFormat: value === "size" ? undefined : (y) => percent(y) },
      marks: [
        Plot.ruleY([0], { stroke: color("line") }),
        Plot.lineY(rows, { x: target, y: value, stroke: color("accent"), strokeWidth: 2.5 }),
        Plot.ruleX([here], { x: target, stroke: color("text"), strokeOpacity: 0.35 }),
        Plot.dot([here], { x: target, y: value, r: 5.5, fill: color("accent"), stroke: color("surface"), strokeWidth: 2 }),
        Plot.text([here], { x: target, y: value, text: (row) => show(row[value]), dy: -14, fill: color("accent"), fontWeight: 650, fontSize: 13, stroke: color("surface"), strokeWidth: 4 }),
      ],
    });
  }

  /** The number of sets with 0, 1, 2 … labels. */
  function sizes(counts, width) {
    const all = counts.reduce((a, b) => a + b, 0) || 1;
    const most = 12;
    const rows = counts.slice(0, most).map((count, size) => ({ size: String(size), count }));
    const rest = counts.slice(most).reduce((a, b) => a + b, 0);
    if (rest) rows.push({ size: `${most}+`, count: rest });
    return Plot.plot({
      ...base(width, Math.min(260, 0.5 * width + 70), `Sets by their number of labels: ${rows.map((row) => `${row.count} with ${row.size}`).join(", ")}.`),
      x: { label: "labels in the set", domain: rows.map((row) => row.size), type: "band", padding: 0.18 },
      y: { label: "points", grid: true, ticks: 4 },
      marks: [
        Plot.barY(rows, { x: "size", y: "count", fill: (row) => (row.size === "0" ? color("miss") : color("accent")), ry1: 3 }),
        Plot.text(rows.filter((row) => row.count), { x: "size", y: "count", text: (row) => (width < 480 && row.count / all < 0.02 ? "" : String(row.count)), dy: -9, fill: color("text") }),
        Plot.ruleY([0], { stroke: color("line") }),
      ],
    });
  }

  /** The coverage of every class, with the band of sampling noise. */
  function classes(rows, alpha, width) {
    const data = rows.map((row) => ({ ...row, coverage: row.covered / row.points, out: row.covered / row.points < row.low }));
    data.sort((a, b) => a.coverage - b.coverage || b.points - a.points);
    const letters = width < 520 ? 14 : 26;
    const left = Math.min(letters * 7, 8 * Math.max(...data.map((row) => Math.min(letters, row.class.length)))) + 12;
    const short = (name) => (name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
    const low = Math.min(...data.map((row) => Math.min(row.coverage, row.low)));
    const out = data.filter((row) => row.out);
    return Plot.plot({
      ...base(width, 22 * data.length + 62, `Coverage of ${data.length} classes; ${out.length} of them below what chance explains${out.length ? `: ${out.map((row) => `${row.class} ${percent(row.coverage)}`).slice(0, 8).join(", ")}` : ""}.`),
      marginLeft: left, marginRight: 46, marginTop: 26, marginBottom: 10,
      x: { domain: [Math.max(0, low - 0.03), 1], tickFormat: (x) => percent(x), label: null, ticks: width < 480 ? 3 : 6, axis: "top", grid: true },
      y: { domain: data.map((row) => row.class), label: null, tickFormat: short, tickSize: 0 },
      marks: [
        Plot.link(data, { y: "class", x1: "low", x2: "high", stroke: color("muted"), strokeOpacity: 0.35, strokeWidth: 7, strokeLinecap: "round" }),
        Plot.ruleX([1 - alpha], { stroke: color("text"), strokeDasharray: "4 4", strokeOpacity: 0.6 }),
        Plot.dot(data, { y: "class", x: "coverage", r: 5, fill: (row) => (row.out ? color("miss") : color("accent")), stroke: color("surface") }),
        Plot.text(data, { y: "class", x: 1, dx: 10, text: (row) => `${row.covered}/${row.points}`, textAnchor: "start", fill: color("soft"), fontSize: 10.5 }),
      ],
    });
  }

  /** Running coverage of randomly drawn points, with its band. */
  function monitor(series, alpha, width) {
    const last = series[series.length - 1];
    return Plot.plot({
      ...base(width, Math.min(280, 0.5 * width + 70), `Running coverage of ${last.points} audited points: ${percent(last.coverage, 1)}; by chance ${percent(last.low, 1)} to ${percent(last.high, 1)}.`),
      x: { label: "points audited", ticks: width < 420 ? 4 : 8, nice: false },
      y: { label: "sets that held the label", tickFormat: (y) => percent(y), grid: true, domain: [Math.min(0.5, ...series.map((row) => row.coverage)), 1] },
      marks: [
        Plot.areaY(series, { x: "points", y1: "low", y2: "high", fill: color("muted"), fillOpacity: 0.22 }),
        Plot.ruleY([1 - alpha], { stroke: color("muted"), strokeDasharray: "4 4" }),
        Plot.lineY(series, { x: "points", y: "coverage", stroke: color("accent"), strokeWidth: 2.5 }),
        Plot.dot([last], { x: "points", y: "coverage", r: 5, fill: last.coverage < last.low ? color("miss") : color("accent") }),
        Plot.text([last], { x: "points", y: "coverage", text: () => percent(last.coverage, 1), dy: -13, textAnchor: "end", fill: color("accent"), fontWeight: 650, fontSize: 13 }),
      ],
    });
  }

  return { mount, coverage, ofLevel, sizes, classes, monitor, parts: { base, color, percent } };
})();
