// A job's plan as a picture, with what has been counted so far on it, and the rows of each query.

import { $, counted, get, number, svg } from "./dom.js";
import { Picture, queriesOf } from "./picture.js";
import { Table } from "./table.js";

const SPAN = 10_000; // milliseconds over which rows a second are taken
const OFF = 2; // times more or less than predicted, from which on it is marked

const whole = (value) => number(Math.round(value));

/** How many rows each output gave, and each symbol has, by name. */
function counts({ operators }, kind, nameOf) {
  const found = operators.filter((each) => each.kind === kind && (each.rows_out ?? null) !== null);
  return new Map(found.map((each) => [nameOf(each.about), { rows: each.rows_out, predicted: each.predicted_rows ?? null }]));
}

export class Running {
  constructor(section) {
    Object.assign(this, { section, plan: null, samples: [], rows: [] });
    this.picture = new Picture($("#running-picture", section));
    this.table = new Table($("#running-queries", section), [
      { title: "Query", css: "code", value: ({ name }) => name, cell: ({ name }) => name },
      { title: "Rows", css: "n", numeric: true, value: ({ rows }) => rows, cell: ({ rows }) => whole(rows) },
      { title: "Rows a second", css: "n rate", numeric: true, value: ({ rate }) => rate ?? -1, cell: ({ rate }) => (rate === null ? "–" : number(Number(rate.toPrecision(3)))) },
      { title: "Predicted rows", css: "n", numeric: true, value: ({ predicted }) => predicted ?? -1, cell: ({ predicted }) => (predicted === null ? "–" : whole(predicted)) },
    ], { size: 10, one: "query", several: "queries", hover: (row) => this.picture.svg && this.picture.light(row && [row.name]) });
    this.table.sortBy(1, true);
  }

  /** What the service says of a job and of its operators. */
  async update(job, found) {
    const names = job && found ? await this.load(job.plan) : [];
    if (!names.length) return;
    const outputs = counts(found, "output", (about) => names.find((name) => about.startsWith(`${name}: `)));
    if (!outputs.size) return;
    if (this.section.hidden) {
      this.section.hidden = false;
      this.picture.fitWidth(); // which has a width from now on
    }
    const isOver = ["succeeded", "failed", "cancelled"].includes(job.status);
    this.sample(isOver ? null : outputs);
    this.rows = names.filter((name) => outputs.has(name)).map((name) => ({ name, ...outputs.get(name), rate: this.rate(name) }));
    this.section.classList.toggle("unmeasured", this.rows.every(({ rate }) => rate === null));
    this.table.show(this.rows, this.table.page);
    this.mark(outputs, counts(found, "symbol", (about) => about), isOver ? "" : " so far");
  }

  /** The plan's picture, again where the job has gone over to another plan; gives the queries. */
  async load(plan) {
    if (this.plan !== plan) {
      this.plan = plan;
      const [document] = await Promise.all([get(`/v1/plans/${plan}`), this.picture.load(plan)]);
      this.names = document.queries;
      this.samples = [];
    }
    return this.names ?? [];
  }

  sample(outputs) {
    const now = performance.now();
    if (outputs) this.samples.push([now, outputs]);
    else this.samples = [];
    while (this.samples.length > 2 && now - this.samples[1][0] > SPAN) this.samples.shift();
  }

  rate(name) {
    if (this.samples.length < 2) return null;
    const [[from, first], [to, last]] = [this.samples[0], this.samples.at(-1)];
    return first.has(name) ? (1000 * (last.get(name).rows - first.get(name).rows)) / (to - from) : null;
  }

  /** Numbers beside the boxes, and more of them in their tooltips; of many queries, by group. */
  mark(outputs, symbols, when) {
    const isPlain = !this.picture.groups.length;
    for (const node of this.picture.svg.querySelectorAll("g.query, g.type")) {
      const isQuery = node.classList.contains("query");
      node.plain ??= node.about;
      const name = isQuery ? decodeURIComponent(node.dataset.query) : node.plain.split(": ").slice(0, -1).join(": ");
      const found = isQuery ? outputs.get(name) : symbols.get(name) ?? symbols.get(`"${name}"`);
      if (!found) continue;
      const predicted = found.predicted === null ? "" : `, ${whole(found.predicted)} predicted`;
      node.about = `${node.plain}\n${whole(found.rows)} ${isQuery ? "rows" : "events"}${when}${predicted}`;
      node.setAttribute("aria-label", node.about);
      if (isPlain) write(node, found, isQuery);
      else node.classList.toggle("off", isOff(found));
    }
    for (const { title } of this.picture.groups) {
      const rows = queriesOf(title).reduce((sum, name) => sum + (outputs.get(name)?.rows ?? 0), 0);
      this.picture.note(title, ` · ${counted(rows, "row")}${when}`);
    }
  }
}

const isOff = ({ rows, predicted }) => Boolean(predicted && (rows > OFF * predicted || rows * OFF < predicted));

/** A number on the lines beside a box. */
function write(node, found, isQuery) {
  let text = $("text.live", node);
  if (!text) {
    const box = $("rect", node);
    const [x, y, width] = ["x", "y", "width"].map((name) => Number(box.getAttribute(name)));
    text = svg("text", { x: isQuery ? x - 4 : x + width + 4, y: y + 9, "text-anchor": isQuery ? "end" : "start", class: "live" });
    node.append(text);
  }
  text.textContent = whole(found.rows);
  text.classList.toggle("off", isOff(found));
}
