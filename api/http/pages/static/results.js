// A job's rows: a page at a time, and each aggregate of a query over time.

import { $, complain, counted, el, get, number } from "./dom.js";
import { showBehind } from "./behind.js";
import { Chart } from "./chart.js";
import { drawFunnel, isFunnel, isStep } from "./funnels.js";
import { timeline } from "./timeline.js";

const PAGE = 25;
const DRAWN = 5000; // rows of a query that go into its charts
const SERIES = 5; // keys that get a colour
const MOST_KEYS = 100; // keys that can be chosen
const MOST_CHARTS = 6;

export class Results {
  constructor(job) {
    this.job = job;
    this.query = "";
    this.key = "";
    this.offset = 0;
    this.kind = job.rows.aggregates || !job.rows.matches ? "aggregates" : "matches";
    this.drawnKey = "";
    this.canOpen = !$("#why-box").hidden; // events that can be read again
  }

  async begin() {
    $("#results").hidden = false;
    this.buttons = [...document.querySelectorAll("#results [data-kind]")].filter((node) => node.tagName === "BUTTON");
    for (const button of this.buttons) {
      button.disabled = !this.job.rows[button.dataset.kind];
      button.addEventListener("click", () => this.choose({ kind: button.dataset.kind }));
    }
    const select = $("#query");
    select.addEventListener("change", () => {
      const kind = select.selectedOptions[0].dataset.kind || this.kind;
      this.choose({ query: select.value, kind });
    });
    const order = $("#order");
    if (this.job.mode === "stream") order.selectedIndex = 1; // new rows are seen as they come
    this.order = order.value;
    order.addEventListener("change", () => this.choose({ order: order.value }));
    const key = $("#key");
    key.addEventListener("change", () => this.choose({ key: key.value.trim() }));
    await this.choose({});
  }

  /** The same rows again, of a job that has got further. */
  async refresh(job) {
    const more = JSON.stringify(job.rows) !== JSON.stringify(this.job.rows);
    this.job = job;
    if (!more) return;
    for (const button of this.buttons) button.disabled = !job.rows[button.dataset.kind];
    const isRead = $("#rows .behind"); // the events behind a row stay open
    await Promise.all([isRead ? null : this.load(), this.chart()]);
  }

  async choose({ query = this.query, kind = this.kind, key = this.key, order = this.order }) {
    Object.assign(this, { query, kind, key, order, offset: 0 });
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    $("#downloads").replaceChildren(...["csv", "parquet", "arrow"].map((format) =>
      el("a", { href: this.address({ format, kind }), download: true }, format.toUpperCase())));
    await Promise.all([this.load(), this.chart()]).catch((error) => complain($("#problem"), error));
  }

  address(more) {
    const chosen = { ...(this.query && { query: this.query }), ...(this.key && { key: this.key }) };
    const asked = new URLSearchParams({ ...chosen, ...more });
    return `/v1/jobs/${this.job.id}/results?${asked}`;
  }

  // --- rows ------------------------------------------------------------------------------------

  async load() {
    const box = $("#rows");
    const [sort, order] = this.order.split(" ");
    const found = await get(this.address({ offset: this.offset, limit: PAGE, sort, order }));
    const rows = found[this.kind];
    const total = found.total[this.kind] ?? 0;
    const columns = this.kind === "aggregates" ? AGGREGATES : MATCHES;
    const turn = (by) => () => {
      this.offset += by * PAGE;
      this.load().catch((error) => complain($("#problem"), error));
    };
    box.replaceChildren(
      el("div", { class: "scroll", tabindex: this.canOpen ? null : "0" },
        el("table", { class: "list" },
          el("thead", {}, el("tr", {}, columns.map(([title, , css]) => el("th", { scope: "col", class: css }, title)))),
          el("tbody", {}, rows.length
            ? rows.map((row) => this.line(row, columns))
            : el("tr", {}, el("td", { colspan: columns.length, class: "quiet" }, this.key ? "No rows of this key." : "No rows: no window held a match. Are types and values written as in the events?"))))),
      el("div", { class: "pager" },
        el("span", { role: "status" }, total > PAGE
          ? `${number(this.offset + 1)} to ${number(this.offset + rows.length)} of ${counted(total, "row")}` : counted(total, "row")),
        el("span", { class: "row" },
          el("button", { type: "button", disabled: this.offset === 0, onclick: turn(-1) }, "Back"),
          el("button", { type: "button", disabled: this.offset + PAGE >= total, onclick: turn(1) }, "Next"))),
    );
  }

  /** A row, with a button that opens the events behind it below. */
  line(row, columns) {
    const open = el("button", { type: "button", class: "unfold", "aria-expanded": "false", title: "The events behind this row", "aria-label": `The events behind the row of ${row.query} at ${timeCell(row.time)}` });
    const line = el("tr", {}, columns.map(([, cell, css], i) => el("td", { class: css }, i || !this.canOpen ? null : open, cell(row))));
    open.addEventListener("click", () => {
      const isOpen = open.getAttribute("aria-expanded") === "true";
      open.setAttribute("aria-expanded", String(!isOpen));
      if (isOpen) {
        line.nextElementSibling.remove();
        return;
      }
      const box = el("td", { colspan: columns.length, class: "behind" });
      line.after(el("tr", {}, box));
      showBehind(box, this.job.id, row);
    });
    return line;
  }

  // --- aggregates over time --------------------------------------------------------------------

