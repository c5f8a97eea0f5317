// A match of a query about situations: when each of them was, and when the match became certain.

import { el, svg } from "./dom.js";

const WIDTH = 520;
const RIGHT = 14;
const LINE = 17;
const HEAD = 16;
const HUES = 8;

const isSituation = (found) =>
  typeof found === "object" && found !== null && !Array.isArray(found) && (found.start ?? null) !== null &&
  Object.keys(found).every((name) => name === "start" || name === "end");

const ticks = (time) => (typeof time === "number" ? time : Date.parse(time));
const shown = (time) => (typeof time === "string" ? time.replace("T", " ") : String(time));
const shortened = (name) => (name.length > 13 ? `${name.slice(0, 12)}…` : name);

/** The match as a picture; null where it has no situation with its start. */
export function timeline({ match, start, time }) {
  const found = Object.entries(match).filter(([, each]) => isSituation(each));
  if (!found.length) return null;
  const certain = ticks(time);
  const known = found.flatMap(([, each]) => [each.start, each.end]).filter((each) => (each ?? null) !== null).map(ticks);
  const first = Math.min(ticks(start), ...known);
  const last = Math.max(certain, ...known);
  const left = 12 + 7 * Math.max(...found.map(([name]) => shortened(name).length)); // for names
  const wide = (WIDTH - left - RIGHT) / Math.max(last - first, 1e-9);
  const x = (at) => left + (at - first) * wide;
  const height = HEAD + found.length * LINE + 2;
  const words = found.map(([name, each]) =>
    `${name} from ${shown(each.start)} ${"end" in each ? (each.end === null ? "on" : `to ${shown(each.end)}`) : "on"}`);
  const bars = found.map(([name, each], i) => {
    const y = HEAD + i * LINE;
    const open = (each.end ?? null) === null;
    const end = open ? Math.max(certain, ticks(each.start)) : ticks(each.end);
    return svg("g", { class: `fill-${i % HUES}` },
      svg("title", {}, words[i]),
      svg("text", { x: 0, y: y + 11 }, shortened(name)),
      svg("rect", { x: x(ticks(each.start)), y: y + 3, width: Math.max(x(end) - x(ticks(each.start)), 2), height: 9, rx: 2, class: open ? "open" : null }),
      open ? svg("path", { d: `M${x(end)} ${y + 3}l7 4.5l-7 4.5z`, class: "open" }) : null);
  });
  const at = x(certain);
  const near = at > WIDTH / 2;
  return el("figure", { class: "timeline" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${words.join(", ")}; certain at ${shown(time)}` },
      ...bars,
      svg("line", { x1: at, x2: at, y1: 2, y2: height, class: "certain" }),
      svg("text", { x: near ? at - 5 : at + 5, y: 10, "text-anchor": near ? "end" : "start", class: "certain" }, `certain at ${shown(time)}`)));
}
