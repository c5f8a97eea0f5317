// What every page has: the theme's switch, times in the reader's own zone, buttons that delete.

import "./delete.js";

const root = document.documentElement;

const isDark = () =>
  root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;

const toggle = document.querySelector("#theme");
const label = () => {
  const other = isDark() ? "light" : "dark";
  toggle.setAttribute("aria-label", `Use the ${other} theme`);
  toggle.title = `Use the ${other} theme`;
};
toggle.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("sheaf-theme", root.dataset.theme);
  label();
});
label();

const shown = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
for (const time of document.querySelectorAll("time[datetime]")) {
  time.title = time.textContent;
  time.textContent = shown.format(new Date(time.dateTime));
}

import { setUpTerms } from "./terms.js";

setUpTerms();
