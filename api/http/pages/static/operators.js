// The account of a job's operators: rows and CPU of each beside what the plan predicts.

import { $, bytes, cost, counted, el, get, number } from "./dom.js";
import { Table } from "./table.js";
import { term } from "./terms.js";

const MANY = 1000; // operators, of which there is no news with every look
const SELDOM = 5; // looks
const COLUMN_KINDS = ["symbol", "events"]; // columns that other operators make, without time of their own

const known = (value) => value ?? -1;
const time = (value) => (value === null || value === undefined ? "–" : cost(value * 1e9, "nanoseconds"));
const ratio = (measured, predicted) => (measured && predicted ? measured / predicted : null);
const times = (value) => (value === null ? "–" : `${number(Number(value.toPrecision(3)))}×`);
const ratioOf = ({ cpu_seconds, predicted_seconds }) => ratio(cpu_seconds, predicted_seconds);

const COLUMNS = [
  { title: "Operator", value: ({ kind }) => kind, cell: kindOf },
  { title: "What it does", css: "code about", cell: ({ about }) => about },
  { title: "Queries", css: "n", numeric: true, value: ({ queries }) => queries, cell: ({ queries }) => number(queries) },
  { title: "Rows in", css: "n", numeric: true, value: ({ rows_in }) => known(rows_in), cell: ({ rows_in }) => number(rows_in) },
  { title: "Rows out", css: "n", numeric: true, value: ({ rows_out }) => known(rows_out), cell: ({ rows_out }) => number(rows_out) },
  { title: "Predicted rows", css: "n", numeric: true, value: ({ predicted_rows }) => known(predicted_rows), cell: ({ predicted_rows }) => rows(predicted_rows) },
  { title: "CPU", css: "n", numeric: true, value: ({ cpu_seconds }) => known(cpu_seconds), cell: ({ cpu_seconds }) => time(cpu_seconds) },
  { title: "Predicted CPU", css: "n", numeric: true, value: ({ predicted_seconds }) => known(predicted_seconds), cell: ({ predicted_seconds }) => time(predicted_seconds) },
  { title: "Ratio", css: "n", numeric: true, value: (each) => known(ratioOf(each)), cell: (each) => times(ratioOf(each)) },
  { title: "State", css: "n", numeric: true, value: ({ state }) => known(state?.bytes ?? state?.events), cell: held },
];

const rows = (value) => number(value === null || value === undefined ? null : Math.round(value));

function kindOf({ kind, unplanned }) {
  return unplanned ? el("span", {}, kind, " ", el("span", { class: "tag feasible" }, "not in the plan")) : kind;
}

/** What windows hold in bytes, or how many events wait; queries that share it are named by number. */
function held({ state, queries }) {
  if (!state) return "–";
  if ((state.bytes ?? null) === null) return state.events ? `${counted(state.events, "event")} waiting` : "none waiting";
  const others = state.queries > queries ? `, of ${counted(state.queries, "query", "queries")}` : "";
  return `${bytes(state.bytes)}, ${counted(state.events, "event")}${others}`;
}

export class Operators {
  constructor(section, id) {
    Object.assign(this, { section, id, looks: 0, every: 1, found: null });
    this.list(false);
    this.columns = $("#columns-too", section);
    this.columns.addEventListener("change", () => this.show());
  }

  /** An empty table; only streams have state. */
  list(hasState) {
    this.hasState = hasState;
    const columns = hasState ? COLUMNS : COLUMNS.filter(({ title }) => title !== "State");
    this.table = new Table($("#operators", this.section), columns, { one: "operator", several: "operators", size: 25 });
  }

  /** Ask again; `last`: whatever comes now stays. */
  async refresh(last = false) {
    if (!last && this.looks++ % this.every) return;
    this.found = await get(`/v1/jobs/${this.id}/operators`);
    this.every = this.found.operators.length > MANY ? SELDOM : 1;
    this.show();
  }

  show() {
    if (!this.found) return;
    const counts = this.found.operators.filter(({ rows_in, rows_out }) => (rows_in ?? rows_out ?? null) !== null);
    const shown = counts.filter(({ kind }) => this.columns.checked || !COLUMN_KINDS.includes(kind));
    this.section.hidden = !counts.length;
    if (!this.hasState && counts.some(({ state }) => state)) this.list(true);
    this.table.show(shown, this.table.page);
    showSums($("#sums", this.section), this.found);
    showFallbacks($("#fallbacks"), this.found.fallbacks);
    showTrees($("#trees"), this.found.trees);
  }
}

/** CPU of all operators and what was predicted of it, and what no operator claims. */
function showSums(list, { operators, cpu_seconds, predicted_seconds, unclaimed_seconds, access_text }) {
  const claimed = operators.reduce((sum, each) => sum + (each.cpu_seconds ?? 0), 0);
  const share = cpu_seconds ? `, ${Math.round((100 * (unclaimed_seconds ?? 0)) / cpu_seconds)} %` : "";
  const over = (unclaimed_seconds ?? null) !== null;
  const facts = [
    ["CPU of all operators", time(claimed)],
    ["Predicted", time(predicted_seconds)],
    ["Ratio", times(ratio(claimed, predicted_seconds))],
    [term("claimed", "Claimed by no operator"), over ? `${time(unclaimed_seconds)}${share}` : "known at the end"],
  ];
  if (access_text) facts.push([term("access", "Access"), access_text]);
  list.replaceChildren(...facts.map(([name, value]) => el("div", { class: value.length > 40 ? "long" : null }, el("dt", {}, name), el("dd", {}, value))));
}

/** What data or devices did not allow as planned. */
function showFallbacks(box, sentences) {
  box.hidden = !sentences.length;
  $("ul", box).replaceChildren(...sentences.map((sentence) => el("li", {}, sentence)));
}

const WORDS = { chosen: "chosen on the events", kept: "kept", changed: "changed" };

/** Trees that were chosen on the events or changed: the old ones, the new ones, and why. */
function showTrees(box, decisions) {
  box.hidden = !decisions.length;
  $("tbody", box).replaceChildren(...decisions.flatMap(({ what, batch, queries, reason, old, new: now }) =>
    queries.map((query, i) =>
      el("tr", {},
        el("th", { scope: "row" }, query),
        el("td", {}, `${WORDS[what]}, batch ${number(batch)}`),
        el("td", { class: "code" }, old[query] ?? "–"),
        el("td", { class: "code" }, now[query] ?? "–"),
        el("td", { class: "why" }, i ? "" : reason)))));
}
