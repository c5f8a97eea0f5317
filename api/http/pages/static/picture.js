// The plan's picture, brought to life: tooltips, one query's way, folded groups, the keyboard, its size.

import { get } from "./dom.js";
import { hideTip, showTip, showTipBeside } from "./tip.js";

const HUES = 8;
const STEP = 1.25;
const UNFOLDED = 420; // pixels of groups that are shown in full at first

/** Whether a colour such as #8695a4 is hardly one. */
function isGrey(colour) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return Math.max(...parts) - Math.min(...parts) < 40;
}

const words = (text) => (text ? text.split(" ") : []);
/** The queries that a part of a picture belongs to. */
export const queriesOf = (node) => words(node.dataset.query).map(decodeURIComponent);
const piecesOf = (node) => words(node.dataset.piece);

/** A picture in a box; `picked` hears which query is chosen, or null. */
export class Picture {
  constructor(box, picked = () => {}, least = 0.62) {
    this.box = box;
    this.picked = picked;
    this.least = least; // the scale below which it is scrolled rather than made smaller
    this.chosen = null;
    box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  async load(plan) {
    this.draw(await get(`/v1/plans/${plan}?format=svg`, { headers: { accept: "image/svg+xml" } }));
  }

  /** Show an SVG in place of what was shown; a query that is chosen stays chosen, if it is drawn. */
  draw(text) {
    const bare = text.replace(/<style>[^]*?<\/style>/, ""); // the page's own rules stand for them
    const root = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
    this.svg = document.importNode(root, true);
    this.clean();
    this.box.replaceChildren(this.svg);
    this.box.removeAttribute("aria-busy");
    this.size = { width: Number(root.getAttribute("width")), height: Number(root.getAttribute("height")) };
    this.setUpGroups();
    this.fitWidth();
    this.listen();
    if (this.chosen !== null) this.pick(this.chosen) || this.pick(null);
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
      node.removeAttribute("fill");
    }
    this.nodes = [];
    for (const title of this.svg.querySelectorAll("title")) {
      const owner = title.parentElement;
      owner.about = title.textContent;
      title.remove();
      if (owner.tagName === "g") this.addNode(owner, owner.about, owner.classList.contains("query") ? "button" : "img");
    }
    this.nodes[0]?.setAttribute("tabindex", "0");
    this.svg.setAttribute("role", "group");
    this.svg.setAttribute("aria-label", "Event types, what is computed once, and queries");
  }

  /** Something that the keyboard reaches. */
  addNode(node, label, role) {
    node.setAttribute("aria-label", label);
    node.setAttribute("role", role);
    node.setAttribute("tabindex", "-1");
    this.nodes.push(node);
  }

  // --- groups that can be folded to one line -----------------------------------------------------

  setUpGroups() {
    this.height = this.size.height;
    this.groups = [...this.svg.querySelectorAll("g.block")].map((node) => ({
      node, title: node.querySelector(".title"), panel: node.querySelector(".panel"),
      height: Number(node.dataset.height), less: Number(node.dataset.height) - Number(node.dataset.folded),
    }));
    if (!this.groups.length) return;
    let left = UNFOLDED;
    for (const group of [...this.groups].sort((a, b) => shared(b) - shared(a))) {
      group.panelHeight = Number(group.panel.getAttribute("height"));
      this.addNode(group.title, group.title.textContent, "button");
      // What shares the most is open whatever its size.
      group.isFolded = left < UNFOLDED && left < group.height;
      left -= group.height;
    }
    this.arrange();
  }

  /** Put groups below each other, as high as they are now. */
  arrange() {
    let up = 0;
    for (const { node, title, panel, panelHeight, less, isFolded } of this.groups) {
      node.setAttribute("transform", `translate(0 ${-up})`);
      node.classList.toggle("folded", isFolded);
      title.setAttribute("aria-expanded", String(!isFolded));
      writeTitle(title, isFolded);
      panel.setAttribute("height", panelHeight - (isFolded ? less : 0));
      if (isFolded) up += less;
    }
    this.size.height = this.height - up;
    this.svg.setAttribute("viewBox", `0 0 ${this.size.width} ${this.size.height}`);
    if (this.scale) this.zoom(this.scale);
  }

  fold(title) {
    const group = this.groups.find((each) => each.title === title);
    group.isFolded = !group.isFolded;
    this.arrange();
  }

  /** Say something more in the line of a group. */
  note(title, words) {
    title.note = words;
    writeTitle(title, this.groups.find((each) => each.title === title).isFolded);
  }

  foldAll(isFolded) {
    for (const group of this.groups) group.isFolded = isFolded;
    this.arrange();
  }

