// Indexes of stored events: have one built, see how far it is, cancel it, remove it.

import { $, bytes, call, complain, counted, el, get } from "./dom.js";
import { Table } from "./table.js";

const LOOK = 1000; // milliseconds between looks at builds that are not over
const SURE_FOR = 6000; // milliseconds until a button that asked is as it was
const isOver = ({ ended }) => ended !== null;
const sum = (files, name) => files.reduce((all, file) => all + file[name], 0);

/** Builds of indexes in a section; `place` gives the path of the events that are to be indexed. */
export function showIndexes(section, place) {
  const form = $("form", section);
  const alert = $(".alert", section);
  const box = $("#builds", section);
  const table = new Table(box, [
    { title: "Events", css: "code", value: ({ source }) => source.path, cell: ({ source }) => source.path },
    { title: "Looked up", css: "code", value: ({ on }) => on.join(", "), cell: ({ on }) => on.join(", ") || "–" },
    { title: "Status", value: ({ status }) => status, cell: (build) => el("span", { class: `tag ${build.status}` }, build.status) },
    { title: "", cell: aboutBuild },
    { title: "", cell: button },
  ], { size: 10, one: "index", several: "indexes" });
  let timer = 0;

  async function look() {
    clearTimeout(timer);
    let builds;
    try {
      builds = await get("/v1/indexes");
    } catch (error) {
      complain(alert, error);
      return;
    }
    box.hidden = !builds.length;
    table.show(builds, table.page);
    if (!builds.every(isOver)) timer = setTimeout(look, LOOK);
  }

  async function ask(method, address, body) {
    complain(alert, null);
    try {
      await call(method, address, { body });
    } catch (error) {
      complain(alert, error);
    }
    await look();
  }

  function button(build) {
    const address = `/v1/indexes/${build.id}`;
    if (!isOver(build)) {
      return el("button", { type: "button", class: "danger", onclick: () => ask("DELETE", address) }, "Cancel");
    }
    let sure = false;
    const remove = el("button", { type: "button", class: "danger", onclick: () => {
      if (sure) {
        ask("DELETE", address);
        return;
      }
      sure = true;
      remove.textContent = build.files.length ? "Remove the index?" : "Remove it from the list?";
      setTimeout(() => {
        sure = false;
        remove.textContent = "Remove";
      }, SURE_FOR);
    } }, "Remove");
    return remove;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const on = form.elements.on.value.split(",").map((name) => name.trim()).filter(Boolean);
    if (!place()) {
      complain(alert, { message: "choose a file first" });
      return;
    }
    ask("POST", "/v1/indexes", { source: { path: place() }, on });
  });
  look();
}

/** How far a build is, what came of it, or why it failed. */
function aboutBuild({ status, progress, reason, files }) {
  if (status === "running") return `${Math.round(100 * progress)} %`;
  if (reason) return reason;
  if (!files.length) return "";
  return `${counted(files.length, "file")}, ${counted(sum(files, "rows"), "event")}, ${bytes(sum(files, "bytes"))} beside ${bytes(sum(files, "of_bytes"))}`;
}
