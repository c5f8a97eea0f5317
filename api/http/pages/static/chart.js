// Small charts: lines or dots over time, with a scale that can be read.

import { el, number, svg } from "./dom.js";
import { hideTip, showTip } from "./tip.js";

const HEIGHT = 170;
const PLACE = { left: 52, right: 10, top: 8, bottom: 22 };

/** Round values from below `low` to above `high`, about `many` of them. */
export function ticks(low, high, many) {
  if (!(high > low)) high = low + (Math.abs(low) || 1);
  const rough = (high - low) / many;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/**
 * A chart that can be given other points: `draw(series)`, each { name, hue, points: [[x, y], …] }.
 * With `dots` only those series are joined by a line that are `joined`; `x` and `y` make texts of values; values of y begin at 0.
 */
export class Chart {
  constructor(box, title, { x = number, y = number, dots = false } = {}) {
    Object.assign(this, { title, x, y, dots, series: [] });
    this.last = el("span");
    this.keys = el("p", { class: "keys" });
    this.svg = svg("svg", { height: HEIGHT, role: "img" });
    this.card = el("div", { class: "card chart" }, el("h3", {}, title, this.last), this.svg, this.keys);
    box.append(this.card);
    new ResizeObserver(() => this.redraw()).observe(this.card);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => { this.at?.remove(); hideTip(); });
  }

  draw(series, last = "") {
    this.series = series.filter((each) => each.points.length);
    this.last.textContent = last;
    this.redraw();
  }

  redraw() {
    const points = this.series.flatMap((each) => each.points);
    const width = this.svg.clientWidth;
    if (!points.length || !width) return;
    const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])];
    const [low, high] = [least(xs), most(xs)];
    const grid = ticks(Math.min(0, least(ys)), Math.max(0, most(ys)), 4);
    const wide = width - PLACE.left - PLACE.right;
    const tall = HEIGHT - PLACE.top - PLACE.bottom;
    const [bottom, top] = [grid[0], grid[grid.length - 1]];
    const px = (x) => PLACE.left + (high > low ? ((x - low) / (high - low)) * wide : wide / 2);
    const py = (y) => PLACE.top + tall - ((y - bottom) / (top - bottom)) * tall;
    this.scale = { px, py };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute("aria-label",
      `${this.title}: from ${this.y(least(ys))} to ${this.y(most(ys))}, ${points.length} points`);
    this.svg.replaceChildren(
      ...grid.flatMap((value) => [
        svg("line", { class: "grid", x1: PLACE.left, x2: width - PLACE.right, y1: py(value), y2: py(value) }),
        svg("text", { x: PLACE.left - 7, y: py(value) + 4, "text-anchor": "end" }, this.y(value)),
      ]),
      ...this.along(low, high, wide, px),
      ...this.series.flatMap((each) => this.marks(each, px, py)),
    );
    const named = this.series.filter((each) => each.name);
    this.keys.replaceChildren(...(named.length > 1 || this.dots
      ? named.map((each) => el("span", {}, el("i", { class: hueOf(each) }), each.name)) : []));
  }

  /** Values of x below the chart: the ends, and what fits between. */
  along(low, high, wide, px) {
    const y = HEIGHT - 5;
    if (!(high > low)) return [svg("text", { x: px(low), y, "text-anchor": "middle" }, this.x(low))];
    const [first, last] = [this.x(low), this.x(high)];
    const texts = [
      svg("text", { x: PLACE.left, y }, first),
      svg("text", { x: PLACE.left + wide, y, "text-anchor": "end" }, last),
    ];
    if ((first.length + last.length) * 7 + 120 < wide) {
      texts.push(svg("text", { x: PLACE.left + wide / 2, y, "text-anchor": "middle" }, this.x((low + high) / 2)));
    }
    return texts;
  }

  marks(each, px, py) {
    const css = hueOf(each);
    const at = each.points.map(([x, y]) => `${px(x).toFixed(1)} ${py(y).toFixed(1)}`);
    const dots = svg("path", { class: `dots ${css}`, d: at.map((place) => `M${place}h0`).join("") });
    const thin = this.dots ? " thin" : "";
    const line = svg("path", { class: `line${thin} ${css}`, d: `M${at.join("L")}` });
    if (this.dots) return each.joined ? [line, dots] : [dots];
    return at.length > 60 ? [line] : [line, dots];
  }

  /** Say what the nearest point is. */
  point(event) {
    if (!this.scale) return;
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let near = Infinity;
    for (const each of this.series) {
      for (const point of each.points) {
        const far = Math.abs(this.scale.px(point[0]) - x) + (this.dots ? Math.abs(this.scale.py(point[1]) - y) : 0);
        if (far < near) [best, near] = [{ each, point }, far];
      }
    }
    if (!best) return;
    const px = this.scale.px(best.point[0]);
    this.at?.remove();
    this.at = svg("line", { class: "at", x1: px, x2: px, y1: PLACE.top, y2: HEIGHT - PLACE.bottom });
    this.svg.append(this.at);
    const name = best.each.name ? `${best.each.name}\n` : "";
    showTip(`${name}${this.y(best.point[1])}\nat ${this.x(best.point[0])}`, event.clientX, event.clientY);
  }
}

const hueOf = (each) => (each.hue === null || each.hue === undefined ? "rest" : `hue-${each.hue}`);
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
