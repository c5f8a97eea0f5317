// A plan's page.

import { $, complain, counted, el, get, some } from "./dom.js";
import { showCandidates } from "./candidates.js";
import { showConflicts } from "./conflicts.js";
import { showGroups, showOperators } from "./parts.js";
import { Picture } from "./picture.js";

const id = $("#plan").dataset.id;
const way = $("#way");
const find = $("#find");

let plan = null;

const picture = new Picture($("#picture"), (name, about) => {
  way.hidden = name === null;
  find.value = name ?? "";
  if (name === null) return;
  const [, ...lines] = about.split("\n");
  showWay(name, `${lines.slice(0, 2).join(" · ")}\n${lines.slice(2).join("\n")}`.trim());
});

function showWay(name, text) {
  way.hidden = false;
  way.replaceChildren(
    el("strong", { class: "code" }, name),
    el("button", { type: "button", onclick: () => picture.pick(null) }, "Show all"),
    el("p", {}, text),
  );
}

/** What the plan says of a query that has no place in the picture. */
function inWords(name) {
  const group = plan.groups.find(({ queries }) => queries.includes(name));
  const parts = (group.uses?.[name] ?? []).map((n) => group.segments[n].join(", "));
  const others = group.queries.length - 1;
  return [
    `One of many that are not drawn: ${group.engine}, ${others ? `with ${counted(others, "other query", "other queries")}` : "alone"}`,
    parts.length ? `made of ${parts.join(" + ")}` : group.why,
  ].join("\n");
}

for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => {
    if (button.dataset.zoom === "in") picture.larger();
    else if (button.dataset.zoom === "out") picture.smaller();
    else picture.fit(0.15);
  });
}

find.addEventListener("input", () => {
  if (!find.value) picture.pick(null);
  else if (picture.pick(find.value)) {
    $(".picked", picture.svg)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  } else if (plan?.queries.includes(find.value)) {
    const name = find.value;
    picture.pick(null);
    find.value = name;
    showWay(name, inWords(name));
  }
});

async function drawn() {
  try {
    await picture.load(id);
  } catch (error) {
    const alert = el("p", { class: "alert", role: "alert" });
    $("#picture").replaceChildren(alert);
    complain(alert, error);
  }
}

async function listed() {
  plan = await get(`/v1/plans/${id}`);
  $("#query-names").replaceChildren(...plan.queries.map((name) => el("option", { value: name })));
  showGroups($("#groups"), plan);
  const chosen = new Set(plan.chosen);
  const light = (names) => picture.svg && picture.chosen === null && picture.light(names);
  showCandidates($("#candidates"), plan, chosen, light);
  showConflicts($("#conflicts"), plan, chosen);
  showOperators($("#operators"), plan);
  document.title = `${some(plan.queries, 3)} · ${document.title}`;
}

await Promise.all([drawn(), listed()]);
