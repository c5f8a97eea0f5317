// A table of many rows: sorted by any column, and shown a page at a time.

import { counted, el } from "./dom.js";

/**
 * `columns` are { title, css, value(row) for sorting, cell(row) }. `show(rows)` replaces the rows, and turns to the
 * first page or to the one that is named.
 */
export class Table {
  constructor(box, columns, { size = 25, one = "row", several = "rows", empty = "There are none.", hover = null } = {}) {
    Object.assign(this, { columns, size, one, several, empty, hover });
    this.rows = [];
    this.page = 0;
    this.order = null; // column and whether it descends
    this.heads = columns.map((column, i) =>
      el("th", { scope: "col", class: column.css, "aria-sort": column.value ? "none" : null },
        column.value ? el("button", { type: "button", onclick: () => this.sortBy(i) }, column.title) : column.title));
    this.body = el("tbody");
    this.said = el("span", { role: "status" });
    this.back = el("button", { type: "button", onclick: () => this.turn(-1) }, "Back");
    this.on = el("button", { type: "button", onclick: () => this.turn(1) }, "Next");
    box.replaceChildren(
      el("div", { class: "scroll" }, el("table", { class: "list" }, el("thead", {}, el("tr", {}, this.heads)), this.body)),
      el("div", { class: "pager" }, this.said, el("span", { class: "row" }, this.back, this.on)),
    );
  }

  show(rows, page = 0) {
    this.rows = rows;
    this.page = Math.max(0, Math.min(page, Math.ceil(rows.length / this.size) - 1));
    this.draw();
  }

  sortBy(column, descends = this.order?.column === column ? !this.order.descends : Boolean(this.columns[column].numeric)) {
    this.order = { column, descends };
    this.heads.forEach((head, i) => {
      if (!this.columns[i].value) return;
      head.setAttribute("aria-sort", i !== column ? "none" : descends ? "descending" : "ascending");
    });
    this.page = 0;
    this.draw();
  }

  turn(by) {
    this.page += by;
    this.draw();
  }

  draw() {
    const rows = [...this.rows];
    if (this.order) {
      const { value } = this.columns[this.order.column];
      const sign = this.order.descends ? -1 : 1;
      rows.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
      });
    }
    const first = this.page * this.size;
    const shown = rows.slice(first, first + this.size);
    this.body.replaceChildren(...shown.map((row) => this.line(row)));
    if (!rows.length) {
      this.body.append(el("tr", {}, el("td", { colspan: this.columns.length, class: "quiet" }, this.empty)));
    }
    const all = counted(rows.length, this.one, this.several);
    this.said.textContent = rows.length > this.size ? `${first + 1} to ${first + shown.length} of ${all}` : all;
    this.back.hidden = this.on.hidden = rows.length <= this.size;
    this.back.disabled = this.page === 0;
    this.on.disabled = first + this.size >= rows.length;
  }

  line(row) {
    const line = el("tr", {}, this.columns.map((column) =>
      el("td", { class: column.css, "data-title": column.title }, column.cell(row))));
    if (this.hover) {
      line.addEventListener("pointerenter", () => this.hover(row));
      line.addEventListener("pointerleave", () => this.hover(null));
    }
    return line;
  }
}
