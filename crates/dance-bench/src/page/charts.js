/* Our charts, made with Observable Plot: ours in the accent colour, everything else muted, direct labels in place of legends.
   Used by the server's page, by the report of `dance bench` and by the demo's page; so it is a plain script that defines `Charts`. */
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

  /** Coverage against what was asked, with the band of chance. */
  function coverage(curve, alpha, width) {
    const rows = curve.filter((row) => row.alpha <= 0.4);
    const asked = (row) => 1 - row.alpha;
    const here = rows.reduce((a, b) => (Math.abs(b.alpha - alpha) < Math.abs(a.alpha - alpha) ? b : a), rows[0]);
    return Plot.plot({
      ...base(width, Math.min(320, 0.62 * width + 60), `Coverage against what was asked. At ${percent(asked(here))} asked it is ${percent(here.coverage, 1)}; by chance ${percent(here.low, 1)} to ${percent(here.high, 1)}.`),
      x: { label: "asked for", tickFormat: (x) => percent(x), nice: false, ticks: width < 420 ? 4 : 6 },
      y: { label: "sets that hold the true label", tickFormat: (y) => percent(y), grid: true, ticks: 5 },
      marks: [
        Plot.areaY(rows, { x: asked, y1: "low", y2: "high", fill: color("muted"), fillOpacity: 0.22 }),
        Plot.lineY(rows, { x: asked, y: asked, stroke: color("muted"), strokeDasharray: "4 4" }),
        Plot.lineY(rows, { x: asked, y: "coverage", stroke: color("accent"), strokeWidth: 2.5 }),
        Plot.ruleX([here], { x: asked, stroke: color("text"), strokeOpacity: 0.35 }),
        Plot.dot([here], { x: asked, y: "coverage", r: 5.5, fill: color("accent"), stroke: color("surface"), strokeWidth: 2 }),
        Plot.text([here], { x: asked, y: "coverage", text: (row) => percent(row.coverage, 1), dy: -14, fill: color("accent"), fontWeight: 650, fontSize: 13, stroke: color("surface"), strokeWidth: 4 }),
        Plot.text([rows[Math.floor(rows.length * 0.72)]], { x: asked, y: "low", text: () => "by chance, 95 in 100", dy: 16, fill: color("soft"), textAnchor: "start" }),
      ],
    });
  }

  /** How a number per level falls or rises; the level that is chosen is marked. */
  function ofLevel(curve, alpha, value, words, width, show) {
    const rows = curve.filter((row) => row.alpha <= 0.4);
    const asked = (row) => 1 - row.alpha;
    const here = rows.reduce((a, b) => (Math.abs(b.alpha - alpha) < Math.abs(a.alpha - alpha) ? b : a), rows[0]);
    return Plot.plot({
      ...base(width, Math.min(320, 0.62 * width + 60), `${words}: ${show(here[value])} at ${percent(asked(here))} asked.`),
      x: { label: "asked for", tickFormat: (x) => percent(x), ticks: width < 420 ? 4 : 6 },
      y: { label: words, grid: true, ticks: 5, zero: true, tickFormat: value === "size" ? undefined : (y) => percent(y) },
      marks: [
        Plot.ruleY([0], { stroke: color("line") }),
        Plot.lineY(rows, { x: asked, y: value, stroke: color("accent"), strokeWidth: 2.5 }),
        Plot.ruleX([here], { x: asked, stroke: color("text"), strokeOpacity: 0.35 }),
        Plot.dot([here], { x: asked, y: value, r: 5.5, fill: color("accent"), stroke: color("surface"), strokeWidth: 2 }),
        Plot.text([here], { x: asked, y: value, text: (row) => show(row[value]), dy: -14, fill: color("accent"), fontWeight: 650, fontSize: 13, stroke: color("surface"), strokeWidth: 4 }),
      ],
    });
  }

  /** How many sets have 0, 1, 2 … labels. */
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

  /** Every class: its coverage and where chance alone would put it. */
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

  /** Coverage of what came by chance, as it came, with the band it must stay in. */
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

  /** Lines with their names at their ends; the first one is ours. `chart`: {title, x, y, series: [{name, points, style}], …}. */
  function lines(chart, width) {
    const series = chart.series.filter((one) => one.points.length);
    const ours = (one) => one.ours === true;
    const narrow = width < 520;
    const right = narrow ? 20 : Math.min(190, 12 + 6.6 * Math.max(0, ...series.map((one) => one.name.length)));
    const flat = series.flatMap((one, index) => one.points.map(([x, y]) => ({ x, y, name: one.name, index })));
    const ys = flat.map((point) => point.y);
    const [low, high] = [Math.min(...ys), Math.max(...ys)];
    const height = Math.min(380, 0.6 * width + 70);
    const ends = series.map((one, index) => { const [x, y] = one.points[one.points.length - 1]; return { x, y, at: y, one, index }; });
    const gap = ((high - low) / (height - 60)) * 14;
    ends.sort((a, b) => a.at - b.at);
    for (let i = 1; i < ends.length; i++) ends[i].at = Math.max(ends[i].at, ends[i - 1].at + gap);
    const over = ends.length ? Math.max(0, ends[ends.length - 1].at - high) : 0;
    for (const end of ends) end.at -= Math.min(over, over * 0.5);
    const dashes = ["none", "6 3", "2 3", "8 3 2 3", "1 4"];
    const look = (index) => ({ stroke: ours(series[index]) ? color("accent") : color("muted"), dash: ours(series[index]) ? "none" : dashes[1 + (index % 4)], width: ours(series[index]) ? 2.75 : 1.5 });
    const label = narrow ? [] : [Plot.text(ends, { x: "x", y: "at", text: (end) => end.one.name, dx: 8, textAnchor: "start", fill: (end) => (ours(end.one) ? color("accent") : color("soft")), fontWeight: (end) => (ours(end.one) ? 650 : 400) })];
    return Plot.plot({
      ...base(width, height, `${chart.title}. ${series.map((one) => `${one.name}: ${one.points.length} points, last ${one.points[one.points.length - 1][1].toPrecision(3)}`).join("; ")}.`),
      marginRight: right,
      x: { label: chart.x, ticks: narrow ? 4 : 7, type: chart.logX ? "log" : "linear", tickFormat: chart.percentX ? (x) => percent(x) : undefined },
      y: { label: chart.y, grid: true, ticks: 5, zero: chart.zero === true, tickFormat: chart.percentY ? (y) => percent(y) : undefined },
      marks: [
        ...series.map((one, index) => one.style === "dots"
          ? Plot.dot(one.points, { x: "0", y: "1", r: 3, fill: look(index).stroke, fillOpacity: 0.7 })
          : Plot.line(one.points, { x: "0", y: "1", stroke: look(index).stroke, strokeWidth: look(index).width, strokeDasharray: look(index).dash })),
        ...label,
        Plot.tip(flat, Plot.pointer({ fill: color("surface"), stroke: color("line"), x: "x", y: "y", title: (point) => `${point.name}\n${chart.x}: ${point.x.toPrecision(3)}\n${chart.y}: ${point.y.toPrecision(4)}` })),
      ],
    });
  }

  /** Bars, largest value last; one may be ours. `chart`: {title, x, bars: [{name, value, ours, words}]}. */
  function bars(chart, width) {
    const letters = width < 520 ? 16 : 30;
    const left = Math.min(letters, Math.max(...chart.bars.map((bar) => bar.name.length))) * 7 + 12;
    const short = (name) => (name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
    return Plot.plot({
      ...base(width, 24 * chart.bars.length + 50, `${chart.title}. ${chart.bars.map((bar) => `${bar.name} ${bar.words ?? bar.value}`).join(", ")}.`),
      marginLeft: left, marginRight: 64, marginTop: 8,
      x: { label: chart.x, grid: true, ticks: 5, zero: true },
      y: { domain: chart.bars.map((bar) => bar.name), label: null, tickFormat: short, tickSize: 0 },
      marks: [
        Plot.barX(chart.bars, { y: "name", x: "value", fill: (bar) => (bar.ours ? color("accent") : color("muted")), fillOpacity: (bar) => (bar.ours ? 1 : 0.55), insetTop: 2, insetBottom: 2 }),
        Plot.text(chart.bars, { y: "name", x: "value", dx: 6, textAnchor: "start", text: (bar) => bar.words ?? String(bar.value), fill: color("text") }),
      ],
    });
  }

  /** Draws every `figure.chart` of the page whose `script` holds a description. */
  function all() {
    for (const figure of document.querySelectorAll("figure.chart[data-kind]")) {
      const chart = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
      mount(figure.querySelector(".plot"), (width) => ({ lines, bars }[figure.dataset.kind](chart, width)));
    }
  }

  return { mount, coverage, ofLevel, sizes, classes, monitor, lines, bars, all, percent };
})();
