// The queries of a plan, as a table: which costs most, and which others it shares with.

import { $, cost, el, number, some, unquoted } from "./dom.js";
import { Table } from "./table.js";

/** `choose` is told the name of a query that is clicked, `light` the queries of the row under the pointer. */
export function showQueries(box, rows, unit, { choose, light }) {
  const all = rows.reduce((sum, row) => sum + row.cost.part, 0);
  const percent = (value) => (all ? `${number(Number(((100 * value) / all).toPrecision(2)))} %` : "–");
  const columns = [
    {
      title: "Query", value: (row) => row.name,
      cell: (row) => el("button", { type: "button", class: "link code", onclick: () => choose(row.name) }, row.name),
    },
    { title: "Pattern", css: "piece", value: (row) => row.pattern, cell: (row) => unquoted(row.pattern) },
    { title: "Runs by", value: (row) => row.engine, cell: (row) => row.engine },
    {
      title: "Cost", css: "n", numeric: true, value: (row) => row.cost.part,
      cell: (row) => el("span", { title: `${cost(row.cost.own, unit)} of it for this query alone` }, cost(row.cost.part, unit)),
    },
    { title: "Of the plan", css: "n", numeric: true, value: (row) => row.cost.part, cell: (row) => percent(row.cost.part) },
    {
      title: "Paid by others", css: "n", numeric: true, value: (row) => row.cost.spared,
      cell: (row) => cost(row.cost.spared, unit),
    },
    {
      title: "Shares pieces with", css: "n", numeric: true, value: (row) => row.with.length,
      cell: (row) => el("span", { title: some(row.with, 40) || "no other" }, number(row.with.length)),
    },
    {
      title: "Rows an hour", css: "n", numeric: true, value: (row) => row.rows ?? -1,
      cell: (row) => (row.rows === null ? "–" : number(Math.round(row.rows * 3600))),
    },
  ];
  const table = new Table(box, columns, {
    one: "query", several: "queries",
    hover: (row) => light(row && [row.name, ...row.with]),
  });
  const filter = $("#queries-filter");
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    table.show(rows.filter((row) => {
      const text = unquoted(`${row.name} ${row.pattern} ${row.engine}`).toLowerCase();
      return words.every((word) => text.includes(word));
    }));
  };
  filter.addEventListener("input", draw);
  draw();
  table.sortBy(3, true);
}
