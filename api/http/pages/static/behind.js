// The events behind a row of results: each match on a line of time, and its events as a list.

import { complain, counted, el, get, svg } from "./dom.js";

const WIDTH = 640;
const HEAD = 18;
const LANE = 16;
const HUES = 8;
const LONG = 6000; // characters of a match that go into an address

/** Ask for them, and show them in a box. */
export async function showBehind(box, job, row) {
  const asked = new URLSearchParams({ query: row.query, time: row.time });
  if (row.key) asked.set("key", JSON.stringify(row.key));
  if ((row.seq ?? null) !== null) asked.set("seq", row.seq);
  if (row.match) {
    asked.set("start", row.start);
    asked.set("end", row.end);
    const match = JSON.stringify(row.match);
    if (match.length < LONG) asked.set("match", match);
  }
  box.replaceChildren(el("p", { class: "quiet", role: "status" }, "Reading the events …"));
  try {
    box.replaceChildren(...drawn(await get(`/v1/jobs/${job}/behind?${asked}`), row));
  } catch (error) {
    const alert = el("p", { class: "alert", role: "alert" });
    box.replaceChildren(alert);
    complain(alert, error);
  }
}

function drawn({ matches, is_cut: isCut, shown, note }, row) {
  if (note) return [el("p", { class: "quiet" }, `${note.charAt(0).toUpperCase()}${note.slice(1)}.`)];
  if (!matches) return [el("p", { class: "quiet" }, isCut ? "The search was bounded, and found no match." : "No match was found: have the events changed since?")];
  const all = `${isCut ? "at least " : ""}${counted(matches, "match", "matches")}`;
  const said = row.match ? null : el("p", {}, matches > shown.length ? `${all}, the first ${shown.length}:` : `${all}:`);
  const aliases = [...new Set(shown.flat().map(({ alias }) => alias))];
  return [said, lanes(shown, aliases), ...shown.map((events, i) =>
    el("details", { open: shown.length === 1 },
      el("summary", {}, shown.length === 1 ? "Events" : `Match ${i + 1}`), list(events, aliases)))].filter(Boolean);
}

const ticks = (time) => (typeof time === "number" ? time : Date.parse(time));
const shownTime = (time) => (typeof time === "string" ? time.replace("T", " ") : String(time));
const words = (values) => Object.entries(values).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");

/** A lane for each match, a dot for each of its events. */
function lanes(shown, aliases) {
  const times = shown.flat().map(({ time }) => ticks(time));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const x = (time) => 8 + ((ticks(time) - first) / Math.max(last - first, 1e-9)) * (WIDTH - 16);
  const height = HEAD + shown.length * LANE + 4;
  const [from, to] = [shown.flat().find(({ time }) => ticks(time) === first), shown.flat().find(({ time }) => ticks(time) === last)];
  const lane = (events, i) => {
    const y = HEAD + i * LANE + LANE / 2;
    return svg("g", {},
      svg("line", { x1: x(events[0].time), x2: x(events.at(-1).time), y1: y, y2: y, class: "span" }),
      events.map(({ alias, time, values }) =>
        svg("circle", { cx: x(time), cy: y, r: 4.5, class: `fill-${aliases.indexOf(alias) % HUES}` },
          svg("title", {}, `${alias} at ${shownTime(time)}: ${words(values)}`))));
  };
  return el("figure", { class: "timeline lanes" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `Events from ${shownTime(from.time)} to ${shownTime(to.time)}` },
      svg("text", { x: 2, y: 11 }, shownTime(from.time)),
      svg("text", { x: WIDTH - 2, y: 11, "text-anchor": "end" }, last > first ? shownTime(to.time) : ""),
      shown.map(lane)),
    el("figcaption", {}, aliases.map((alias, i) => el("span", { class: `fill-${i % HUES}` }, svg("svg", { viewBox: "0 0 10 10", width: 10, height: 10, "aria-hidden": "true" }, svg("circle", { cx: 5, cy: 5, r: 4.5 })), ` ${alias} `))));
}

function list(events) {
  return el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "list" },
    el("thead", {}, el("tr", {}, ["Component", "Time", "Values"].map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, events.map(({ alias, time, values }) =>
      el("tr", {}, el("td", { class: "code" }, alias), el("td", {}, shownTime(time)), el("td", {}, words(values)))))));
}
