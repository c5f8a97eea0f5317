// A plan's page.

import { $, complain, el, get } from "./dom.js";
import { showCandidates } from "./candidates.js";
import { showConflicts } from "./conflicts.js";
import { Finder } from "./find.js";
import { showGroups, showOperators } from "./parts.js";
import { Picture } from "./picture.js";
import { showQueries } from "./queries.js";
import { showQuery } from "./query_panel.js";
import { glossary } from "./terms.js";
import { WhatIf } from "./what_if.js";

const id = $("#plan").dataset.id;
const way = $("#way");
const find = $("#find");
const section = $("#picture-section");

/** Show a query's panel, or none; `name` need not be in the picture. */
function panel(name) {
  way.hidden = name === null;
  if (name === null) return;
  showQuery(way, id, name, clear, (window) => whatIf.setWindow(name, window)).catch((error) => {
    const alert = el("p", { class: "alert", role: "alert" });
    way.replaceChildren(alert);
    complain(alert, error);
  });
}

const picture = new Picture($("#picture"), (name) => {
  if (document.activeElement !== find) find.value = name ?? "";
  panel(name);
});

let showCosts = () => {};

const whatIf = new WhatIf($("#what-if"), id, (answer) => {
  if (answer) picture.draw(answer.picture);
  else picture.load(id).catch((error) => complain($("#problem"), error));
  $("#folds").hidden = !picture.groups.length;
  showCosts(answer);
});

function clear() {
  picture.pick(null);
  panel(null);
  find.value = "";
}

function choose(name) {
  if (!picture.pick(name)) { // it is one of very many, and not drawn
    picture.pick(null);
    panel(name);
  }
  $(".picked", picture.box)?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

const finder = new Finder(find, $("#found"), {
  choose,
  light: (names) => picture.svg && picture.light(names),
});

// --- the size of the picture ---------------------------------------------------------------------

for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => {
    if (button.dataset.zoom === "in") picture.larger();
    else if (button.dataset.zoom === "out") picture.smaller();
    else picture.fit();
  });
}

$("#folds").addEventListener("click", (event) => {
  const isFolded = event.target.textContent === "Fold all";
  picture.foldAll(isFolded);
  event.target.textContent = isFolded ? "Unfold all" : "Fold all";
});

const full = $("#full");

function fillWindow(isFull) {
  section.classList.toggle("full-window", isFull);
  document.body.classList.toggle("still", isFull); // does not scroll behind it
  full.setAttribute("aria-pressed", String(isFull));
  full.textContent = isFull ? "Back to the page" : "Full window";
  if (isFull) picture.fit();
  else picture.fitWidth();
}

full.addEventListener("click", () => fillWindow(!section.classList.contains("full-window")));
section.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && section.classList.contains("full-window")) fillWindow(false);
});

// --- what is on the page -------------------------------------------------------------------------

async function drawn() {
  try {
    await picture.load(id);
    $("#folds").hidden = !picture.groups.length;
  } catch (error) {
    const alert = el("p", { class: "alert", role: "alert" });
    $("#picture").replaceChildren(alert);
    complain(alert, error);
  }
}

async function listed() {
  const [plan, queries, known] = await Promise.all([get(`/v1/plans/${id}`), get(`/pages/plans/${id}/queries`), glossary()]);
  const outputs = plan.operators.filter(({ kind }) => kind === "output").map(({ detail }) => [detail.query, detail.pattern]);
  const patterns = new Map(outputs);
  finder.queries = plan.queries.map((name) => [name, patterns.get(name) ?? ""]);
  const light = (names) => picture.svg && picture.chosen === null && picture.light(names);
  const chooseAbove = (name) => {
    choose(name);
    section.scrollIntoView({ block: "start" });
  };
  showCosts = showQueries($("#queries"), queries, plan.cost.unit, { choose: chooseAbove, light, whatIf });
  showGroups($("#groups"), plan, known);
  const chosen = new Set(plan.chosen);
  showCandidates($("#candidates"), plan, chosen, light);
  showConflicts($("#conflicts"), plan, chosen);
  showOperators($("#operators"), plan);
}

await Promise.all([drawn(), listed()]);
