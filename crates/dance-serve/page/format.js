// Numbers in the format of the reader's languages, which the browser knows.

const languages = globalThis.navigator?.languages?.length ? [...navigator.languages] : undefined;
/** @type {Map<string, Intl.NumberFormat>} */
const formats = new Map();

/** @param {number} value @param {Intl.NumberFormatOptions} options */
function format(value, options) {
  const key = JSON.stringify(options);
  const made = formats.get(key) ?? new Intl.NumberFormat(languages, options);
  formats.set(key, made);
  return made.format(value);
}

/** Returns a whole number, such as 12,000. @param {number} value */
export const number = (value) => format(value, { maximumFractionDigits: 0 });

/** Returns a number with this many decimals. @param {number} value @param {number} digits */
export const decimal = (value, digits) =>
  format(value, { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Returns a number with this many significant digits. @param {number} value @param {number} digits */
export const significant = (value, digits) => format(value, { maximumSignificantDigits: digits });

/** Returns a share as percent. @param {number} share @param {number} [digits] */
export const percent = (share, digits = 0) =>
  format(share, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Returns a probability as percent. Rounding never makes it certain or impossible. @param {number} value */
export function probability(value) {
  if (value > 0.995 && value < 1) return `> ${percent(0.99)}`;
  if (value > 0 && value < 0.005) return `< ${percent(0.01)}`;
  return percent(value);
}

/** Returns a number with its noun. @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
