// The small text that follows the pointer, or stands beside what has the focus.

import { el } from "./dom.js";

const tip = document.querySelector("#tip");

/** Show lines of text beside a point of the window; the first is the heading. */
export function showTip(text, x, y) {
  const [first, ...rest] = text.split("\n");
  tip.replaceChildren(el("b", {}, first), rest.length ? `\n${rest.join("\n")}` : "");
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? Math.max(8, x - width - 14) : x + 14;
  const top = y + 14 + height > innerHeight ? Math.max(8, y - height - 14) : y + 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
}

export function hideTip() {
  tip.hidden = true;
}

/** Beside an element, for those who came there by keyboard. */
export function showTipBeside(text, element) {
  const box = element.getBoundingClientRect();
  showTip(text, box.right, box.bottom);
}
