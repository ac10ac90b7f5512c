// DOM elements from data. Texts become text nodes, so that no name of a class or id is read as HTML.

/** @typedef {Node | string | undefined | null | false | Child[]} Child */

/** Returns an element: `h("p", {class: "soft", onclick}, "text", child)`.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {Record<string, any> | null} [properties] @param {Child[]} children
 * @returns {HTMLElementTagNameMap[T]} */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name.startsWith("aria-")) element.setAttribute(name, String(value));
    else if (name in element && typeof value !== "string") /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...flat(children));
  return element;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
const flat = (children) =>
  children.flatMap((child) => (Array.isArray(child) ? flat(child) : child || child === "" ? [child] : []));

/** Returns the element with an id that the page always has. @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** Returns a name that may break where its words meet: `HerbaceousVegetation`, `sea_lake`. @param {unknown} name */
export const breakable = (name) =>
  String(name)
    .split(/(?<=\p{Ll})(?=\p{Lu})|(?<=[_/.-])/u)
    .flatMap((part, place) => (place ? [h("wbr"), part] : [part]));

/** Returns a chart with its headline, and its numbers as a table for those who cannot see it.
 * @param {string} headline @param {(width: number) => Node} draw @param {string} caption
 * @param {() => { columns: string[], rows: unknown[][] }} numbers */
export function chart(headline, draw, caption, numbers) {
  const plot = h("div", { class: "plot" });
  const figure = h(
    "figure",
    { class: "chart card" },
    h("h3", {}, headline),
    plot,
    h("figcaption", {}, caption),
    globalThis.Charts.asTable(headline, numbers),
  );
  // The chart is drawn once the element has a width.
  globalThis.Charts.mount(plot, draw);
  return figure;
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let fading;

/** Shows a message for a moment. Screen readers read it out. @param {string} words */
export function announce(words) {
  const region = byId("message");
  region.textContent = words;
  region.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => region.classList.remove("shown"), 2500);
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let speaking;

/** Lets screen readers read words out once they have stood for a moment: not at every step of a slider.
 * @param {string} words */
export function speak(words) {
  clearTimeout(speaking);
  speaking = setTimeout(() => {
    byId("spoken").textContent = words;
  }, 900);
}
