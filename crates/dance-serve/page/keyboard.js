// The keyboard: arrow keys within a group, of which only one element is in the tab order, and shortcuts that can be
// turned off.

const STORED = "dance-shortcuts";
/** @type {Record<string, Record<string, number>>} */
const STEPS = {
  horizontal: { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity },
  vertical: { ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity },
};

/** Returns the place that a key leads to, or null if the key does not move. Tabs go round, lists end.
 * @param {string} key @param {number} place @param {number} count @param {"horizontal" | "vertical"} direction */
export function moved(key, place, count, direction) {
  const step = STEPS[direction][key];
  if (step === undefined || count === 0) return null;
  if (direction === "horizontal" && Number.isFinite(step)) return (place + step + count) % count;
  return Math.max(0, Math.min(count - 1, place + step));
}

/** Moves the focus among the elements of `box` with the arrow keys, Home and End. `chosen` is called with the element.
 * @param {HTMLElement} box @param {string} selector @param {"horizontal" | "vertical"} direction
 * @param {(element: HTMLElement) => void} [chosen] */
export function roving(box, selector, direction, chosen) {
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof Element)) return;
    /** @type {HTMLElement[]} */
    const all = [...box.querySelectorAll(selector)].filter((one) => one instanceof HTMLElement);
    const from = event.target.closest(selector);
    const place = all.indexOf(/** @type {HTMLElement} */ (from));
    const next = place < 0 ? null : moved(event.key, place, all.length, direction);
    if (next === null) return;
    event.preventDefault();
    setInTabOrder(all, all[next]);
    all[next].focus();
    chosen?.(all[next]);
  });
}

/** Leaves one element of a group in the tab order. @param {Iterable<HTMLElement>} all @param {HTMLElement} [one] */
export function setInTabOrder(all, one) {
  for (const element of all) element.tabIndex = element === one ? 0 : -1;
}

/** Returns whether single keys are shortcuts. */
export const hasShortcuts = () => localStorage.getItem(STORED) !== "off";

/** Turns shortcuts of single keys on or off, for this browser. @param {boolean} on */
export function setShortcuts(on) {
  if (on) localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, "off");
}
