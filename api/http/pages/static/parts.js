// What a plan is made of: groups with their reasons, and the operators that run.

import { cost, counted, el, number, some, unquoted } from "./dom.js";
import { explained, term } from "./terms.js";

const OPEN = 3; // groups that are shown in full at first
const LISTED = 60;
const FEW = 12;

/** Steps of a pattern, with arrows between them. */
export function steps(pattern) {
  return el("span", { class: "steps-of code" },
    pattern.flatMap((step, i) => [i ? el("i", {}, "→") : null, el("span", {}, unquoted(step))]));
}

/** A list that shows the first, and the rest when asked. */
function inPortions(box, items, make, portion = LISTED) {
  let shown = 0;
  const more = el("button", { type: "button", class: "plain", onclick: () => add() }, "");
  const foot = el("div", { class: "pager" }, more);
  function add() {
    for (const item of items.slice(shown, shown + portion)) foot.before(make(item, shown++));
    foot.hidden = shown >= items.length;
    more.textContent = `Show ${Math.min(portion, items.length - shown)} of ${counted(items.length - shown, "more", "more")}`;
  }
  box.replaceChildren(foot);
  add();
}

export function showGroups(box, plan, known) {
  box.classList.add("groups");
  const groups = [...plan.groups].sort((a, b) => b.queries.length - a.queries.length);
  inPortions(box, groups, (group, i) =>
    el("details", { open: i < OPEN && group.queries.length > 1 },
      el("summary", {},
        el("span", { class: "names" }, some(group.queries, 6)),
        el("span", { class: "quiet" }, [counted(group.queries.length, "query", "queries"), saving(group.cost)].filter(Boolean).join(", ")),
        el("span", { class: "tag" }, engineName(group.engine, known)),
        el("span", { class: "tag" }, DEVICES[group.device] ?? group.device ?? "CPU")),
      el("div", { class: "body" }, el("p", {}, "By ", term(group.engine, engineName(group.engine, known)), ": ", explained(unquoted(group.why), known)), segments(group), trees(group))));
}

const ENGINES = { "deferred-trees": "trees chosen on the events", stepwise: "one component after the other", compact: "matches in order" };
const DEVICES = { cpu: "CPU", opencl: "OpenCL" };

/** What people call an engine, as the glossary does. */
const engineName = (engine, known) => ENGINES[engine] ?? known.find(({ id }) => id === engine)?.name ?? engine;

/** What running together saves, where a group says so. */
function saving(costs) {
  const part = costs?.separate ? 1 - costs.shared / costs.separate : 0;
  return part > 0.0005 ? `saves ${(100 * part).toFixed(1)} %` : null;
}

function segments(group) {
  const uses = Object.entries(group.uses ?? {});
  if (!group.segments || !uses.length) return null;
  const rows = uses.slice(0, LISTED).map(([query, numbers]) =>
    el("tr", {},
      el("th", { scope: "row" }, query),
      el("td", {}, numbers.map((n, i) => [i ? " + " : "", steps(group.segments[n] ?? [])]).flat())));
  const rest = uses.length - rows.length;
  return [
    el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "mini" }, el("tbody", {}, rows))),
    rest > 0 ? el("p", { class: "quiet" }, `and ${counted(rest, "query", "queries")} more`) : null,
  ];
}

const ESTIMATED = {
  "deferred-trees": "The order of joins is decided on the events, when the job runs. Costs and rows are estimated with:",
  stepwise: "Costs and rows are estimated with:",
  compact: "Costs and rows are estimated with:",
};
const WAYS = {
  push: "push: events are joined as they come",
  pull: "pull: events wait until an event comes that can end a match",
  "pass-down": "pass-down: as pull, and only events that fit the conditions on the last event are joined",
};

/** The trees of a group's queries, each with how events come to its joins. */
function trees(group) {
  const tree = group.tree ?? {};
  const found = group.queries.length === 1 && Object.keys(tree).length ? { [group.queries[0]]: tree } : tree;
  const all = Object.entries(found);
  if (!all.length) return null;
  const lines = all.slice(0, LISTED).map(([query, tree]) =>
    el("tr", {},
      el("th", { scope: "row" }, query),
      el("td", {}, el("code", {}, treeText(tree)), el("br"), el("span", { class: "quiet" }, WAYS[wayOf(tree)]))));
  const rest = all.length - lines.length;
  return [
    ESTIMATED[group.engine] ? el("p", { class: "quiet" }, ESTIMATED[group.engine]) : null,
    el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "mini" }, el("tbody", {}, lines))),
    rest > 0 ? el("p", { class: "quiet" }, `and ${counted(rest, "query", "queries")} more`) : null,
  ];
}

