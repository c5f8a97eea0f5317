// What queries have in common, as a table that can be sorted and searched.

import { $, cost, el, number, some, unquoted } from "./dom.js";
import { steps } from "./parts.js";
import { Table } from "./table.js";

/** `light` is told the queries of the row under the pointer. */
export function showCandidates(box, plan, chosen, light) {
  const unit = plan.cost.unit;
  const columns = [
    { title: "Piece", css: "piece", value: (c) => unquoted(c.pattern.join(" ")), cell: (c) => steps(c.pattern) },
    {
      title: "Queries", css: "n", numeric: true, value: (c) => c.queries.length,
      cell: (c) => el("span", { title: some(c.queries, 40) }, String(c.queries.length)),
    },
    { title: "Kind", value: (c) => c.kind, cell: (c) => c.kind },
    {
      title: "Benefit", css: "n", numeric: true, value: (c) => c.benefit,
      cell: (c) => el("span", { title: `${c.benefit} ${unit}` }, cost(c.benefit, unit)),
    },
    {
      title: "Conflicts", css: "n", numeric: true, value: (c) => c.conflicting ?? c.conflicts.length,
      cell: (c) => number(c.conflicting ?? c.conflicts.length),
    },
    {
      title: "Chosen", value: (c) => (chosen.has(c.id) ? 0 : 1),
      cell: (c) => el("span", { class: chosen.has(c.id) ? "tag chosen" : "tag" }, chosen.has(c.id) ? "chosen" : "no"),
    },
    { title: "Why", css: "why", cell: (c) => unquoted(c.why) },
  ];
  const table = new Table(box, columns, {
    one: "candidate", several: "candidates",
    empty: "No two queries have anything in common that could be shared.",
    hover: (candidate) => light(candidate && candidate.queries),
  });
  const filter = $("#filter");
  const which = $("#which");
  const texts = new Map(plan.candidates.map((c) =>
    [c.id, unquoted([...c.pattern, ...c.queries, c.kind, c.why].join(" ")).toLowerCase()]));
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    table.show(plan.candidates.filter((c) => {
      if (which.value !== "all" && chosen.has(c.id) !== (which.value === "chosen")) return false;
      return words.every((word) => texts.get(c.id).includes(word));
    }));
  };
  filter.addEventListener("input", draw);
  which.addEventListener("change", draw);
  draw();
  table.sortBy(3, true);
}
