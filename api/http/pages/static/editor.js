// A workload's text with line numbers and colours, the parser's findings where they belong, and
// what may be written next.

import { colouring, linesOfQueries } from "./colours.js";
import { $, call, complain, counted, el, fresh, get } from "./dom.js";
import { setUpPlanning } from "./planning.js";
import { rememberEvents } from "./remembered_events.js";
import { suggesting } from "./suggestions.js";

const PAUSE = 350; // milliseconds without a key before the text is checked
const MOST_MARKS = 300;
const LINE = 21; // pixels

const form = $("#editor");
const text = $("textarea", form);
const gutter = $(".gutter", form);
const marks = $(".marks", form);
const colours = $(".colours", form);
const verdict = $("#verdict");
const save = $("button[type=submit]", form);
const list = $("#findings");
const problem = $("#problem");

const saved = form.dataset.id ? text.value : null; // what the service has
let findings = [];
let isGood = false;
let waiting = 0;
let asked = null;
let lines = [];
let inQuery = [];
let draw = null; // the colours, when their grammar has come

// --- the sheet ---------------------------------------------------------------------------------

function numberLines() {
  lines = text.value.split("\n");
  inQuery = linesOfQueries(lines);
  const many = lines.length;
  const wrong = new Set(findings.map((finding) => finding.line));
  const parts = [];
  let run = [];
  for (let line = 1; line <= many; line += 1) {
    if (wrong.has(line)) {
      parts.push(run.join("\n") + (run.length ? "\n" : ""), el("b", {}, String(line)), "\n");
      run = [];
    } else {
      run.push(line);
    }
  }
  gutter.replaceChildren(...parts, `${run.join("\n")}\n\n\n`);
  follow();
}

/** The width of a letter and the height of a line, in pixels. */
function metrics() {
  const probe = el("span", {}, "0".repeat(100));
  marks.append(probe);
  const width = probe.getBoundingClientRect().width / 100;
  probe.remove();
  return { letter: width, line: LINE, left: 12, top: 10 };
}

function mark() {
  const { letter, line, left, top } = metrics();
  const found = [];
  for (const finding of findings.slice(0, MOST_MARKS)) {
    if (finding.line === null) continue;
    const y = top + (finding.line - 1) * line;
    const band = el("u");
    band.style.top = `${y}px`;
    found.push(band);
    if (finding.column === null) continue;
    const spot = el("i");
    spot.style.top = `${y}px`;
    spot.style.left = `${left + (finding.column - 1) * letter}px`;
    spot.style.width = `${Math.max(1, finding.width) * letter}px`;
    found.push(spot);
  }
  const moved = el("div", {}, found);
  moved.style.position = "relative";
  marks.replaceChildren(moved);
  follow();
}

function follow() {
  gutter.scrollTop = text.scrollTop;
  const moved = marks.firstElementChild;
  if (moved) moved.style.transform = `translate(${-text.scrollLeft}px, ${-text.scrollTop}px)`;
  if (draw === null) return;
  const first = Math.floor(text.scrollTop / LINE);
  const drawn = draw(colours, lines, inQuery, first, first + Math.ceil(text.clientHeight / LINE));
  colours.style.transform = `translate(${-text.scrollLeft}px, ${drawn * LINE - text.scrollTop}px)`;
}

/** Where a character is on the sheet, in pixels. */
function placeOnSheet(offset) {
  const { letter, line, left, top } = metrics();
  const before = text.value.slice(0, offset).split("\n");
  return {
    x: text.offsetLeft + left + before.at(-1).length * letter - text.scrollLeft,
    y: top + (before.length - 1) * line - text.scrollTop,
    line,
  };
}

function goTo(finding) {
  const line = finding.line ?? 1;
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  const start = before + (finding.column ?? 1) - 1;
  const end = finding.column === null ? before + (lines[line - 1] ?? "").length : start + finding.width;
  text.focus();
  text.setSelectionRange(start, end);
  text.scrollTop = Math.max(0, (line - 6) * LINE);
  text.scrollLeft = 0;
  follow();
}

// --- checking ----------------------------------------------------------------------------------

function show() {
  numberLines();
  mark();
  list.replaceChildren(
    ...findings.slice(0, MOST_MARKS).map((finding) =>
      el("li", {},
        el("button", { type: "button", onclick: () => goTo(finding) },
          el("span", { class: "place" }, placeOf(finding)),
          el("span", {}, finding.message, finding.query ? el("span", { class: "quiet" }, ` in ${finding.query}`) : null),
          finding.hint ? el("span", { class: "help" }, finding.hint) : null))),
  );
}