  // --- light -------------------------------------------------------------------------------------

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
    const [id] = piecesOf(piece); // its own comes first
    this.lightWhere((node) => piecesOf(node).includes(id));
  }

  lightWhere(isOn) {
    this.svg.classList.add("lit");
    for (const node of this.svg.querySelectorAll(".edge, g.type, g.piece, g.query, g.title")) {
      node.classList.toggle("on", isOn(node));
      node.classList.remove("near");
    }
  }

  /** Choose a query, and show those that share something with it; gives whether it is drawn. */
  pick(name) {
    if (!this.svg) return name === null;
    const node = this.nodes.find((each) => each.classList.contains("query") && queriesOf(each)[0] === name);
    if (name !== null && !node) return false;
    this.chosen = name;
    for (const each of this.nodes) {
      each.classList.toggle("picked", each === node);
      if (each.classList.contains("query")) each.setAttribute("aria-pressed", String(each === node));
    }
    this.light(name === null ? null : [name]);
    if (node) this.show(node);
    this.picked(name);
    return true;
  }

  /** Unfold the group of a chosen query, and mark those that share a piece with it. */
  show(node) {
    const group = this.groups.find((each) => each.node.contains(node));
    if (group?.isFolded) this.fold(group.title);
    const mine = new Set(piecesOf(node));
    for (const each of this.svg.querySelectorAll("g.query:not(.on)")) {
      each.classList.toggle("near", piecesOf(each).some((piece) => mine.has(piece)));
    }
  }

  hover(node) {
    if (this.chosen !== null) return;
    if (node?.classList.contains("piece")) this.lightPiece(node);
    else if (node?.dataset?.query && !node.classList.contains("title")) this.light(queriesOf(node));
    else this.light(null);
  }

  // --- pointer and keyboard ----------------------------------------------------------------------

  listen() {
    const owner = (event) => event.target.closest?.("g.type, g.piece, g.query, g.title, path.edge");
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
      const node = owner(event) ?? event.target.closest?.("g.block")?.querySelector(".title");
      if (node?.classList.contains("title") && this.groups.length) this.fold(node);
      else this.toggle(node);
    });
    this.svg.addEventListener("focusin", (event) => {
      if (!event.target.matches(":focus-visible")) return;
      if (event.target.about) showTipBeside(event.target.about, event.target);
      this.hover(event.target);
    });
    this.svg.addEventListener("focusout", () => {
      hideTip();
      this.hover(null);
    });
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  /** Choose a query's box, or no query where it was chosen or is none. */
  toggle(node) {
    const name = node?.classList.contains("query") ? queriesOf(node)[0] : null;
    this.pick(name === this.chosen ? null : name);
  }

  key(event) {
    const here = document.activeElement;
    switch (event.key) {
      case "Enter":
      case " ":
        if (here.classList.contains("title")) this.fold(here);
        else if (here.classList.contains("query")) this.toggle(here);
        break;
      case "Escape":
        hideTip();
        if (this.chosen === null) return; // leaves the full window
        this.pick(null);
        event.stopPropagation();
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
      if (node === from || node.closest(".folded .inside")) continue;
      const there = middle(node);
      const along = sign * (sideways ? there.x - here.x : there.y - here.y);
      const across = Math.abs(sideways ? there.y - here.y : there.left - here.left);
      if (along <= 1 || (!sideways && !this.groups.length && across > 60)) continue;
      const far = along + across * (sideways ? 2 : 3);
      if (far < least) [best, least] = [node, far];
    }
    if (!best) return;
    from.setAttribute("tabindex", "-1");
    best.setAttribute("tabindex", "0");
    best.focus();
    best.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // --- size --------------------------------------------------------------------------------------

  zoom(factor) {
    this.scale = Math.min(3, Math.max(0.1, factor));
    this.svg.setAttribute("width", this.size.width * this.scale);
    this.svg.setAttribute("height", this.size.height * this.scale);
  }

  /** As wide as the box, as long as it can be read. */
  fitWidth() {
    this.zoom(Math.max(this.least, Math.min(1.1, this.box.clientWidth / this.size.width)));
  }

  /** All of it within the box and the window. */
  fit() {
    const tall = this.box.closest(".full-window") ? this.box.clientHeight : innerHeight * 0.85;
    this.zoom(Math.min(1.4, this.box.clientWidth / this.size.width, tall / this.size.height));
  }

  /** With Ctrl or ⌘, as for a pinch on a touchpad, the place under the pointer stays where it is. */
  wheel(event) {
    if (!this.svg || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const { left, top } = this.svg.getBoundingClientRect();
    const [x, y] = [(event.clientX - left) / this.scale, (event.clientY - top) / this.scale];
    this.zoom(this.scale * Math.exp(-0.002 * Math.max(-200, Math.min(200, event.deltaY))));
    const moved = this.svg.getBoundingClientRect();
    this.box.scrollLeft += moved.left + x * this.scale - event.clientX;
    this.box.scrollTop += moved.top + y * this.scale - event.clientY;
  }

  larger() {
    this.zoom(this.scale * STEP);
  }

  smaller() {
    this.zoom(this.scale / STEP);
  }
}

/** How many queries of a group share something. */
const shared = ({ node }) => node.querySelectorAll(".query[data-piece]").length;

/** The line of a group; what was noted comes before the marks of its pieces, which make way. */
function writeTitle(title, isFolded) {
  const words = title.firstElementChild;
  words.textContent = `${isFolded ? "▸" : "▾"} ${title.getAttribute("aria-label")}${title.note ?? ""}`;
  if (!title.note) return;
  const marks = [...title.querySelectorAll(".mark")];
  const left = Number(words.getAttribute("x")) + words.getComputedTextLength() + 12;
  marks.forEach((mark, i) => mark.setAttribute("x", left + i * 11));
}
