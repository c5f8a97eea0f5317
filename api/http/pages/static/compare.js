// Two plans side by side: their pictures, and what one does that the other does not.

import { $, complain, counted, el, get, some } from "./dom.js";
import { steps } from "./parts.js";
import { Picture } from "./picture.js";

const LISTED = 40;
const box = $("#compare");

if (box) {
  const pictures = [];
  const draw = async (place) => {
    const picture = new Picture(place, (name) => {
      for (const other of pictures) if (other !== picture && other.chosen !== name) other.pick(name);
    }, 0.38);
    pictures.push(picture);
    try {
      await picture.load(place.dataset.picture);
    } catch (error) {
      const alert = el("p", { class: "alert" });
      place.replaceChildren(alert);
      complain(alert, error);
    }
  };
  const places = document.querySelectorAll("[data-picture]");
  const isAlike = box.dataset.alike === "yes";
  const [a, b] = await Promise.all([
    get(`/v1/plans/${box.dataset.a}`),
    get(`/v1/plans/${box.dataset.b}`),
    ...Array.from(places, draw),
  ]);
  if (isAlike) $("#differences").replaceChildren(...differences(a, b));
}

function differences(a, b) {
  if (a.id === b.id) return [el("p", {}, "Both are the same plan.")];
  const found = [];
  const [inA, inB] = [new Set(a.queries), new Set(b.queries)];
  named(found, "Queries only in the first", a.queries.filter((name) => !inB.has(name)));
  named(found, "Queries only in the second", b.queries.filter((name) => !inA.has(name)));
  pieces(found, "Shared only in the first", chosen(a), chosen(b));
  pieces(found, "Shared only in the second", chosen(b), chosen(a));
  runs(found, a, b);
  if (!found.length) found.push(el("p", {}, "The same queries run in the same way and share the same pieces. Costs and statistics may differ."));
  return found;
}

function named(found, title, names) {
  if (names.length) found.push(el("h3", {}, title), el("p", {}, some(names, LISTED)));
}

/** What a plan chose, by its pattern and queries: ids also name the statistics. */
function chosen(plan) {
  const ids = new Set(plan.chosen);
  return new Map(plan.candidates.filter((c) => ids.has(c.id)).map((c) => [JSON.stringify([c.pattern, c.queries]), c]));
}

function pieces(found, title, here, there) {
  const only = [...here].filter(([key]) => !there.has(key)).map(([, candidate]) => candidate);
  if (!only.length) return;
  found.push(el("h3", {}, `${title}: ${counted(only.length, "piece")}`));
  found.push(el("ul", { class: "plainlist" },
    only.slice(0, LISTED).map((c) => el("li", {}, steps(c.pattern), el("span", { class: "quiet" }, ` for ${some(c.queries, 6)}`)))));
  if (only.length > LISTED) found.push(el("p", { class: "quiet" }, `and ${only.length - LISTED} more`));
}

/** Queries that run on another engine, or with others. */
function runs(found, a, b) {
  const how = (plan) => new Map(plan.groups.flatMap((group) =>
    group.queries.map((name) => [name, { engine: group.engine, others: group.queries.filter((each) => each !== name) }])));
  const [inA, inB] = [how(a), how(b)];
  const rows = [];
  for (const [name, first] of inA) {
    const second = inB.get(name);
    if (!second) continue;
    if (first.engine === second.engine && String(first.others) === String(second.others)) continue;
    const said = ({ engine, others }) => `${engine}, ${others.length ? `with ${some(others, 4)}` : "alone"}`;
    rows.push(el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, said(first)), el("td", {}, said(second))));
  }
  if (!rows.length) return;
  found.push(el("h3", {}, `${counted(rows.length, "query runs", "queries run")} differently`));
  found.push(el("div", { class: "scroll", tabindex: "0" },
    el("table", { class: "list" },
      el("thead", {}, el("tr", {}, ["Query", "In the first", "In the second"].map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, rows.slice(0, LISTED)))));
  if (rows.length > LISTED) found.push(el("p", { class: "quiet" }, `and ${rows.length - LISTED} more`));
}
