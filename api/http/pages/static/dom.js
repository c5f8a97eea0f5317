// Elements, calls to the service, and numbers as people read them.

export const $ = (selector, root = document) => root.querySelector(selector);

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** An element; texts among its children are never read as markup. */
export const el = (tag, attributes, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

/** An answer of the service that says what went wrong. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `the service answered with ${status}`);
    this.status = status;
    this.title = body.title ?? "It did not work";
    this.kind = (body.type ?? "").split(":").pop();
    this.diagnostics = body.diagnostics ?? [];
  }
}

/** Call the service; gives status, headers and what came, and throws a `Problem`. */
export async function call(method, path, { body, headers = {}, signal } = {}) {
  const sent = { method, headers: { accept: "application/json", ...headers }, signal };
  if (body !== undefined) {
    sent.body = typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body);
    sent.headers["content-type"] ??= "application/json";
  }
  let response;
  try {
    response = await fetch(path, sent);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, {
      title: "The service does not answer",
      detail: "The service does not answer; see whether it still runs, then try again.",
    });
  }
  if (response.status === 401) {
    location.reload(); // whoever is no longer signed in is shown the way in
  }
  const isJson = (response.headers.get("content-type") ?? "").includes("json");
  const content = isJson ? await response.json() : await response.text();
  if (!response.ok) throw new Problem(response.status, isJson ? content : {});
  return { status: response.status, headers: response.headers, content };
}

export const get = async (path, options) => (await call("GET", path, options)).content;

/** Say in an alert's element what went wrong, or nothing. */
export function complain(element, error) {
  element.hidden = !error;
  if (!error) return;
  const title = error.title && error.title !== error.message ? `${error.title}. ` : "";
  element.textContent = title + sentence(error.message ?? String(error));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A key with which a POST that is sent twice is done once. */
export function fresh() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-3) {
    const [mantissa, exponent] = value.toExponential(2).split("e");
    const raised = String(Number(exponent)).replace(/./g, (digit) => RAISED[digit]);
    return `${mantissa} × 10${raised}`.replace("-", "−");
  }
  const shown = Number.isInteger(value) || size >= 1e4 ? whole.format(value) : precise.format(value);
  return shown.replace("-", "−");
}

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** A cost: times in the unit that suits them, anything else as a number. */
export function cost(value, unit) {
  if (!unit.startsWith("nanoseconds") || value === 0) return number(value);
  const [size, name] = TIMES.find(([each]) => Math.abs(value) >= each * 0.9995) ?? [1, "ns"];
  return `${Number((value / size).toPrecision(3))} ${name}`.replace("-", "−");
}

export const counted = (many, one, several = `${one}s`) =>
  `${whole.format(many)} ${many === 1 ? one : several}`;

export function seconds(value) {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 120) return `${minutes} min ${Math.round(value % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(value, 1)) / 3));
  return `${precise.format(value / 1000 ** step)} ${units[step]}`;
}

/** A pattern with its names as they are, without quotes around those that have blanks. */
export const unquoted = (pattern) =>
  pattern.replace(/'(?:[^']|'')*'|"((?:[^"]|"")+)"/g, (all, name) => name?.replaceAll('""', '"') ?? all);

/** Names in a line: the first of them, and how many more there are. */
export function some(names, most = 8) {
  const more = names.length - most;
  return names.slice(0, most).join(", ") + (more > 0 ? ` and ${whole.format(more)} more` : "");
}
