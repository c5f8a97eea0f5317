// How many rows each query of a job gave, by day: the noisiest first, each with a chart of its days.

import { $, complain, counted, el, get, number, svg } from "./dom.js";
import { Table } from "./table.js";

const MOST_DAYS = 366; // that are drawn, the last ones

export class Alerts {
  constructor(box, id) {
    Object.assign(this, { box, id, days: [], stale: true });
    this.table = new Table($("#alerts", box), [
      { title: "Alerts", css: "n", numeric: true, value: ({ alerts }) => alerts, cell: ({ alerts }) => number(alerts) },
      { title: "By day", css: "days", cell: (rule) => (rule.alerts ? bars(this.days, rule.by_day, rule.query) : "–") },
      { title: "Query", css: "code", value: ({ query }) => query, cell: ({ query }) => query },
      { title: "Rule", value: ({ title }) => title ?? "", cell: ({ title, level }) => [title, level].filter(Boolean).join(" · ") || "–" },
      { title: "Most on one day", value: ({ by_day }) => busiest(by_day)[1], numeric: true, cell: ({ by_day }) => mostText(by_day) },
    ], { one: "query", several: "queries", size: 25 });
    box.addEventListener("toggle", () => this.fill().catch((error) => complain($("#problem"), error)));
  }

  /** There are rows, or more than before. */
  async refresh() {
    this.box.hidden = false;
    this.stale = true;
    await this.fill();
  }

  /** Rows are counted only for who looks at them. */
  async fill() {
    if (!this.box.open || !this.stale) return;
    this.stale = false;
    const { alerts, days, rules } = await get(`/v1/jobs/${this.id}/alerts`);
    const loud = rules.filter((rule) => rule.alerts).length;
    this.days = days.slice(-MOST_DAYS);
    $("#alerts-about", this.box).textContent =
      `${counted(alerts, "alert")} of ${loud} of ${counted(rules.length, "query", "queries")}, on ${counted(days.length, "day")}` +
      `${days.length ? `, ${days[0]} to ${days.at(-1)}` : ""}. A bar for each day with alerts; of an aggregate, each window that is reported is one.`;
    const all = {};
    for (const { by_day } of rules) for (const [day, many] of Object.entries(by_day)) all[day] = (all[day] ?? 0) + many;
    $("#alerts-all", this.box).replaceChildren(...(alerts ? [bars(this.days, all, "all queries", 60)] : []));
    this.table.show(rules, this.table.page);
  }
}

const busiest = (byDay) => Object.entries(byDay).reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);

function mostText(byDay) {
  const [day, most] = busiest(byDay);
  return most ? `${number(most)}, ${day}` : "–";
}

/** A bar for each day, by the most of any of them; where the pointer is, the day and number. */
function bars(days, byDay, about, tall = 24) {
  const most = busiest(byDay)[1];
  const width = Math.max(2, Math.min(8, Math.floor(240 / days.length)));
  const label = `alerts by day of ${about}, at most ${most} on a day`;
  return svg("svg", { class: "days", role: "img", "aria-label": label, width: width * days.length, height: tall },
    days.map((day, i) => {
      const high = byDay[day] ? Math.max(1, (tall * byDay[day]) / most) : 0;
      return high ? svg("rect", { x: i * width, y: tall - high, width: Math.max(width - 1, 1), height: high },
        svg("title", {}, `${day}: ${number(byDay[day])}`)) : null;
    }));
}
