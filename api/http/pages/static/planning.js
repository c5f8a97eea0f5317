// The form that makes a plan: at once, or as a task that can be watched and stopped.

import { $, call, complain, fresh, get, seconds } from "./dom.js";
import { offerFiles } from "./files.js";
import { rememberEvents, rememberedEvents } from "./remembered_events.js";

const LOOK = 250; // milliseconds between looks at a task

/** Set the form up, where a page has one; `isSaved` tells whether the text is what is stored. */
export function setUpPlanning(isSaved) {
  const form = $("#planning");
  if (!form) return;
  const fields = form.elements;
  const stage = $("[data-stage]", form);
  const alert = $(".alert", form);
  offerFiles($("#files"));

  const follow = () => {
    for (const label of form.querySelectorAll("[data-for]")) {
      label.hidden = label.dataset.for !== fields.statistics.value;
    }
  };
  const known = rememberedEvents(form.dataset.id);
  if (known && !fields.sample.value) {
    fields.sample.value = known;
    fields.statistics.value = "sample";
  }
  fields.statistics.addEventListener("change", follow);
  follow();

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = $("button[type=submit]", form);
    button.disabled = true;
    complain(alert, null);
    try {
      if (!isSaved()) throw new Error("Save the text first: only saved text is planned.");
      if (fields.statistics.value === "sample") rememberEvents(form.dataset.id, fields.sample.value.trim());
      stage.textContent = "Planning …";
      const { status, content, headers } = await call("POST", `/v1/workloads/${form.dataset.id}/plans`, {
        body: wanted(form),
        headers: { prefer: "respond-async", "idempotency-key": fresh() },
      });
      const plan = status === 202 ? await finished(headers.get("location") ?? `/v1/tasks/${content.id}`) : content.id;
      location.href = `/plans/${plan}`;
    } catch (error) {
      stage.textContent = "";
      complain(alert, error);
      button.disabled = false;
      fields.cancel.hidden = true;
    }
  });

  /** The id of the plan that a task makes. */
  async function finished(address) {
    fields.cancel.hidden = false;
    fields.cancel.onclick = () => call("DELETE", address);
    for (;;) {
      const task = await get(address);
      if (task.plan) return task.plan;
      if (!["queued", "running"].includes(task.status)) {
        throw new Error(task.reason ?? `planning was ${task.status}`);
      }
      const passed = task.seconds === undefined ? "" : ` · ${seconds(task.seconds)}`;
      stage.textContent = `${task.stage ?? "planning"}${passed}`;
      await new Promise((go) => setTimeout(go, LOOK));
    }
  }
}

/** The request that the form's fields make. */
function wanted(form) {
  const fields = form.elements;
  const body = {
    version: Number(form.dataset.version),
    solver: fields.solver.value,
    model: fields.model.value,
    sharing: fields.sharing.checked,
    device: fields.device.value,
  };
  if (fields.statistics.value === "sample") {
    if (!fields.sample.value.trim()) throw new Error("Name the file of the sample.");
    body.sample = { path: fields.sample.value.trim() };
    body.on_error = fields.on_error.value;
    if (fields.disorder.value.trim()) body.disorder = fields.disorder.value.trim();
  }
  if (fields.statistics.value === "rates") body.statistics = { rates: rates(fields.rates.value) };
  return body;
}

function rates(text) {
  const found = {};
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const parts = line.match(/^\s*"?(.+?)"?\s*[:=\s]\s*([0-9.eE+-]+)\s*$/);
    if (!parts || !(Number(parts[2]) >= 0)) {
      throw new Error(`“${line.trim()}” is not a type and its events per second, such as View: 27`);
    }
    found[parts[1]] = Number(parts[2]);
  }
  if (!Object.keys(found).length) throw new Error("Give at least one type and its rate, such as View: 27");
  return found;
}
