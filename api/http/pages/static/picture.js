// The plan's picture, brought to life: tooltips, one query's way, the keyboard, its size.

import { get } from "./dom.js";
import { hideTip, showTip, showTipBeside } from "./tip.js";

const HUES = 8;
const STEP = 1.25;

/** Whether a colour such as #8695a4 is hardly one. */
function isGrey(colour) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return Math.max(...parts) - Math.min(...parts) < 40;
}

const queriesOf = (node) => node.dataset.query.split(" ");

/** A picture in a box; `picked` hears which query is chosen, or null. */
export class Picture {
  constructor(box, picked = () => {}, least = 0.62) {
    this.box = box;
    this.picked = picked;
    this.least = least; // the scale below which it is scrolled rather than made smaller
    this.chosen = null;
  }

  async load(plan) {
    const text = await get(`/v1/plans/${plan}?format=svg`, { headers: { accept: "image/svg+xml" } });
    const bare = text.replace(/<style>[^]*?<\/style>/, ""); // the page's own rules stand for them
    const root = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
    this.svg = document.importNode(root, true);
    this.clean();
    this.box.replaceChildren(this.svg);
    this.box.removeAttribute("aria-busy");
    this.size = { width: Number(root.getAttribute("width")), height: Number(root.getAttribute("height")) };
    this.fit(this.least);
    this.listen();
  }

  /** Leave colours to the stylesheet, and titles to the tooltip. */
  clean() {
    this.svg.querySelectorAll(":scope > rect:not([class])").forEach((ground) => ground.remove());
    const colours = new Map();
    for (const node of this.svg.querySelectorAll("[stroke]")) {
      const colour = node.getAttribute("stroke");
      if (!isGrey(colour) && !colours.has(colour)) colours.set(colour, colours.size % HUES);
      node.classList.add(`hue-${colours.get(colour) ?? "none"}`);
      node.removeAttribute("stroke");
    }
    this.nodes = [];
    for (const title of this.svg.querySelectorAll("title")) {
      const owner = title.parentElement;
      const about = title.textContent;
      title.remove();
      owner.about = about;
      if (owner.tagName !== "g") continue;
      owner.setAttribute("aria-label", about);
      owner.setAttribute("role", owner.classList.contains("query") ? "button" : "img");
      owner.setAttribute("tabindex", "-1");
      this.nodes.push(owner);
    }
    this.nodes[0]?.setAttribute("tabindex", "0");
    this.svg.setAttribute("role", "group");
    this.svg.setAttribute("aria-label", "Event types, what is computed once, and queries");
  }

  // --- light -----------------------------------------------------------------------------------

  /** Light up what belongs to these queries; nothing in particular without any. */
  light(names) {
    if (names === null) {
      this.svg.classList.remove("lit");
      return;
    }
    const wanted = new Set(names);
    this.lightWhere((node) => queriesOf(node).some((name) => wanted.has(name)));
  }

  /** A piece with what it reads and who reads it. */
  lightPiece(piece) {
    const [label] = piece.about.split("\n");
    const readers = new Set(queriesOf(piece));
    this.lightWhere((node) => {
      if (node === piece) return true;
      if (node.classList.contains("query")) return readers.has(node.dataset.query);
      const { about = "" } = node;
      return node.classList.contains("edge") &&
        (about.includes(` into ${label}:`) || about.includes(` in ${label}:`) ||
          about.includes(` has ${label},`) || about.startsWith(`${label}, computed once`));
    });
  }

  lightWhere(isOn) {
    this.svg.classList.add("lit");
    const types = new Set();
    for (const node of this.svg.querySelectorAll("[data-query]")) {
      const on = isOn(node);
      node.classList.toggle("on", on);
      if (on && node.about && node.classList.contains("edge")) types.add(node.about.split(" ")[0]);
    }
    for (const node of this.svg.querySelectorAll("g.type")) {
      node.classList.toggle("on", types.has(node.about?.split(":")[0]));
    }
  }

