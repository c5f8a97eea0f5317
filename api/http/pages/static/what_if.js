// What if some queries were switched off, or had another window? The plan of that, beside the plan of the page.

import { $, call, complain, cost, counted, el, some } from "./dom.js";

const PAUSE = 350; // milliseconds without a further change, after which it is planned
const NAMED = 3; // queries whose partners changed

export class WhatIf {
  /** `changed(answer)` hears what the service says of the changes, or null when there are none. */
  constructor(box, id, changed) {
    Object.assign(this, { box, id, changed, without: new Set(), windows: new Map(), asked: null, timer: null });
    this.said = $("[role=status]", box);
    this.problem = $("[role=alert]", box);
    $("button", box).addEventListener("click", () => this.reset());
  }

  runs(name) {
    return !this.without.has(name);
  }

  switchQuery(name, isOn) {
    if (isOn) this.without.delete(name);
    else this.without.add(name);
    this.look();
  }

  /** Another window for a query; an empty one is its own. */
  setWindow(name, window) {
    if (window) this.windows.set(name, window);
    else this.windows.delete(name);
    this.look();
  }

  reset() {
    this.without.clear();
    this.windows.clear();
    this.look(0);
  }

  look(pause = PAUSE) {
    clearTimeout(this.timer);
    this.asked?.abort();
    complain(this.problem, null);
    const isPlain = !this.without.size && !this.windows.size;
    this.box.hidden = isPlain;
    if (isPlain) {
      this.changed(null);
      return;
    }
    this.said.textContent = "Planning …";
    this.timer = setTimeout(() => this.plan(), pause);
  }

  async plan() {
    const asked = new AbortController();
    this.asked = asked;
    const body = { without: [...this.without], windows: Object.fromEntries([...this.windows].filter(([name]) => this.runs(name))) };
    try {
      const { content } = await call("POST", `/v1/plans/${this.id}/what-if`, { body, signal: asked.signal });
      this.said.replaceChildren(...sentences(content));
      this.changed(content);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.said.textContent = "";
      complain(this.problem, error);
    }
  }
}

/** What the changes come to. */
function sentences({ without, windows, before, cost: after, queries }) {
  const changes = [
    without.length ? `without ${some(without, NAMED)}` : null,
    ...Object.entries(windows).slice(0, NAMED).map(([name, window]) => `${name} within ${window}`),
    Object.keys(windows).length > NAMED ? `and ${Object.keys(windows).length - NAMED} more` : null,
  ].filter(Boolean);
  const said = [el("strong", {}, `If ${changes.join(", ")}: `),
    `${cost(after.shared, after.unit)} in place of ${cost(before.shared, before.unit)}, ${difference(before.shared, after.shared)}. `];
  const gone = new Set(without);
  const more = partners(queries, ({ with: now, before_with: then }) => now.filter((other) => !then.includes(other)));
  const less = partners(queries, ({ with: now, before_with: then }) => then.filter((other) => !now.includes(other) && !gone.has(other)));
  if (more.length) said.push(`${more.join("; ")}. `);
  if (less.length) said.push(`No longer: ${less.join("; ")}.`);
  return said;
}

function difference(before, after) {
  if (!before || before === after) return "which is the same";
  const part = Number(((100 * Math.abs(after - before)) / before).toPrecision(2));
  return `${part} % ${after < before ? "less" : "more"}`;
}

function partners(queries, of) {
  const found = queries.map((row) => [row.name, of(row)]).filter(([, others]) => others.length);
  const named = found.slice(0, NAMED).map(([name, others]) => `${name} shares with ${some(others, NAMED)}`);
  return found.length > NAMED ? [...named, `and ${counted(found.length - NAMED, "query", "queries")} more`] : named;
}