/** How events come to the joins of a tree, or of the first reading that says so. */
function wayOf(node) {
  if (node === null || typeof node !== "object") return "push";
  if (node.operator === "PASSED") return node.way;
  return (node.parts ?? []).map(wayOf).find((way) => way !== "push") ?? "push";
}

/** `((A ; B) ; C)`, as everywhere; parts that we do not know are left as they are written. */
function treeText(node) {
  if (node.event) return node.event;
  if (node.shared) return `<${node.shared}>`;
  const parts = (node.parts ?? []).map((part) => (part === null ? null : treeText(part)));
  switch (node.operator) {
    case "SEQ": return `(${parts.join(" ; ")})`;
    case "AND": return `(${parts.join(" & ")})`;
    case "WALK": return `WALK(${parts.join(", ")})`;
    case "OR": return `(${parts.join(" | ")})`;
    case "NSEQ": return node.side === "left" ? `NSEQ(!${treeText(node.negation)} ; ${parts[0]})` : `NSEQ(${parts[0]} ; !${treeText(node.negation)})`;
    case "NEG": return `NEG(${parts[0]}, !${treeText(node.negation)})`;
    case "KSEQ": return `KSEQ(${[parts[0], ...node.closures.map(treeText), parts[1]].filter(Boolean).join(" ; ")})`;
    case "PASSED": return `${parts[0]} by ${node.way}`;
    default: return JSON.stringify(node);
  }
}

export function showOperators(box, plan) {
  box.classList.add("operators");
  const kinds = new Map();
  for (const { kind } of plan.operators) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const list = el("div");
  const choose = (wanted) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === wanted));
    const shown = plan.operators.filter(({ kind }) => wanted === "" || kind === wanted);
    inPortions(list, shown, (operator) => operatorItem(operator, plan.cost.unit), FEW);
  };
  const buttons = [["", plan.operators.length], ...kinds].map(([kind, many]) =>
    el("button", { type: "button", "data-kind": kind, onclick: () => choose(kind) }, `${kind || "all"} ${many}`));
  box.replaceChildren(el("div", { class: "kinds", role: "group", "aria-label": "Kinds of operators" }, buttons), list);
  choose("");
}

function operatorItem({ id, kind, inputs, detail, ...properties }, unit) {
  const numbers = [
    properties.cost ? cost(properties.cost, unit) : null,
    properties.rows === undefined ? null : `${number(properties.rows)} ${properties.rows === 1 ? "row" : "rows"} a second`,
  ].filter(Boolean);
  return el("details", {},
    el("summary", {},
      el("span", { class: "kind" }, kind),
      el("span", { class: "about" }, told(detail ?? {}) || id),
      el("span", { class: "quiet" }, numbers.join(", "))),
    el("div", { class: "body" }, details({ id, reads: inputs, ...detail, ...properties })));
}

/** What an operator is about, in a few words of its own. */
function told(detail) {
  const { pattern, query, symbol, symbols, steps: path, queries, key, engine, device, time, rows } = detail;
  if (query) return pattern ? `${query}: ${pattern}` : query;
  if (path) return path.join(" → ");
  if (pattern ?? symbol) return pattern ?? symbol;
  if (queries) return `${engine ?? ""}${device && device !== "cpu" ? ` on ${device}` : ""}: ${some(queries, 5)}`;
  if (key) return key.length ? `by ${key.join(", ")}` : "no key";
  if (symbols) return counted(symbols.length, "symbol");
  return time ? `in the order of ${time}` : rows ?? "";
}

function details(detail) {
  const text = (value) => {
    if (Array.isArray(value)) return some(value.map(text), 40);
    return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
  };
  return el("dl", { class: "facts" },
    Object.entries(detail)
      .filter(([, value]) => !(Array.isArray(value) && !value.length))
      .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { class: "code" }, text(value)))));
}
