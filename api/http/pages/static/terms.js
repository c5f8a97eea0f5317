// Words with a meaning: links to the glossary, which show it to pointer and keyboard.

import { el, get } from "./dom.js";
import { hideTip, showTipBeside } from "./tip.js";

let asked = null;

/** The glossary, fetched once: each { id, name, meaning, phrases }. */
export const glossary = () => (asked ??= get("/pages/glossary").catch(() => []));

export const term = (id, text) => el("a", { class: "term", href: `/glossary#${id}`, "data-term": id }, text);

/** A sentence in which known phrases are terms, each once. */
export function explained(sentence, known) {
  const byPhrase = new Map(known.flatMap(({ id, phrases }) => phrases.map((phrase) => [phrase.toLowerCase(), id])));
  const longest = [...byPhrase.keys()].sort((a, b) => b.length - a.length);
  if (!longest.length) return [sentence];
  const pattern = new RegExp(`(?<![\\w-])(${longest.map(escaped).join("|")})(?![\\w-])`, "gi");
  const parts = [];
  const seen = new Set();
  let from = 0;
  for (const found of sentence.matchAll(pattern)) {
    const id = byPhrase.get(found[0].toLowerCase());
    if (seen.has(id)) continue;
    seen.add(id);
    parts.push(sentence.slice(from, found.index), term(id, found[0]));
    from = found.index + found[0].length;
  }
  return [...parts, sentence.slice(from)];
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

async function show(node) {
  const found = (await glossary()).find(({ id }) => id === node.dataset.term);
  if (found && node.matches(":hover, :focus-visible")) showTipBeside(`${found.name}\n${found.meaning}`, node);
}

/** Tooltips for all terms of a page, also those that come later. */
export function setUpTerms() {
  for (const [on, off] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
    document.addEventListener(on, (event) => {
      const node = event.target.closest?.(".term");
      if (node) show(node);
    });
    document.addEventListener(off, (event) => event.target.closest?.(".term") && hideTip());
  }
}
