// Draws every chart of the page from the numbers beside it, with these numbers as a table.
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  if (!(figure instanceof HTMLElement)) continue;
  const data = JSON.parse(figure.querySelector("script")?.textContent ?? "");
  const kind = figure.dataset.chart ?? "";
  Charts.mount(figure.querySelector(".plot"), (/** @type {number} */ width) => Charts[kind](data, width));
  figure.append(Charts.asTable(figure.querySelector("h3")?.textContent, () => Charts.tables[kind](data)));
}

// A list of the sections leads to each of them.
const headings = [...document.querySelectorAll("main h2")];
if (headings.length > 2) {
  const list = document.createElement("ul");
  for (const [place, heading] of headings.entries()) {
    heading.id ||= `section-${place + 1}`;
    const link = document.createElement("a");
    link.href = `#${heading.id}`;
    link.textContent = heading.textContent;
    const item = document.createElement("li");
    item.append(link);
    list.append(item);
  }
  const contents = document.createElement("nav");
  contents.className = "contents card";
  contents.setAttribute("aria-label", "Contents");
  contents.append(list);
  document.querySelector("main > header")?.after(contents);
  // The browser looked for the section of the address before the sections had ids.
  document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

// Sorts a table by the column whose heading is pressed: numbers as numbers, a second press the other way round.
for (const table of document.querySelectorAll("table")) {
  const columns = [...(table.tHead?.rows[0].cells ?? [])];
  for (const [column, heading] of columns.entries()) {
    // Words stand at the left and wrap; numbers stand at the right.
    const cells = [...table.tBodies[0].rows].map((row) => row.cells[column]);
    if (cells.every((cell) => cell.dataset.value === undefined)) {
      for (const cell of [heading, ...cells]) cell.classList.add("words");
    }
    heading.firstChild?.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of columns) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      sort(table.tBodies[0], column, up);
    });
  }
}

/** Sorts the rows of a table. Cells without a number come last in either direction.
 * @param {HTMLTableSectionElement} body @param {number} column @param {boolean} up */
function sort(body, column, up) {
  const sign = up ? 1 : -1;
  const value = (/** @type {HTMLTableRowElement} */ row) => row.cells[column].dataset.value;
  const text = (/** @type {HTMLTableRowElement} */ row) => row.cells[column].textContent ?? "";
  const rows = [...body.rows].sort((a, b) => {
    const [one, two] = [value(a), value(b)];
    if (one === undefined && two === undefined) return sign * text(a).localeCompare(text(b));
    if (one === undefined || two === undefined) return one === undefined ? 1 : -1;
    return sign * (Number(one) - Number(two));
  });
  body.append(...rows);
}
