// The pictures of points. They are fetched here, since an `img` element sends no key.

import { PATHS, request } from "./api.js";

/** The most pictures that are kept in memory. */
const MOST = 400;
/** Milliseconds after which a dropped picture is freed, so that an `img` element that has just begun to load it can. */
const GRACE = 10_000;

/** A cache of at most `most` values. The value that was used least recently is dropped first.
 * @template T */
export class Bounded {
  /** @param {number} most @param {(value: T) => void} drop */
  constructor(most, drop) {
    /** @type {Map<string, T>} */
    this.values = new Map();
    this.most = most;
    this.drop = drop;
  }

  /** Returns the value of a key, made where it is missing. @param {string} key @param {() => T} make @returns {T} */
  get(key, make) {
    const value = this.values.get(key) ?? make();
    this.values.delete(key); // a map is in the order of insertion: the used key goes to the end
    this.values.set(key, value);
    for (const [oldest, dropped] of this.values) {
      if (this.values.size <= this.most) break;
      this.values.delete(oldest);
      this.drop(dropped);
    }
    return value;
  }
}

/** @type {Bounded<Promise<string | null>>} */
const kept = new Bounded(MOST, (picture) => {
  setTimeout(async () => {
    const address = await picture;
    if (address) URL.revokeObjectURL(address);
  }, GRACE);
});

/** Returns the address of the picture of an id, or null if there is none. @param {string} id */
export function picture(id) {
  return kept.get(id, async () => {
    try {
      const response = await request(PATHS.picture(id));
      return response.ok ? URL.createObjectURL(await response.blob()) : null;
    } catch {
      return null;
    }
  });
}

/** @type {IntersectionObserver | undefined} */
let observer;

/** Calls `show` once, when an element comes near the window. @param {Element} element @param {() => void} show */
export function whenNear(element, show) {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        observer?.unobserve(target);
        waiting.get(target)?.();
        waiting.delete(target);
      }
    },
    { rootMargin: "400px" },
  );
  waiting.set(element, show);
  observer.observe(element);
}

/** @type {WeakMap<Element, () => void>} */
const waiting = new WeakMap();
