// The box on a job's page that asks why a query matched, or did not.

import { $, complain, get } from "./dom.js";

export function askWhy(box, id) {
  const form = $("#why", box);
  const answer = $("#why-answer", box);
  const problem = $("#why-problem", box);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const asked = new URLSearchParams({ format: "text" });
    for (const [name, value] of new FormData(form)) if (value.trim()) asked.set(name, value.trim());
    const button = $("button", form);
    button.disabled = true;
    problem.hidden = true;
    answer.hidden = false;
    answer.textContent = "Reading the events …";
    try {
      answer.textContent = await get(`/v1/jobs/${id}/why?${asked}`, { headers: { accept: "text/plain" } });
    } catch (error) {
      answer.hidden = true;
      complain(problem, error);
    } finally {
      button.disabled = false;
    }
  });
}