  pick(name) {
    const node = this.nodes.find((each) => each.classList.contains("query") && each.dataset.query === name);
    if (name !== null && !node) return false;
    this.chosen = name;
    for (const each of this.nodes) {
      each.classList.toggle("picked", each === node);
      if (each.classList.contains("query")) each.setAttribute("aria-pressed", String(each === node));
    }
    this.light(name === null ? null : [name]);
    this.picked(name, node?.about ?? "");
    return true;
  }

  hover(node) {
    if (this.chosen !== null) return;
    if (node?.classList.contains("piece")) this.lightPiece(node);
    else if (node?.dataset?.query) this.light(queriesOf(node));
    else if (node?.classList.contains("type")) this.light(this.readers(node.about.split(":")[0]));
    else this.light(null);
  }

  /** The queries that read a type, as the lines from it say. */
  readers(type) {
    const found = new Set();
    for (const edge of this.svg.querySelectorAll(".edge[data-query]")) {
      if (edge.about?.startsWith(`${type} `)) queriesOf(edge).forEach((name) => found.add(name));
    }
    return [...found];
  }

  // --- pointer and keyboard --------------------------------------------------------------------

  listen() {
    const owner = (event) => event.target.closest?.("g, path.edge");
    this.svg.addEventListener("pointermove", (event) => {
      const node = owner(event);
      if (node?.about) showTip(node.about, event.clientX, event.clientY);
      else hideTip();
    });
    this.svg.addEventListener("pointerover", (event) => this.hover(owner(event)));
    this.svg.addEventListener("pointerleave", () => {
      hideTip();
      this.hover(null);
    });
    this.svg.addEventListener("click", (event) => {
      const node = owner(event);
      const name = node?.classList.contains("query") ? node.dataset.query : null;
      this.pick(name === this.chosen ? null : name);
    });
    this.svg.addEventListener("focusin", (event) => {
      if (!event.target.matches(":focus-visible")) return;
      showTipBeside(event.target.about, event.target);
      this.hover(event.target);
    });
    this.svg.addEventListener("focusout", () => {
      hideTip();
      this.hover(null);
    });
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const here = document.activeElement;
    switch (event.key) {
      case "Enter":
      case " ":
        if (here.classList.contains("query")) {
          this.pick(here.dataset.query === this.chosen ? null : here.dataset.query);
        }
        break;
      case "Escape":
        hideTip();
        this.pick(null);
        break;
      case "ArrowUp":
      case "ArrowDown":
      case "ArrowLeft":
      case "ArrowRight":
        this.move(here, event.key.slice(5).toLowerCase());
        break;
      default:
        return;
    }
    event.preventDefault();
  }

  /** Give the focus to the nearest box in a direction. */
  move(from, direction) {
    const middle = (node) => {
      const { left, right, top, bottom } = node.getBoundingClientRect();
      return { x: (left + right) / 2, y: (top + bottom) / 2, left, right };
    };
    const here = middle(from);
    const sideways = direction === "left" || direction === "right";
    const sign = direction === "right" || direction === "down" ? 1 : -1;
    let best = null;
    let least = Infinity;
    for (const node of this.nodes) {
      if (node === from) continue;
      const there = middle(node);
      const along = sign * (sideways ? there.x - here.x : there.y - here.y);
      const across = Math.abs(sideways ? there.y - here.y : there.left - here.left);
      if (along <= 1 || (!sideways && across > 60)) continue;
      const far = along + across * (sideways ? 2 : 3);
      if (far < least) [best, least] = [node, far];
    }
    if (!best) return;
    from.setAttribute("tabindex", "-1");
    best.setAttribute("tabindex", "0");
    best.focus();
    best.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // --- size ------------------------------------------------------------------------------------

  zoom(factor) {
    this.scale = Math.min(3, Math.max(0.15, factor));
    this.svg.setAttribute("width", this.size.width * this.scale);
    this.svg.setAttribute("height", this.size.height * this.scale);
  }

  /** As wide as the box, as long as it can be read. */
  fit(least) {
    this.zoom(Math.max(least, Math.min(1.1, this.box.clientWidth / this.size.width)));
  }

  larger() {
    this.zoom(this.scale * STEP);
  }

  smaller() {
    this.zoom(this.scale / STEP);
  }
}
