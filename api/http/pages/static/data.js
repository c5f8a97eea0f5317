// Start from data: choose or upload a file, see its columns, and open a first workload in the editor.

import { $, call, complain, counted, el, get, number } from "./dom.js";
import { offerFiles } from "./files.js";
import { showIndexes } from "./indexes.js";
import { Table } from "./table.js";

const form = $("#choose");
const state = $("[data-state]", form);
const alert = $(".alert", form);
const path = form.elements.path;
offerFiles($("#files"));
showIndexes($("#indexes"), () => path.value.trim());

const ROLES = { time: "the time", type: "the type", key: "the key", number: "summed up" };
const COLUMNS = [
  { title: "Column", value: ({ name }) => name, cell: ({ name, role }) => [name, role && el("span", { class: "tag chosen" }, ROLES[role])].flatMap((part) => (part ? [part, " "] : [])) },
  { title: "Kind", value: ({ kind }) => kind, cell: ({ kind, stored }) => el("span", { title: `stored as ${stored}` }, kind) },
  { title: "Values", css: "n", numeric: true, value: ({ distinct }) => distinct, cell: ({ distinct }) => number(distinct) },
  { title: "Empty", css: "n", numeric: true, value: ({ nulls }) => nulls, cell: ({ nulls }) => number(nulls) },
  { title: "Most frequent", css: "code examples", cell: ({ examples }) => examples.join(", ") },
  { title: "From", css: "n", cell: ({ least }) => least ?? "–" },
  { title: "To", css: "n", cell: ({ most }) => most ?? "–" },
];
const table = new Table($("#columns"), COLUMNS, { one: "column", several: "columns", size: 50 });

async function describe() {
  state.textContent = "Reading the first rows …";
  complain(alert, null);
  $("#described").hidden = true;
  try {
    show(await get(`/v1/events?${new URLSearchParams({ path: path.value.trim() })}`));
  } catch (error) {
    complain(alert, error);
  }
  state.textContent = "";
}

function show(found) {
  table.show(found.columns);
  const looked = `${found.whole ? "All" : "The first"} ${counted(found.rows, "row")}${found.files > 1 ? ` of the first of ${counted(found.files, "file")}` : ""}`;
  $("#about").textContent = looked + (found.from === null ? "." : `, with times from ${found.from} to ${found.to}.`);
  const doubts = $("#doubts");
  doubts.hidden = !found.notes.length;
  $("ul", doubts).replaceChildren(...found.notes.map((note) => el("li", {}, note)));
  $("#first").textContent = found.workload;
  $("#open").href = `/workloads/new?${new URLSearchParams({ events: found.path })}`;
  $("#described").hidden = false;
  history.replaceState(null, "", `?${new URLSearchParams({ path: found.path })}`);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  describe();
});

$("#upload input").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  complain(alert, null);
  state.textContent = `Uploading ${file.name} …`;
  try {
    const asked = new URLSearchParams({ name: file.name });
    const { content } = await call("POST", `/v1/uploads?${asked}`, {
      body: file, headers: { "content-type": "application/octet-stream" },
    });
    path.value = content.path;
    await describe();
  } catch (error) {
    state.textContent = "";
    complain(alert, error);
  }
});

if (path.value) describe();
