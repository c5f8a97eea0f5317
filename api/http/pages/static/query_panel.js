// The panel of one query of a plan: what it looks for, what it costs, with whom it shares, and why not with others.

import { complain, cost, counted, el, get, number, some } from "./dom.js";
import { explained, glossary, term } from "./terms.js";

/** Show it in a box; `close` is for its button, and `take` is told a window that is to be tried. */
export async function showQuery(box, plan, name, close, take) {
  box.hidden = false;
  box.dataset.query = name;
  const heading = el("div", { class: "row" },
    el("strong", { class: "code" }, name),
    el("button", { type: "button", onclick: close }, "Show all"));
  box.replaceChildren(heading);
  const asked = new URLSearchParams({ name });
  const [facts, known] = await Promise.all([get(`/pages/plans/${plan}/query?${asked}`), glossary()]);
  if (box.dataset.query !== name || box.hidden) return; // another one was chosen meanwhile
  box.replaceChildren(heading, el("dl", { class: "panel-facts" }, rows(facts, known), row("Other windows", otherWindows(plan, facts, take))));
}

/** A button that asks what the plan would cost if the query had the window of another. */
function otherWindows(plan, { name, cost: { unit } }, take) {
  const box = el("div", { role: "status" });
  const ask = el("button", { type: "button", class: "link", onclick: async () => {
    box.textContent = "Planning with each …";
    try {
      const found = await get(`/v1/plans/${plan}/windows?${new URLSearchParams({ query: name })}`);
      box.replaceChildren(found.length ? list(found.map(({ window, of: users, cost: costs, with: others }) => [
        el("button", { type: "button", class: "link", onclick: () => take(window) }, window),
        `, as of ${some(users, 3)}: the plan costs ${cost(costs.shared, unit)}; `,
        others.length ? `it shares with ${some(others, 6)}` : "it shares with no other",
      ])) : "No other query that reads some of its events has another window.");
    } catch (error) {
      const alert = el("p", { class: "alert", role: "alert" });
      box.replaceChildren(alert);
      complain(alert, error);
    }
  } }, "Try those of other queries");
  box.append(ask);
  return box;
}

const row = (title, ...content) => [el("dt", {}, title), el("dd", {}, content)];

function rows(facts, known) {
  const { cost: costs } = facts;
  const part = costs.all ? ` (${number(Number(((100 * costs.part) / costs.all).toPrecision(2)))} % of the plan)` : "";
  const found = [
    row("Query", el("pre", {}, facts.text || facts.pattern)),
    row(term("cost", "Cost"),
      `${cost(costs.part, costs.unit)} for each second of stream${part}, `,
      `${cost(costs.own, costs.unit)} of it for this query alone. What is shared is counted in equal parts.`),
    row("Runs", `with ${facts.engine_label}, ${together(facts.together)}`),
    row("Why", explained(facts.why, known)),
    row("Shares", facts.shares.length
      ? list(facts.shares.map(({ what, with: others }) => [el("code", {}, what), ` with ${some(others, 10)}`]))
      : facts.together.length ? "no stretch of its pattern; only the reading of events." : "nothing: it runs alone."),
  ];
  const not = [
    ...facts.not_chosen.map(({ what, with: others, why }) => [el("code", {}, what), ` with ${some(others, 10)}: ${why}`]),
    ...facts.obstacles.map((sentence) => [sentence]),
  ];
  if (not.length) found.push(row("Not shared", list(not)));
  if (facts.rows !== null) found.push(row("Gives", `about ${counted(Math.round(facts.rows * 3600), "row")} an hour`));
  return found;
}

const together = (others) => (others.length ? `together with ${some(others, 10)}` : "alone");

const list = (items) => el("ul", { class: "plainlist" }, items.map((item) => el("li", {}, item)));
