// Draws every chart of the page from the numbers beside it.
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  Charts.mount(figure.querySelector(".plot"), (width) => Charts[figure.dataset.chart](data, width));
}

// Sorts a table by the column whose heading is pressed: numbers as numbers, a second press the other way round.
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => heading.firstChild.addEventListener("click", () => {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    };
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [one, two] = [key(a), key(b)];
      if (one === null && two === null) return (up ? 1 : -1) * a.cells[column].textContent.localeCompare(b.cells[column].textContent);
      if (one === null || two === null) return one === null ? 1 : -1; // what has no number comes last either way
      return (up ? 1 : -1) * (one - two);
    });
    table.tBodies[0].append(...rows);
  }));
}
