// What a job has counted of each operator of its plan.

import { bytes, counted, get, number } from "./dom.js";
import { Table } from "./table.js";

const MANY = 1000; // operators, of which there is no news with every look
const SELDOM = 5; // looks

const known = (value) => value ?? -1;
const COLUMNS = [
  { title: "Operator", value: ({ kind }) => kind, cell: ({ kind }) => kind },
  { title: "About", css: "code", cell: ({ about }) => about },
  { title: "Queries", css: "n", numeric: true, value: ({ queries }) => queries, cell: ({ queries }) => number(queries) },
  { title: "Rows in", css: "n", numeric: true, value: ({ rows_in }) => known(rows_in), cell: ({ rows_in }) => number(rows_in) },
  { title: "Rows out", css: "n", numeric: true, value: ({ rows_out }) => known(rows_out), cell: ({ rows_out }) => number(rows_out) },
  { title: "State", css: "n", numeric: true, value: ({ state }) => known(state?.bytes ?? state?.events), cell: held },
];

/** What windows hold in bytes, or how many events wait; queries that share it are named by number. */
function held({ state, queries }) {
  if (!state) return "–";
  if (state.bytes === null) return state.events ? `${counted(state.events, "event")} wait` : "none waits";
  const others = state.queries > queries ? `, of ${counted(state.queries, "query", "queries")}` : "";
  return `${bytes(state.bytes)}, ${counted(state.events, "event")}${others}`;
}

export class Operators {
  constructor(section, id) {
    Object.assign(this, { section, id, looks: 0, every: 1 });
    this.table = new Table(section.querySelector("#operators"), COLUMNS, { one: "operator", several: "operators", size: 12 });
  }

  /** Ask again; `last`: whatever comes now stays. */
  async refresh(last = false) {
    if (!last && this.looks++ % this.every) return;
    const { operators } = await get(`/v1/jobs/${this.id}/operators`);
    this.every = operators.length > MANY ? SELDOM : 1;
    const shown = operators.filter(({ rows_in, rows_out }) => (rows_in ?? rows_out ?? null) !== null);
    this.section.hidden = !shown.length;
    this.table.show(shown, this.table.page);
  }
}
