// Finding a query by a part of its name or pattern: what fits is listed as one types.

import { counted, el } from "./dom.js";

const LISTED = 12;

/**
 * `queries` are [name, pattern]; `choose(name)` is told of the one that is found, or null;
 * `light(names)` of all that fit, while there are several.
 */
export class Finder {
  constructor(input, list, { choose, light }) {
    Object.assign(this, { input, list, choose, light, queries: [], hits: [], at: 0 });
    input.addEventListener("input", () => this.look());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150)); // a click on a hit comes first
  }

  look() {
    const wanted = this.input.value.trim().toLowerCase();
    const exact = this.queries.find(([name]) => name.toLowerCase() === wanted);
    const inName = this.queries.filter(([name]) => name.toLowerCase().includes(wanted));
    const inPattern = this.queries.filter((each) => !inName.includes(each) && each[1].toLowerCase().includes(wanted));
    this.hits = wanted ? [...inName, ...inPattern].map(([name]) => name) : [];
    this.at = 0;
    if (exact || this.hits.length === 1) {
      this.close();
      this.choose(exact ? exact[0] : this.hits[0]);
      return;
    }
    this.choose(null); // what was chosen before is no longer asked for
    if (wanted) this.show();
    else this.close();
  }

  show() {
    const shown = this.hits.slice(0, LISTED);
    const patterns = new Map(this.queries);
    const options = shown.map((name, i) =>
      el("div", { role: "option", id: `hit-${i}`, "aria-selected": String(i === this.at), onpointerdown: () => this.take(name) },
        el("b", {}, name), el("span", { class: "quiet" }, patterns.get(name))));
    const more = this.hits.length - shown.length;
    const said = this.hits.length ? counted(this.hits.length, "query", "queries") + (more > 0 ? `, the first ${LISTED}` : "")
      : `No query has “${this.input.value.trim()}” in its name or pattern.`;
    this.list.replaceChildren(el("p", { class: "quiet", role: "status" }, said),
      el("div", { role: "listbox", "aria-label": "Queries that fit" }, options));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    if (shown.length) this.input.setAttribute("aria-activedescendant", `hit-${this.at}`);
    this.light(this.hits.length ? this.hits : null);
  }

  take(name) {
    this.input.value = name;
    this.close();
    this.choose(name);
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && this.hits.length > 1) {
      const many = Math.min(LISTED, this.hits.length);
      this.at = (this.at + by + many) % many;
      this.show();
      event.preventDefault();
    } else if (event.key === "Enter" && this.hits.length) {
      this.take(this.hits[this.at]);
      event.preventDefault();
    } else if (event.key === "Escape" && this.input.value) {
      this.input.value = "";
      this.look();
      event.preventDefault();
      event.stopPropagation();
    }
  }
}
