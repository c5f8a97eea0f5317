// The form that launches a job.

import { $, call, complain, fresh } from "./dom.js";
import { offerFiles } from "./files.js";
import { rememberEvents, rememberedEvents } from "./remembered_events.js";

const form = $("#launch");
if (form) {
  const fields = form.elements;
  const usual = fields.row_limit.placeholder;
  offerFiles($("#files"));

  const follow = () => {
    if (fields.mode.value === "stream") fields.engine.value = "spark"; // no other runs streams
    fields.engine.disabled = fields.mode.value === "stream";
    $("#stream", form).hidden = fields.mode.value !== "stream";
    fields.finish.disabled = !fields.once.checked;
    fields.master.disabled = fields.engine.value !== "spark";
    const onSpark = fields.engine.value === "spark";
    const ofLocal = ["slice", "threads", "partial_limit", "on_limit"];
    for (const name of ofLocal) fields[name].disabled = onSpark;
    fields.disorder.disabled = onSpark && fields.mode.value !== "stream";
    for (const name of ["match", "access", "tables"]) fields[name].disabled = fields.mode.value === "stream";
    if (!fields.partial_limit.value) fields.on_limit.disabled = true;
    fields.row_limit.placeholder = fields.mode.value === "stream" ? "no limit" : usual;
  };
  fields.mode.addEventListener("change", follow);
  fields.engine.addEventListener("change", follow);
  fields.once.addEventListener("change", follow);
  fields.partial_limit.addEventListener("input", follow);
  follow();

  const workload = () => fields.plan.selectedOptions[0]?.dataset.workload;
  const offer = () => {
    if (!fields.source.value || fields.source.value === offered) fields.source.value = offered = rememberedEvents(workload());
  };
  let offered = "";
  fields.plan.addEventListener("change", offer);
  offer();
  form.addEventListener("invalid", (event) => {
    const fold = event.target.closest("details");
    if (fold) fold.open = true; // what is wrong has to be seen
  }, true);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = $("button[type=submit]", form);
    button.disabled = true;
    complain($(".alert", form), null);
    const body = {
      plan: fields.plan.value,
      source: { path: places(fields.source.value.trim()) },
      mode: fields.mode.value,
      engine: fields.engine.value,
      device: fields.device.value,
      ...options(fields),
    };
    if (fields.sink.value.trim()) body.sink = { path: fields.sink.value.trim() };
    if (body.engine === "spark") body.master = fields.master.value.trim();
    if (body.mode === "stream") body.stream = stream(fields);
    try {
      const { content } = await call("POST", "/v1/jobs", { body, headers: { "idempotency-key": fresh() } });
      rememberEvents(workload(), fields.source.value.trim());
      location.href = `/jobs/${content.id}`;
    } catch (error) {
      complain($(".alert", form), error);
      button.disabled = false;
    }
  });
}

/** A path, or of `orders=a.csv, payments=b.csv` one for each source; folders may be called year=2024. */
function places(text) {
  const parts = text.split(/\s*,\s+/).map((part) => part.match(/^([A-Za-z_]\w*)=(.+)$/));
  if (parts.length < 2 || !parts.every(Boolean)) return text;
  return Object.fromEntries(parts.map(([, name, path]) => [name, path]));
}

/** The options of the run that were given, and that what runs can honour. */
function options(fields) {
  const given = { on_error: fields.on_error.value };
  for (const name of ["disorder", "slice", "partial_limit", "on_limit", "row_limit", "threads", "match", "access"]) {
    const field = fields[name];
    if (field.disabled || !field.value.trim()) continue;
    given[name] = field.type === "number" ? Number(field.value) : field.value.trim();
  }
  if (fields.tables.checked && !fields.tables.disabled) given.tables = true;
  return given;
}

/** How a stream is to run, as far as it was said. */
function stream(fields) {
  const wanted = { once: fields.once.checked, finish: fields.once.checked && fields.finish.checked };
  if (fields.every.value) wanted.every = Number(fields.every.value);
  if (fields.checkpoint.value.trim()) wanted.checkpoint = { path: fields.checkpoint.value.trim() };
  if (fields.like.value.trim()) wanted.like = { path: fields.like.value.trim() };
  return wanted;
}