  async chart() {
    const box = $("#over-time");
    const wanted = this.query || this.job.rows.aggregates ? this.query || (await this.first()) : null;
    if (this.kind !== "aggregates" || !wanted) {
      box.replaceChildren();
      $("#drawn-keys").hidden = true;
      return;
    }
    const asked = new URLSearchParams({ query: wanted, limit: DRAWN });
    const found = await get(`/v1/jobs/${this.job.id}/results?${asked}`);
    box.replaceChildren();
    if (isFunnel(found.aggregates)) {
      $("#drawn-keys").hidden = true;
      drawFunnel(box, wanted, await this.steps(wanted, found), keyText);
      return;
    }
    this.showKeys(found.aggregates);
    const aggregates = [...new Set(found.aggregates.map((row) => row.aggregate))].slice(0, MOST_CHARTS);
    const isText = typeof found.aggregates[0]?.time === "string";
    for (const aggregate of aggregates) {
      const rows = found.aggregates.filter((row) => row.aggregate === aggregate && row.value !== null);
      const chart = new Chart(box, `${wanted}: ${aggregate}`, { x: isText ? moment : plain, dots: true });
      const part = found.total.aggregates > DRAWN ? `first ${number(DRAWN)} of ${number(found.total.aggregates)} rows` : "";
      chart.draw(byKey(rows, isText, this.drawnKey), part);
    }
  }

  /** The keys whose values can be drawn by themselves, those with the most rows first. */
  showKeys(rows) {
    const keys = [...groupByKey(rows)].sort((a, b) => b[1].length - a[1].length).map(([name]) => name);
    if (!keys.includes(this.drawnKey)) this.drawnKey = "";
    $("#drawn-keys").hidden = keys.length < 2;
    const every = keys.length > SERIES ? `the ${SERIES} keys with the most rows` : "all keys";
    const select = $("#drawn-key");
    select.onchange = () => {
      this.drawnKey = select.value;
      this.chart().catch((error) => complain($("#problem"), error));
    };
    select.replaceChildren(...[["", every], ...keys.slice(0, MOST_KEYS).map((name) => [name, name])].map(([value, text]) =>
      el("option", { value, selected: value === this.drawnKey }, text)));
  }

  /** The rows of a funnel's steps: by their keys they stand before the levels of all keys, or behind them. */
  async steps(query, found) {
    const first = found.aggregates.filter(isStep);
    const { aggregates: total } = found.total;
    if (first.length || total <= DRAWN) return first;
    const asked = new URLSearchParams({ query, limit: DRAWN, offset: total - DRAWN });
    const last = await get(`/v1/jobs/${this.job.id}/results?${asked}`).catch(() => null); // so far back none are given
    return last?.aggregates.filter(isStep) ?? [];
  }

  /** The first query that has aggregates. */
  async first() {
    const { aggregates } = await get(`/v1/jobs/${this.job.id}/results?limit=1`);
    return aggregates[0]?.query;
  }
}

const plain = (value) => Math.round(value).toLocaleString("en");
const moment = (value) => new Date(value).toISOString().slice(0, 19).replace("T", " ");

function groupByKey(rows) {
  const keys = new Map();
  for (const row of rows) {
    const name = row.key ? keyText(row.key) : "";
    if (!keys.has(name)) keys.set(name, []);
    keys.get(name).push(row);
  }
  return keys;
}

/**
 * A series for each of the keys with the most rows, the others together behind them; or of one key alone. Only what
 * belongs to one key that was asked for, or to a query without keys, is joined by a line.
 */
function byKey(rows, isText, wanted) {
  const place = (row) => [isText ? Date.parse(row.time) : row.time, row.value];
  const keys = [...groupByKey(rows)].map(([name, mine]) => [name, mine.map(place).sort((a, b) => a[0] - b[0])]);
  const alone = keys.length === 1 ? keys[0] : keys.find(([name]) => wanted && name === wanted);
  if (alone) return [{ name: alone[0], points: alone[1], hue: 0, joined: true }];
  const sorted = keys.sort((a, b) => b[1].length - a[1].length);
  const rest = sorted.slice(SERIES).flatMap(([, points]) => points);
  const series = sorted.slice(0, SERIES).map(([name, points], hue) => ({ name, points, hue }));
  if (rest.length) series.unshift({ name: `${sorted.length - SERIES} other keys`, points: rest, hue: null });
  return series;
}

const keyText = (key) => Object.entries(key).map(([name, value]) => `${name}=${value}`).join(" ");

const timeCell = (value) => (typeof value === "string" ? value.replace("T", " ") : String(value));

/** Is it a query with DEFINE? The page has it with the names of the queries. */
const isAboutSituations = (query) =>
  [...$("#query").options].some((option) => option.value === query && "situations" in option.dataset);

function matchText(match) {
  return Object.entries(match).map(([alias, found]) => {
    if (Array.isArray(found)) return `${alias}: ${found.length} events`;
    if (typeof found !== "object" || found === null) return `${alias}=${found}`;
    return Object.entries(found).map(([name, value]) => `${alias}.${name}=${value}`).join(" ");
  }).join("  ");
}

// title, cell, class
const AGGREGATES = [
  ["Query", (row) => row.query],
  ["Key", (row) => (row.key ? keyText(row.key) : "–")],
  ["Time", (row) => timeCell(row.time), "n"],
  ["Aggregate", (row) => el("span", { class: "code" }, row.aggregate)],
  ["Value", (row) => el("span", { title: row.exact ? null : "rounded: too large to be exact" },
    row.count !== null ? row.count.toLocaleString("en") : number(row.value), row.exact ? "" : " ≈"), "n"],
];
const MATCHES = [
  ["Query", (row) => row.query],
  ["Key", (row) => (row.key ? keyText(row.key) : "–")],
  ["From", (row) => timeCell(row.start), "n"],
  ["To", (row) => timeCell(row.end), "n"],
  ["Match", (row) => [el("span", { class: "code" }, matchText(row.match)), isAboutSituations(row.query) ? timeline(row) : null]],
];
