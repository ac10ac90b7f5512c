// Elements from data. Text becomes text and nothing else, so that no name of a class or id is ever read as HTML.

/** An element: `h("p", {class: "soft", onclick}, "text", child)`. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

export const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)} %`;
export const number = (value) => value.toLocaleString("en-US");
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** A chart with its headline above it. `draw(width)` makes the picture. */
export function chart(headline, draw, caption) {
  const plot = h("div", { class: "plot" });
  const title = h("h3", {}, headline);
  const figure = h("figure", { class: "chart card" }, title, plot, caption && h("figcaption", {}, caption));
  figure.again = (words, redraw) => { title.textContent = words; plot.redraw(redraw); };
  // It is drawn when it has a width.
  globalThis.Charts.mount(plot, draw);
  return figure;
}

/** Says something to everybody, also to those who do not see it. */
export function say(words) {
  let region = document.getElementById("said");
  if (!region) document.body.append((region = h("div", { id: "said", role: "status", class: "toast" })));
  region.textContent = words;
  region.classList.add("shown");
  clearTimeout(region.timer);
  region.timer = setTimeout(() => region.classList.remove("shown"), 2500);
}
