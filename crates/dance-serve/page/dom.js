// DOM elements from data. Texts become text nodes, so that no name of a class or id is read as HTML.

/** Returns an element: `h("p", {class: "soft", onclick}, "text", child)`. */
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

/** Returns a chart with its headline. `draw(width)` returns the picture. */
export function chart(headline, draw, caption) {
  const plot = h("div", { class: "plot" });
  const figure = h("figure", { class: "chart card" }, h("h3", {}, headline), plot, caption && h("figcaption", {}, caption));
  // The chart is drawn once the element has a width.
  globalThis.Charts.mount(plot, draw);
  return figure;
}

/** Shows a message for a moment. Screen readers read it out. */
export function announce(words) {
  let region = document.getElementById("message");
  if (!region) document.body.append((region = h("div", { id: "message", role: "status", class: "toast" })));
  region.textContent = words;
  region.classList.add("shown");
  clearTimeout(region.timer);
  region.timer = setTimeout(() => region.classList.remove("shown"), 2500);
}
