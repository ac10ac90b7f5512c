// The API, from the server's own description: routes that people need most come first.

import { get, PATHS } from "./api.js";
import { h } from "./dom.js";

/** A schema of OpenAPI, of which only some members are read. @typedef {Record<string, any>} Schema */
/** @typedef {{ path: string, method: string, one: Schema }} Operation */

/** The groups of routes, the most needed first; other groups follow. */
const GROUPS = ["sets", "labels", "model", "page"];
/** The most values of an array in an example. */
const FEW = 2;

/** @param {HTMLElement} main */
export async function open(main) {
  const api = await get(PATHS.openapi);
  /** @type {Operation[]} */
  const all = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]) => ({ path, method, one })),
  );
  const rank = (/** @type {Operation} */ { one }) => {
    const place = GROUPS.indexOf(one.tags?.[0]);
    return place < 0 ? GROUPS.length : place;
  };
  // `sort` is stable: within a group, predictions are first and the rest stays in the order of the description.
  const first = (/** @type {Operation} */ { path }) => (path.endsWith("/predict") ? 0 : 1);
  all.sort((a, b) => rank(a) - rank(b) || first(a) - first(b));
  main.append(
    h("h1", { class: "quiet" }, "The API"),
    h(
      "p",
      { class: "soft" },
      prose(api.info.description ?? ""),
      " For programs: ",
      h("a", { href: PATHS.openapi }, "openapi.json"),
      ".",
    ),
    h(
      "nav",
      { class: "card contents", "aria-label": "Routes" },
      h(
        "ul",
        {},
        all.map((one, place) =>
          h(
            "li",
            {},
            h(
              "button",
              { type: "button", class: "link", onclick: () => jump(place) },
              `${one.method.toUpperCase()} ${one.path}`,
            ),
          ),
        ),
      ),
    ),
    ...all.map((one, place) => operation(one, api, place)),
  );
}

/** @param {number} place */
function jump(place) {
  const heading = document.getElementById(`route-${place}`);
  heading?.scrollIntoView({ block: "start" });
  heading?.focus({ preventScroll: true });
}

/** Returns a text with the words between backticks as code. @param {string} text */
const prose = (text) => text.split("`").map((part, place) => (place % 2 ? h("code", {}, part) : part));

/** @param {Operation} operation @param {Schema} all @param {number} place */
function operation({ path, method, one }, all, place) {
  const bodies = one.requestBody?.content ?? {};
  const body = bodies["application/json"]?.schema;
  const answer = Object.entries(one.responses).find(([status]) => status.startsWith("2"))?.[1];
  const schema = Object.values(answer?.content ?? {})[0]?.schema;
  const refusals = Object.entries(one.responses).filter(([status]) => !status.startsWith("2"));
  const parameters = (one.parameters ?? []).map((/** @type {Schema} */ parameter) => [
    parameter.name,
    type(parameter.schema),
    parameter.description ?? "",
  ]);
  return h(
    "section",
    { class: "card operation" },
    h(
      "h2",
      { id: `route-${place}`, tabindex: "-1" },
      h("span", { class: `method ${method}` }, method.toUpperCase()),
      " ",
      h("code", {}, path),
    ),
    h("p", {}, prose(one.description || one.summary || "")),
    h("pre", { tabindex: "0", "aria-label": `Example of ${path}` }, command(path, method, body, all)),
    parameters.length > 0 && h("div", {}, h("h3", {}, "Parameters"), table(parameters, `Parameters of ${path}`)),
    body && h("div", {}, h("h3", {}, "Request, as JSON"), members(body, all, `Request of ${path}`)),
    schema && h("details", {}, h("summary", {}, "Response"), members(schema, all, `Response of ${path}`)),
    h(
      "details",
      {},
      h("summary", {}, "Error responses"),
      table(
        refusals.map(([status, refusal]) => [status, refusal.description]),
        `Errors of ${path}`,
      ),
    ),
  );
}

/** Returns a request that can be typed, with an example body made from the schema.
 * @param {string} path @param {string} method @param {Schema | undefined} body @param {Schema} all */
function command(path, method, body, all) {
  const address = `${location.origin}${path}`;
  if (method === "get") return `curl '${address}'`;
  if (!body) return `curl -X ${method.toUpperCase()} '${address}'`;
  const example = JSON.stringify(exampleOf(body, all, 0));
  return `curl '${address}' -H 'Content-Type: application/json' \\\n  -d '${example}'`;
}

/** Returns a value that fits a schema: the required members, or the first where none is required.
 * @param {Schema} given @param {Schema} all @param {number} depth @returns {unknown} */
function exampleOf(given, all, depth) {
  const schema = resolve(given, all) ?? {};
  if (schema.example !== undefined) return schema.example;
  if (schema.examples?.length) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const form = (schema.oneOf ?? schema.anyOf ?? schema.allOf)?.[0];
  if (form && depth < 6) return exampleOf(form, all, depth + 1);
  const [kind] = [schema.type].flat();
  if (kind === "array")
    return depth < 6
      ? Array(FEW)
          .fill(exampleOf(schema.items ?? {}, all, depth + 1))
          .slice(0, isRow(schema, all) ? 1 : FEW)
      : [];
  if (kind === "integer") return 0;
  if (kind === "number") return 0.12;
  if (kind === "boolean") return true;
  if (schema.properties && depth < 6) {
    const names = Object.keys(schema.properties);
    const wanted = schema.required?.length ? names.filter((name) => schema.required.includes(name)) : names.slice(0, 1);
    return Object.fromEntries(wanted.map((name) => [name, exampleOf(schema.properties[name], all, depth + 1)]));
  }
  return "text";
}

/** Returns whether the items of an array are objects: one is enough for an example.
 * @param {Schema} schema @param {Schema} all */
const isRow = (schema, all) => Boolean(resolve(schema.items ?? {}, all)?.properties);

/** @param {Schema | undefined} schema @param {Schema} all @returns {Schema | undefined} */
const resolve = (schema, all) => (schema?.$ref ? all.components.schemas[schema.$ref.split("/").pop()] : schema);

/** @param {Schema} schema @param {Schema} all @param {string} label @returns {HTMLElement} */
function members(schema, all, label) {
  const { properties = {}, required = [], oneOf } = resolve(schema, all) ?? {};
  if (oneOf?.every((/** @type {Schema} */ form) => form.$ref)) {
    const forms = oneOf.map((/** @type {Schema} */ form, /** @type {number} */ place) => [
      place > 0 && h("p", { class: "soft" }, "or"),
      members(form, all, `${label}, form ${place + 1}`),
    ]);
    return h("div", {}, forms);
  }
  const rows = Object.entries(properties).map(([name, one]) => [
    name + (required.includes(name) ? "" : " (optional)"),
    type(one),
    one.description ?? resolve(one, all)?.description ?? "",
  ]);
  return rows.length ? table(rows, label) : h("p", { class: "soft" }, type(schema));
}

/** @param {Schema} [schema] @returns {string} */
function type(schema = {}) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return `array of ${type(schema.items)}`;
  const several = schema.oneOf ?? schema.anyOf;
  if (several) return several.map(type).join(" or ");
  if (schema.enum) return schema.enum.map((/** @type {unknown} */ one) => JSON.stringify(one)).join(" or ");
  return Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "anything");
}

/** @param {string[][]} rows @param {string} label */
const table = (rows, label) =>
  h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      {},
      h(
        "tbody",
        {},
        rows.map(([name, ...cells]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, name),
            cells.map((cell) => h("td", {}, prose(cell))),
          ),
        ),
      ),
    ),
  );
