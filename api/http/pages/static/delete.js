// Buttons that delete what a page is about: the first click asks, the second one does it.

import { $, call, complain } from "./dom.js";

const SURE_FOR = 6000; // milliseconds until a button that asked is as it was

for (const button of document.querySelectorAll("button[data-delete]")) {
  const said = button.textContent;
  let timer = 0;
  const calm = () => {
    clearTimeout(timer);
    timer = 0;
    button.textContent = said;
  };
  button.addEventListener("click", async () => {
    if (!timer) {
      button.textContent = button.dataset.ask;
      timer = setTimeout(calm, SURE_FOR);
      return;
    }
    calm();
    button.disabled = true;
    try {
      await call("DELETE", button.dataset.delete);
      location.assign(button.dataset.then);
    } catch (error) {
      button.disabled = false;
      const problem = $("#problem");
      if (problem) complain(problem, error);
      else button.after(error.message);
    }
  });
}
