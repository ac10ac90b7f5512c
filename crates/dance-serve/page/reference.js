// The API, from the server's own description.

import { get } from "./api.js";
import { h } from "./dom.js";

export async function open(main) {
  const api = await get("/openapi.json");
  const paths = Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, one]) => ({ path, method, one })));
  main.append(
    h("h1", { class: "quiet" }, "The API"),
    h("p", { class: "soft" }, api.info.description, " For programs: ", h("a", { href: "/openapi.json" }, "openapi.json"), "."),
    ...paths.map((one) => operation(one, api)));
}

function operation({ path, method, one }, all) {
  const body = one.requestBody?.content?.["application/json"]?.schema;
  const answer = Object.entries(one.responses).find(([status]) => status.startsWith("2"))?.[1];
  const schema = Object.values(answer?.content ?? {})[0]?.schema;
  const refusals = Object.entries(one.responses).filter(([status]) => !status.startsWith("2"));
  return h("section", { class: "card operation" },
    h("h2", {}, h("span", { class: `method ${method}` }, method.toUpperCase()), " ", h("code", {}, path)),
    h("p", {}, one.description || one.summary),
    (one.parameters ?? []).length > 0 && h("div", {}, h("h3", {}, "Parameters"), table(one.parameters.map((parameter) => [parameter.name, type(parameter.schema), parameter.description ?? ""]))),
    body && h("div", {}, h("h3", {}, "Request, as JSON"), members(body, all)),
    schema && h("div", {}, h("h3", {}, "Response"), members(schema, all)),
    h("details", {}, h("summary", {}, "Error responses"), table(refusals.map(([status, refusal]) => [status, refusal.description]))));
}

const resolve = (schema, all) => (schema?.$ref ? all.components.schemas[schema.$ref.split("/").pop()] : schema);

function members(schema, all) {
  const { properties = {}, required = [], oneOf } = resolve(schema, all) ?? {};
  if (oneOf?.every((form) => form.$ref)) return h("div", {}, oneOf.map((form, place) => [place > 0 && h("p", { class: "soft" }, "or"), members(form, all)]));
  const rows = Object.entries(properties).map(([name, one]) => [name + (required.includes(name) ? "" : " (optional)"), type(one), one.description ?? resolve(one, all)?.description ?? ""]);
  return rows.length ? table(rows) : h("p", { class: "soft" }, type(schema));
}

function type(schema = {}) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return `array of ${type(schema.items)}`;
  const several = schema.oneOf ?? schema.anyOf;
  if (several) return several.map(type).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  return Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "anything");
}

const table = (rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Members" }, h("table", {}, h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell)))))));
