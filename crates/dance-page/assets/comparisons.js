/* Charts that compare methods, data sets and levels, for reports. Adds to `Charts`: our method in the accent colour,
   others muted, names beside their lines and dots. */

/** @typedef {{ name: string, ours?: boolean }} Named */
/** A method with its value, its least and most, and the range of its middle.
 * @typedef {Named & { value: number, least?: number, most?: number, low?: number, high?: number }} Row */
/** @typedef {{ rows: Row[], target?: number, band?: [number, number], bars?: boolean, format: string,
 *   label: string }} RowsData */
/** @typedef {{ rows: (Named & { shares: number[] })[], sizes: string[] }} SharesData */
/** @typedef {Named & { named?: boolean, steps?: boolean, points: [number, number][] }} Line */
/** @typedef {{ label: string, format: string, zero?: boolean }} Axis */
/** @typedef {{ series: Line[], x: Axis, y: Axis, band?: [number, number, number][], promised?: [number, number][],
 *   dots?: [number, number][], words?: string[] }} LinesData */
/** @typedef {{ points: (Named & { x: number, y: number })[], x: string, y: string,
 *   logarithmic?: boolean }} ScatterData */
/** @typedef {{ classes: string[], points: [number, number, number][] }} PlaneData */

(() => {
  "use strict";
  const { base, color, percent } = Charts.parts;
  const LETTER = 6.4; // pixels, of 12 px text, on average
  const FEW = 3; // texts of a description
  const TICK = 78; // pixels, of a tick with its label
  const PALETTE = [
    "#4269d0",
    "#efb118",
    "#ff725c",
    "#6cc5b0",
    "#3ca951",
    "#ff8ab7",
    "#a463f2",
    "#97bbf5",
    "#9c6b4e",
    "#9498a0",
  ];
  const percent1 = (/** @type {number} */ value) => percent(value, 1);
  /** @type {Record<string, ((value: number) => string) | undefined>} */
  const FORMATS = { percent: (value) => percent(value), percent1, number: undefined };
  const two = (/** @type {number} */ value) => value.toFixed(2);
  /** Returns the first of texts, and how many more there are. A table has all. @param {string[]} texts */
  const few = (texts) => texts.slice(0, FEW).join(", ") + (texts.length > FEW ? ` and ${texts.length - FEW} more` : "");

  /** A plot of the marks that are not null. @param {any} options */
  const plot = (options) => Plot.plot({ ...options, marks: options.marks.filter(Boolean) });
  const shade = (/** @type {Named} */ one) => color(one.ours ? "accent" : "muted");
  const short = (/** @type {string} */ name, /** @type {number} */ letters) =>
    name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
  const widest = (/** @type {string[]} */ names) => Math.max(0, ...names.map((name) => name.length)) * LETTER;

  /** The number of ticks for which an axis has room. @param {number} across */
  const ticks = (across) => Math.max(2, Math.min(6, Math.floor(across / TICK)));
  const sides = /** @type {const} */ ([false, true]);

  /** The place of a value on a linear or logarithmic axis. @param {number[]} ends @param {number[]} places */
  function axis([low, high], [from, to], logarithmic = false) {
    const scaled = logarithmic ? Math.log : (/** @type {number} */ value) => value;
    return (/** @type {number} */ value) =>
      from + ((scaled(value) - scaled(low)) / (scaled(high) - scaled(low) || 1)) * (to - from);
  }

  /** The range of values with a margin. @param {number[]} values @returns {[number, number]} */
  function around(values, { zero = false, logarithmic = false } = {}) {
    const [low, high] = [Math.min(...values, zero ? 0 : Infinity), Math.max(...values)];
    if (logarithmic) return [low / 1.6, high * 1.6];
    const air = 0.06 * (high - low) || Math.abs(high) * 0.1 || 1;
    return [zero ? 0 : low - air, high + air];
  }

  /** Names at the left of rows, ours in bold. @param {Named[]} rows @param {number} letters */
  function names(rows, letters) {
    const of = (/** @type {boolean} */ ours) =>
      Plot.text(
        rows.filter((row) => Boolean(row.ours) === ours),
        {
          y: "name",
          frameAnchor: "left",
          textAnchor: "end",
          dx: -8,
          text: (/** @type {Named} */ row) => short(row.name, letters),
          fill: ours ? color("accent") : color("text"),
          fontWeight: ours ? 700 : 400,
        },
      );
    return [of(false), of(true)];
  }

  /** Dots, ours larger and in front. @param {Named[]} all @param {string} x @param {string} y */
  const dots = (all, x, y) =>
    sides.map((ours) =>
      Plot.dot(
        all.filter((one) => Boolean(one.ours) === ours),
        { x, y, r: ours ? 6.5 : 4.5, fill: shade, stroke: color("surface"), strokeWidth: 1.5 },
      ),
    );

  /** @param {Named[]} rows @param {number} width */
  function ofRows(rows, width) {
    const letters = width < 480 ? 20 : 30;
    return { letters, marginLeft: Math.min(letters * LETTER, widest(rows.map((row) => row.name))) + 16 };
  }

  /** One row per method: a dot or a bar, its range, and the band of sampling noise.
   * @param {RowsData} data @param {number} width */
  function rows({ rows, target, band, bars, format, label }, width) {
    const { letters, marginLeft } = ofRows(rows, width);
    const ends = rows.flatMap((row) => [row.value, row.least ?? row.value, row.most ?? row.value]);
    let [low, high] = around([...ends, ...(target === undefined ? [] : [target]), ...(band ?? [])], { zero: bars });
    if (format.startsWith("percent")) high = Math.min(1, high);
    const show = FORMATS[format] ?? two;
    const words = few(rows.map((row) => `${row.name} ${show(row.value)}`));
    return plot({
      ...base(width, 23 * rows.length + 54, `${label}: ${words}.`),
      marginLeft,
      marginRight: 52,
      marginTop: 12,
      marginBottom: 42,
      x: {
        domain: [low, high],
        label,
        labelArrow: "none",
        tickFormat: FORMATS[format],
        ticks: ticks(width - marginLeft - 52),
        grid: true,
      },
      y: { domain: rows.map((row) => row.name), axis: null },
      marks: [
        band &&
          Plot.link(rows, {
            y: "name",
            x1: () => Math.max(low, band[0]),
            x2: () => Math.min(high, band[1]),
            stroke: color("muted"),
            strokeOpacity: 0.2,
            strokeWidth: 23.5,
            strokeLinecap: "butt",
          }),
        target !== undefined &&
          Plot.ruleX([target], { stroke: color("text"), strokeDasharray: "4 4", strokeOpacity: 0.7 }),
        bars &&
          Plot.barX(rows, {
            y: "name",
            x: "value",
            fill: shade,
            fillOpacity: (/** @type {Row} */ row) => (row.ours ? 1 : 0.55),
            insetTop: 4,
            insetBottom: 4,
          }),
        Plot.link(
          rows.filter((row) => row.least !== undefined),
          { y: "name", x1: "least", x2: "most", stroke: shade, strokeWidth: 1.5 },
        ),
        Plot.link(
          rows.filter((row) => row.low !== undefined),
          { y: "name", x1: "low", x2: "high", stroke: shade, strokeWidth: 5, strokeLinecap: "round" },
        ),
        ...(bars ? [] : dots(rows, "value", "name")),
        ...names(rows, letters),
        ...sides.map((ours) =>
          Plot.text(
            rows.filter((row) => Boolean(row.ours) === ours),
            {
              y: "name",
              frameAnchor: "right",
              textAnchor: "start",
              dx: 6,
              text: (/** @type {Row} */ row) => show(row.value),
              fill: color(ours ? "accent" : "soft"),
              fontWeight: ours ? 700 : 400,
              fontVariant: "tabular-nums",
            },
          ),
        ),
      ],
    });
  }

  /** One bar of 100 % per method, divided by set size. @param {SharesData} data @param {number} width */
  function shares({ rows, sizes }, width) {
    const { letters, marginLeft } = ofRows(rows, width);
    const strength = (/** @type {string} */ size) =>
      size === "0" ? 0.9 : [1, 0.62, 0.4, 0.25, 0.14][sizes.filter((one) => one !== "0").indexOf(size)];
    const parts = rows
      .flatMap((row) => {
        let from = 0;
        return row.shares.map((share, place) => {
          const begin = from;
          from += share;
          return { name: row.name, ours: row.ours, size: sizes[place], share, from: begin, to: from };
        });
      })
      .filter((part) => part.share > 0);
    const across = width - marginLeft - 20;
    const inside = parts.filter((part) => part.share * across > 34);
    /** @typedef {(typeof parts)[number]} Part */
    const fill = (/** @type {Part} */ part) => (part.size === "0" ? color("miss") : shade(part));
    const ink = (/** @type {Part} */ part) =>
      strength(part.size) < 0.9 ? "text" : part.ours || part.size === "0" ? "accent-text" : "on-muted";
    const center = (/** @type {Part} */ part) => (part.from + part.to) / 2;
    const called = (/** @type {string} */ size) => (size === "0" ? "empty" : size === "1" ? "1 label" : size);
    /** @type {(Part & { end: number })[]} */
    const head = [];
    for (const part of parts.filter((one) => one.name === rows[0].name)) {
      const middle = (across * (part.from + part.to)) / 2;
      const half = (called(part.size).length * LETTER) / 2 + 4;
      if (middle - half > (head.at(-1)?.end ?? -20)) head.push({ ...part, end: middle + half });
    }
    const first = rows[0].shares.map((share, place) => `${percent(share)} ${called(sizes[place])}`).join(", ");
    const words = `${rows[0].name}: ${first}${rows.length > 1 ? `; and ${rows.length - 1} more methods` : ""}`;
    return plot({
      ...base(width, 25 * rows.length + 66, `Share of sets by their number of labels. ${words}.`),
      marginLeft,
      marginTop: 36,
      marginBottom: 30,
      x: { domain: [0, 1], label: null, tickFormat: FORMATS.percent, ticks: ticks(across) },
      y: { domain: rows.map((row) => row.name), axis: null },
      marks: [
        Plot.barX(parts, {
          y: "name",
          x1: "from",
          x2: "to",
          fill,
          fillOpacity: (/** @type {Part} */ part) => strength(part.size),
          insetTop: 3,
          insetBottom: 3,
          insetRight: 1,
        }),
        Plot.text(inside, {
          y: "name",
          x: center,
          text: (/** @type {Part} */ part) => percent(part.share),
          fill: (/** @type {Part} */ part) => color(ink(part)),
          fontSize: 11,
        }),
        Plot.text(head, {
          y: "name",
          x: center,
          dy: -21,
          text: (/** @type {Part} */ part) => called(part.size),
          fill: color("soft"),
          fontSize: 11,
        }),
        ...names(rows, letters),
      ],
    });
  }

  /** Lines with their names at their ends, ours in front. @param {LinesData} data @param {number} width */
  function lines({ series, x, y, band, promised, dots, words }, width) {
    const letters = width < 480 ? 15 : 24;
    const named = series.filter((one) => one.named && one.points.length);
    const margins = {
      marginRight: Math.max(16, Math.min(letters * LETTER, widest(named.map((one) => one.name))) + 18),
      marginTop: 28,
      marginBottom: 38,
      marginLeft: 48,
    };
    const height = Math.round(Math.min(330, 0.62 * width + 70));
    const points = series.flatMap((one) => one.points);
    const domain = around(
      [
        ...points.map((point) => point[1]),
        ...(band ?? []).flatMap((one) => one.slice(1)),
        ...(dots ?? []).map((dot) => dot[1]),
        ...(promised ?? []).map((point) => point[1]),
      ],
      { zero: y.zero },
    );
    if (y.format === "percent") domain[1] = Math.min(1, domain[1]);
    const place = axis(domain, [height - margins.marginBottom, margins.marginTop]);
    // Ticks that differ read differently, and between whole numbers there are none.
    const show = y.format === "percent" && domain[1] - domain[0] < 0.06 ? percent1 : (FORMATS[y.format] ?? two);
    const whole = x.format === "number" && points.every((point) => Number.isInteger(point[0]));
    const across = words
      ? (/** @type {number} */ at) => words[at] ?? ""
      : whole
        ? (/** @type {number} */ value) => (Number.isInteger(value) ? String(value) : "")
        : FORMATS[x.format];
    // From the top down, each name at its line's end or as near to it as those above leave room for.
    const ends = named
      .map((one) => {
        const end = one.points[one.points.length - 1];
        return { ...one, end, at: place(end[1]), label: 0 };
      })
      .sort((a, b) => a.at - b.at);
    ends.forEach((one, number) => {
      one.label = Math.max(one.at, number ? ends[number - 1].label + 15 : margins.marginTop);
    });
    for (
      let over = (ends.at(-1)?.label ?? 0) - (height - margins.marginBottom), number = ends.length - 1;
      over > 0 && number >= 0;
      number--
    ) {
      ends[number].label -= over;
      over = number ? ends[number - 1].label + 15 - ends[number].label : 0;
    }
    const ordered = [...series].sort((a, b) => Number(Boolean(a.ours)) - Number(Boolean(b.ours)));
    const every = ordered.flatMap((one) =>
      one.points.map(([across, up]) => ({ name: one.name, ours: one.ours, across, up })),
    );
    const text = few(
      series.map((one) => `${one.name} from ${show(one.points[0]?.[1] ?? 0)} to ${show(one.points.at(-1)?.[1] ?? 0)}`),
    );
    return plot({
      ...base(width, height, `${y.label} by ${x.label}: ${text}.`),
      ...margins,
      x: {
        label: x.label,
        labelArrow: "none",
        tickFormat: across,
        ticks: words ? words.map((_, at) => at) : width < 480 ? 4 : 6,
        ...(words ? { domain: [-0.2, words.length - 0.8] } : {}),
      },
      y: {
        label: y.label,
        labelArrow: "none",
        domain,
        tickFormat: y.format.startsWith("percent") ? show : undefined,
        grid: true,
        ticks: 5,
      },
      marks: [
        band &&
          Plot.areaY(band, {
            x: "0",
            y1: "1",
            y2: "2",
            fill: color("muted"),
            fillOpacity: 0.22,
          }),
        promised && Plot.line(promised, { stroke: color("text"), strokeDasharray: "4 4", strokeOpacity: 0.7 }),
        dots && Plot.dot(dots, { r: 3.5, fill: color("muted"), fillOpacity: 0.8 }),
        ...ordered.map((one) =>
          Plot.line(one.points, {
            stroke: shade(one),
            strokeWidth: one.ours ? 3 : 1.5,
            strokeOpacity: one.ours || one.named ? 1 : 0.6,
            curve: one.steps ? "step-after" : "linear",
          }),
        ),
        words && Plot.dot(every, { x: "across", y: "up", r: 4, fill: shade }),
        ...ends.map((one) =>
          Plot.text([one.end], {
            frameAnchor: "right",
            y: one.end[1],
            dy: one.label - one.at,
            textAnchor: "start",
            dx: 8,
            text: () => short(one.name, letters),
            fill: color(one.ours ? "accent" : "soft"),
            fontWeight: one.ours ? 700 : 400,
          }),
        ),
        Plot.tip(
          every,
          Plot.pointer({
            x: "across",
            y: "up",
            title: (/** @type {{ name: string, up: number }} */ one) => `${one.name}\n${show(one.up)}`,
            fill: color("surface"),
            stroke: color("line"),
            ariaHidden: "true", // the table beside the chart has the numbers
          }),
        ),
      ],
    });
  }

  /** Dots with their names beside them where there is room, ours first.
   * @param {ScatterData} data @param {number} width */
  function scatter({ points, x, y, logarithmic }, width) {
    const height = Math.round(Math.min(420, 0.7 * width + 90));
    const margins = { marginLeft: 48, marginRight: 16, marginTop: 28, marginBottom: 38 };
    const domains = {
      x: around(
        points.map((point) => point.x),
        { logarithmic },
      ),
      y: around(
        points.map((point) => point.y),
        { logarithmic },
      ),
    };
    const across = axis(domains.x, [margins.marginLeft, width - margins.marginRight], logarithmic);
    const up = axis(domains.y, [height - margins.marginBottom, margins.marginTop], logarithmic);
    const taken = points.map((point) => [across(point.x) - 6, up(point.y) - 6, across(point.x) + 6, up(point.y) + 6]);
    const free = (/** @type {number[]} */ [left, top, right, bottom]) =>
      left > margins.marginLeft &&
      right < width &&
      top > margins.marginTop - 10 &&
      bottom < height - margins.marginBottom &&
      taken.every((one) => right <= one[0] || left >= one[2] || bottom <= one[1] || top >= one[3]);
    const labels = [];
    for (const point of [...points].sort((a, b) => Number(Boolean(b.ours)) - Number(Boolean(a.ours)))) {
      const [px, py, long] = [across(point.x), up(point.y), point.name.length * LETTER];
      /** @type {[string, number, number][]} */
      const tries = [
        ["start", 9, 0],
        ["end", -9, 0],
        ["middle", 0, -13],
        ["middle", 0, 13],
        ["start", 7, -11],
        ["start", 7, 11],
        ["end", -7, -11],
        ["end", -7, 11],
      ];
      for (const [anchor, dx, dy] of tries) {
        const left = px + dx - (anchor === "end" ? long : anchor === "middle" ? long / 2 : 0);
        const box = [left, py + dy - 7, left + long, py + dy + 7];
        if (!free(box)) continue;
        taken.push(box);
        labels.push({ point, anchor, dx, dy });
        break;
      }
    }
    const scale = logarithmic
      ? {
          type: "log",
          ticks: 4,
          tickFormat: (/** @type {number} */ value) => (value >= 1000 ? `${value / 1000}k` : String(value)),
        }
      : { ticks: ticks(width - 64) };
    const text = few(points.map((point) => `${point.name} ${+point.x.toPrecision(3)}, ${+point.y.toPrecision(3)}`));
    return plot({
      ...base(width, height, `${y} by ${x}: ${text}.`),
      ...margins,
      x: { label: x, labelArrow: "none", domain: domains.x, ...scale },
      y: { label: y, labelArrow: "none", domain: domains.y, grid: true, ...scale },
      marks: [
        ...dots(points, "x", "y"),
        ...labels.map(({ point, anchor, dx, dy }) =>
          Plot.text([point], {
            x: "x",
            y: "y",
            text: "name",
            textAnchor: anchor,
            dx,
            dy,
            fill: color(point.ours ? "accent" : "soft"),
            fontWeight: point.ours ? 700 : 400,
          }),
        ),
        Plot.tip(
          points,
          Plot.pointer({
            x: "x",
            y: "y",
            title: (/** @type {ScatterData["points"][number]} */ point) =>
              `${point.name}\n${x}: ${+point.x.toPrecision(4)}\n${y}: ${+point.y.toPrecision(4)}`,
            fill: color("surface"),
            stroke: color("line"),
            ariaHidden: "true", // the table beside the chart has the numbers
          }),
        ),
      ],
    });
  }

  /** Points of several classes in the plane, with the name of each class at its center.
   * @param {PlaneData} data @param {number} width */
  function plane({ classes, points }, width) {
    const height = Math.round(Math.min(400, 0.8 * width));
    const domains = [0, 1].map((side) => around(points.map((point) => point[side])));
    const middle = (/** @type {number[]} */ values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
    const [across, up] = [axis(domains[0], [8, width - 8]), axis(domains[1], [height - 8, 8])];
    const letters = 18;
    /** @type {{ x: number, y: number, half: number }[]} */
    const taken = [];
    const labels = classes.map((name, place) => {
      const own = points.filter((point) => point[2] === place);
      const half = (Math.min(letters, name.length) * LETTER) / 2;
      const at = {
        name: short(name, letters),
        place,
        x: across(middle(own.map((point) => point[0]))),
        y: up(middle(own.map((point) => point[1]))),
      };
      at.x = Math.max(half + 4, Math.min(width - half - 4, at.x));
      const free = (/** @type {number} */ y) =>
        y > 10 &&
        y < height - 10 &&
        taken.every((one) => Math.abs(one.y - y) > 15 || Math.abs(one.x - at.x) > half + one.half + 4);
      for (const step of [0, 15, -15, 30, -30, 45, -45, 60, -60, 75, -75])
        if (free(at.y + step)) {
          at.y += step;
          break;
        }
      taken.push({ x: at.x, y: at.y, half });
      return at;
    });
    return plot({
      ...base(width, height, `${points.length} points in the plane, of ${few(classes)}.`),
      marginLeft: 8,
      marginRight: 8,
      marginTop: 8,
      marginBottom: 8,
      x: { domain: domains[0], axis: null },
      y: { domain: domains[1], axis: null },
      marks: [
        Plot.dot(points, {
          x: "0",
          y: "1",
          r: 4,
          fill: (/** @type {number[]} */ point) => PALETTE[point[2] % PALETTE.length],
          fillOpacity: 0.85,
          stroke: color("surface"),
          strokeWidth: 0.7,
        }),
        ...labels.map((one) =>
          Plot.text([one], {
            frameAnchor: "top-left",
            dx: one.x - 8,
            dy: one.y - 8,
            textAnchor: "middle",
            lineAnchor: "middle",
            text: "name",
            fill: color("text"),
            stroke: color("surface"),
            strokeWidth: 4,
            fontWeight: 600,
          }),
        ),
      ],
    });
  }

  /** The numbers of each chart as a table. */
  const tables = {
    /** @param {RowsData} data */
    rows({ rows, format, label }) {
      const show = FORMATS[format] ?? two;
      const extra = /** @type {const} */ (["least", "low", "high", "most"]).filter((name) =>
        rows.some((row) => row[name] !== undefined),
      );
      return {
        columns: ["method", label, ...extra],
        rows: rows.map((row) => [
          row.name,
          ...[row.value, ...extra.map((name) => row[name])].map((one) => show(one ?? NaN)),
        ]),
      };
    },

    /** @param {SharesData} data */
    shares: ({ rows, sizes }) => ({
      columns: [
        "method",
        ...sizes.map((size) => (size === "0" ? "empty" : size === "1" ? "1 label" : `${size} labels`)),
      ],
      rows: rows.map((row) => [row.name, ...row.shares.map((share) => percent(share, 1))]),
    }),

    /** @param {LinesData} data */
    lines({ series, x, y, words }) {
      const digits = (/** @type {number} */ value) => String(+value.toPrecision(4));
      const across = words ? (/** @type {number} */ at) => words[at] ?? "" : (FORMATS[x.format] ?? digits);
      const up = y.format.startsWith("percent") ? (/** @type {number} */ value) => percent(value, 1) : digits;
      const all = [...new Set(series.flatMap((one) => one.points.map((point) => point[0])))].sort((a, b) => a - b);
      const lookups = series.map((one) => new Map(one.points));
      const cell = (/** @type {number | undefined} */ value) => (value === undefined ? "" : up(value));
      return {
        columns: [x.label, ...series.map((one) => (series.length > 1 ? one.name : y.label))],
        rows: all.map((at) => [across(at), ...lookups.map((values) => cell(values.get(at)))]),
      };
    },

    /** @param {ScatterData} data */
    scatter: ({ points, x, y }) => ({
      columns: ["method", x, y],
      rows: points.map((point) => [point.name, String(+point.x.toPrecision(4)), String(+point.y.toPrecision(4))]),
    }),

    /** @param {PlaneData} data */
    plane({ classes, points }) {
      const mean = (/** @type {number[]} */ values) => values.reduce((a, b) => a + b, 0) / (values.length || 1);
      return {
        columns: ["class", "points", "mean across", "mean up"],
        rows: classes.map((name, place) => {
          const own = points.filter((point) => point[2] === place);
          const means = [0, 1].map((side) => two(mean(own.map((point) => point[side]))));
          return [name, String(own.length), ...means];
        }),
      };
    },
  };

  Object.assign(Charts, { rows, shares, lines, scatter, plane });
  Object.assign(Charts.tables, tables);
})();
