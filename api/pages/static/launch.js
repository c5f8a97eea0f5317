// The form that launches a job.

import { $, call, complain, fresh } from "./dom.js";
import { offerFiles } from "./files.js";

const form = $("#launch");
if (form) {
  const fields = form.elements;
  offerFiles($("#files"));

  const follow = () => {
    if (fields.mode.value === "stream") fields.engine.value = "spark"; // no other runs streams
    fields.engine.disabled = fields.mode.value === "stream";
    fields.master.disabled = fields.engine.value !== "spark";
  };
  fields.mode.addEventListener("change", follow);
  fields.engine.addEventListener("change", follow);
  follow();

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = $("button[type=submit]", form);
    button.disabled = true;
    complain($(".alert", form), null);
    const body = {
      plan: fields.plan.value,
      source: { path: fields.source.value.trim() },
      mode: fields.mode.value,
      engine: fields.engine.value,
      device: fields.device.value,
    };
    if (fields.sink.value.trim()) body.sink = { path: fields.sink.value.trim() };
    if (body.engine === "spark") body.master = fields.master.value.trim();
    try {
      const { content } = await call("POST", "/v1/jobs", { body, headers: { "idempotency-key": fresh() } });
      location.href = `/jobs/${content.id}`;
    } catch (error) {
      complain($(".alert", form), error);
      button.disabled = false;
    }
  });
}
