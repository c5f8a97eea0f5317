// What may be written next, offered below the caret of a text area.

import { call, el } from "./dom.js";

const PAUSE = 120; // milliseconds without a key
const OPENS = /(?:\w{2}|\.\w?|")$/; // what has just been typed, for a list to open by itself

/**
 * Offers words in `text`. `caret()` is where the caret is in the list's parent, in pixels, and
 * `events()` a sample of events, if one is known.
 */
export function suggesting(text, list, { caret, events, status }) {
  let start = 0;
  let chosen = -1;
  let waiting = 0;
  let asked = null;

  const isOpen = () => !list.hidden;

  function close() {
    asked?.abort();
    clearTimeout(waiting);
    list.hidden = true;
    chosen = -1;
    text.removeAttribute("aria-activedescendant");
  }

  function choose(number) {
    const items = [...list.children];
    chosen = (number + items.length) % items.length;
    items.forEach((item, n) => item.setAttribute("aria-selected", String(n === chosen)));
    items[chosen].scrollIntoView({ block: "nearest" });
    text.setAttribute("aria-activedescendant", items[chosen].id);
  }

  function take(number) {
    const { written } = list.children[number].dataset;
    close();
    text.focus();
    text.setSelectionRange(start, text.selectionStart);
    document.execCommand("insertText", false, written); // so that it can be undone
    close();
  }

  async function ask() {
    asked?.abort();
    asked = new AbortController();
    const at = text.selectionStart;
    const given = text.value;
    const query = new URLSearchParams({ at, ...(events() ? { events: events() } : {}) });
    let found;
    try {
      const sent = { body: given, headers: { "content-type": "application/yaml" }, signal: asked.signal };
      ({ content: found } = await call("POST", `/pages/suggestions?${query}`, sent));
    } catch {
      return; // one can write without
    }
    if (given !== text.value || at !== text.selectionStart || document.activeElement !== text) return;
    if (found.words.length === 0) {
      close();
      return;
    }
    start = found.start;
    list.replaceChildren(...found.words.map((word, n) =>
      el("li", {
        "id": `word-${n}`, "role": "option", "aria-selected": "false", "data-written": word.written,
        "onmousedown": (event) => { event.preventDefault(); take(n); },
      }, el("b", { class: word.kind }, word.written), el("span", {}, word.meaning.replaceAll(/[`*]/g, "")))));
    chosen = -1;
    list.hidden = false;
    list.scrollTop = 0;
    const { x, y, line } = caret(start);
    const box = list.offsetParent;
    const below = y + line + list.offsetHeight <= box.clientHeight;
    list.style.top = `${below ? y + line : Math.max(0, y - list.offsetHeight)}px`;
    list.style.left = `${Math.max(0, Math.min(x, box.clientWidth - list.offsetWidth))}px`;
    status.textContent = `${found.words.length} suggestions`;
  }

  text.addEventListener("input", (event) => {
    close();
    if (event.inputType !== "insertText" && event.inputType !== "deleteContentBackward") return;
    const before = text.value.slice(Math.max(0, text.selectionStart - 2), text.selectionStart);
    if (text.selectionStart === text.selectionEnd && OPENS.test(before)) waiting = setTimeout(ask, PAUSE);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      ask();
    }
    if (!isOpen()) return;
    // Enter ends the line unless a word was chosen: whoever types on is not held up.
    const taken = event.key === "Tab" ? Math.max(chosen, 0) : event.key === "Enter" ? chosen : -1;
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen < 0 ? -1 : chosen - 1);
    else if (taken >= 0) take(taken);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  });
  text.addEventListener("blur", close);
  text.addEventListener("scroll", close);
  text.addEventListener("pointerdown", close);
}
