// The queries of a plan, as a table: which costs most, and which others it shares with.

import { $, cost, el, number, some, unquoted } from "./dom.js";
import { Table } from "./table.js";

/**
 * `choose` is told the name of a query that is clicked, `light` the queries of the row under the pointer, `whatIf` which
 * queries are switched off and which get another window. Gives what shows the costs of a changed plan, or without one
 * those of the plan.
 */
export function showQueries(box, rows, unit, { choose, light, whatIf }) {
  let now = null; // by query, of the changed plan
  let all = 0;
  const percent = (value) => (all ? `${number(Number(((100 * value) / all).toPrecision(2)))} %` : "–");
  const part = (row) => (now ? (now.get(row.name)?.cost ?? 0) : row.cost.part);
  const partners = (row) => (now ? (now.get(row.name)?.with ?? []) : row.with);
  const columns = [
    {
      title: "Runs",
      cell: (row) => el("input", {
        type: "checkbox", "aria-label": `${row.name} runs`, checked: whatIf.runs(row.name),
        onchange: (event) => whatIf.switchQuery(row.name, event.target.checked),
      }),
    },
    {
      title: "Query", value: (row) => row.name,
      cell: (row) => [
        el("button", { type: "button", class: "link code", onclick: () => choose(row.name) }, row.name),
        el("div", { class: "quiet pattern" }, unquoted(row.pattern)),
      ],
    },
    {
      title: "Window", value: (row) => row.window,
      cell: (row) => el("input", {
        class: "window code", "aria-label": `Window of ${row.name}`, value: whatIf.windows.get(row.name) ?? row.window, maxlength: 100,
        autocomplete: "off", spellcheck: "false",
        onchange: (event) => {
          const wanted = event.target.value.trim() || row.window;
          event.target.value = wanted;
          whatIf.setWindow(row.name, wanted === row.window ? null : wanted);
        },
      }),
    },
    { title: "Engine", css: "engine", value: (row) => row.engine, cell: (row) => row.engine },
    {
      title: "Cost", css: "n", numeric: true, value: part,
      cell: (row) => el("span", { title: now ? `${cost(row.cost.part, unit)} as planned` : `${cost(row.cost.own, unit)} of it for this query alone` },
        !now || now.has(row.name) ? cost(part(row), unit) : "–"),
    },
    { title: "Of the plan", css: "n", numeric: true, value: part, cell: (row) => percent(part(row)) },
    {
      title: "Paid by others", css: "n", numeric: true, value: (row) => row.cost.spared,
      cell: (row) => (now ? "–" : cost(row.cost.spared, unit)), // of a changed plan it is not known
    },
    {
      title: "Shares pieces with", css: "with", numeric: true, value: (row) => partners(row).length,
      cell: (row) => el("span", { title: some(partners(row), 40) || "no other" }, some(partners(row), 3) || "–"),
    },
    {
      title: "Rows an hour", css: "n", numeric: true, value: (row) => row.rows ?? -1,
      cell: (row) => (row.rows === null || !whatIf.runs(row.name) || whatIf.windows.has(row.name) ? "–" : number(Math.round(row.rows * 3600))),
    },
  ];
  const table = new Table(box, columns, {
    one: "query", several: "queries",
    hover: (row) => light(row && [row.name, ...partners(row)]),
  });
  const filter = $("#queries-filter");
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    table.show(rows.filter((row) => {
      const text = unquoted(`${row.name} ${row.pattern} ${row.engine}`).toLowerCase();
      return words.every((word) => text.includes(word));
    }), table.page);
  };
  filter.addEventListener("input", () => {
    table.page = 0;
    draw();
  });
  const show = (changed) => {
    now = changed && new Map(changed.queries.map((row) => [row.name, row]));
    all = rows.reduce((sum, row) => sum + part(row), 0);
    draw();
  };
  show(null);
  table.sortBy(columns.findIndex(({ title }) => title === "Cost"), true);
  return show;
}
