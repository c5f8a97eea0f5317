// A funnel's bars: how many keys reach each step, of those of the first and of the step before.

import { el, number, svg } from "./dom.js";

const GROUPS = 6; // that are drawn, the largest first
const STEP = /^STEP (\d+) (.+?)(?: (CONVERSION FROM|CONVERSION|MEDIAN TIME FROM|P90 TIME FROM)(?: .+)?)?$/;

/** Are these the rows of a funnel? */
export const isFunnel = (rows) => rows.some((row) => row.aggregate === "LEVEL" || isStep(row));

export const isStep = (row) => STEP.test(row.aggregate);

/** Draw the steps of each group of keys; `nameOf` writes a row's key. */
export function drawFunnel(box, query, rows, nameOf) {
  if (!rows.length) {
    box.append(el("p", { class: "quiet" }, "The bars of steps are drawn of a funnel with RETURN STEPS, or with fewer keys."));
    return;
  }
  const groups = new Map();
  for (const row of rows) {
    const [, place, alias, what] = STEP.exec(row.aggregate);
    const name = row.key ? nameOf(row.key) : "";
    if (!groups.has(name)) groups.set(name, []);
    const steps = groups.get(name);
    steps[place - 1] ??= { alias };
    steps[place - 1][what ?? "COUNT"] = row.count ?? row.value;
  }
  const drawn = [...groups].sort((a, b) => b[1][0].COUNT - a[1][0].COUNT);
  for (const [name, steps] of drawn.slice(0, GROUPS)) box.append(figure(query, name, steps));
  if (drawn.length > GROUPS) box.append(el("p", { class: "quiet" }, `and ${drawn.length - GROUPS} more groups`));
}

function figure(query, name, steps) {
  const most = Math.max(steps[0].COUNT, 1);
  return el("figure", { class: "card funnel" },
    el("figcaption", {}, el("strong", {}, query), name ? ` ${name}` : ""),
    el("ol", {}, steps.map((step, i) => el("li", {},
      el("div", { class: "step" }, el("span", { class: "code" }, step.alias), el("strong", {}, number(step.COUNT))),
      bar(step.COUNT / most, `${step.alias}: ${step.COUNT} of ${steps[0].COUNT}`),
      i ? el("p", { class: "quiet" }, about(step, steps[i - 1])) : null))));
}

function bar(part, label) {
  return svg("svg", { class: "barline tall", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "track", width: 100, height: 6 }), svg("rect", { class: "shared", width: 100 * part, height: 6 }));
}

const percent = (part) => (part === null || part === undefined ? "–" : `${(100 * part).toFixed(part && part < 0.1 ? 1 : 0)} %`);

function about(step, before) {
  const words = [`${percent(step.CONVERSION)} of the first`, `${percent(step["CONVERSION FROM"])} of ${before.alias}`];
  const [median, p90] = [step["MEDIAN TIME FROM"], step["P90 TIME FROM"]];
  if (median !== null && median !== undefined) words.push(`time from ${before.alias}: median ${number(median)}, 90th percentile ${number(p90)}`);
  return words.join(" · ");
}