function placeOf({ line, column }) {
  if (line === null) return "in the file";
  return column === null ? `line ${line}` : `line ${line}, column ${column}`;
}

function say(words, css = "") {
  verdict.textContent = words;
  verdict.className = css;
}

async function check() {
  asked?.abort();
  asked = new AbortController();
  const given = text.value;
  try {
    const { content } = await call("POST", "/pages/check", {
      body: given,
      headers: { "content-type": "application/yaml" },
      signal: asked.signal,
    });
    if (given !== text.value) return;
    findings = content.findings;
    isGood = content.ok;
    complain(problem, null);
    if (isGood) {
      const what = `${counted(content.queries, "query", "queries")} over ${counted(content.types, "event type")}`;
      const other = content.latest && !form.dataset.id ? `. A workload ${content.name} is there: this will be its version ${content.latest + 1}` : "";
      say(given === saved ? `${what}, saved` : `${what}, no errors${other}`, "good");
    } else {
      say(`${counted(findings.length, "error")} to correct`, "wrong");
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    isGood = false;
    say("The text could not be checked", "wrong");
    complain(problem, error);
  }
  save.disabled = !isGood || given === saved;
  show();
}

function changed() {
  save.disabled = true;
  numberLines();
  clearTimeout(waiting);
  waiting = setTimeout(check, PAUSE);
}

suggesting(text, $("#suggestions"), {
  caret: placeOnSheet,
  events: () => form.dataset.sample || $("#planning")?.elements.sample.value.trim(),
  status: $("#suggested"),
});
text.addEventListener("input", changed);
text.addEventListener("scroll", follow);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey) {
    // The next line begins where this one does. As a command, so that it can be undone.
    const before = text.value.slice(0, text.selectionStart);
    const indent = before.slice(before.lastIndexOf("\n") + 1).match(/^ */)[0];
    event.preventDefault();
    document.execCommand("insertText", false, `\n${indent}`);
  }
  if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (!save.disabled) form.requestSubmit();
  }
});
addEventListener("resize", mark);

$("#layout").addEventListener("click", async () => {
  const given = text.value;
  try {
    const sent = { body: given, headers: { "content-type": "application/yaml" } };
    const { content } = await call("POST", "/pages/layout", sent);
    if (given !== text.value) return;
    const { scrollTop } = text;
    text.focus();
    for (const { start, end, text: better } of content.changes.reverse()) {
      text.setSelectionRange(start, end);
      document.execCommand("insertText", false, better); // so that it can be undone
    }
    text.scrollTop = scrollTop;
    if (content.changes.length === 0) say("Laid out already", isGood ? "good" : "");
  } catch (error) {
    complain(problem, error);
  }
});

// --- a file, saving, leaving -------------------------------------------------------------------

$("#upload input").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  text.value = await file.text();
  text.scrollTop = 0;
  changed();
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  save.disabled = true;
  const id = form.dataset.id;
  try {
    const { content } = await call(id ? "PUT" : "POST", id ? `/v1/workloads/${id}` : "/v1/workloads", {
      body: text.value,
      headers: { "content-type": "application/yaml", ...(id ? {} : { "idempotency-key": fresh() }) },
    });
    leaving = true;
    rememberEvents(content.id, form.dataset.sample);
    location.href = `/workloads/${content.id}`;
  } catch (error) {
    complain(problem, error);
    save.disabled = false;
  }
});

let first = text.value;
let leaving = false;
addEventListener("beforeunload", (event) => {
  if (!leaving && text.value !== first) event.preventDefault();
});

/** Write a first workload for a file of events. */
async function startFrom(events) {
  say("Reading the first rows of the events …");
  try {
    const found = await get(`/v1/events?${new URLSearchParams({ path: events })}`);
    if (text.value === first) text.value = first = found.workload; // nobody has typed meanwhile
  } catch (error) {
    complain(problem, error);
  }
}

numberLines();
get("/pages/colours").then((grammar) => {
  draw = colouring(grammar);
  $(".sheet", form).classList.add("coloured");
  follow();
}, () => {}); // the text is there without
if (form.dataset.sample && saved === null) await startFrom(form.dataset.sample);
check();
setUpPlanning(() => text.value === saved);
