// A job's page: what it is at, how fast, and what it found.

import { $, bytes, call, complain, counted, el, get, number, seconds, some } from "./dom.js";
import { Alerts } from "./alerts.js";
import { Chart } from "./chart.js";
import { Operators } from "./operators.js";
import { Results } from "./results.js";
import { Running } from "./running.js";
import { term } from "./terms.js";
import { askWhy } from "./why.js";

const LOOK = 1000; // milliseconds between looks at what the process has measured
const OVER = ["succeeded", "failed", "cancelled"];
const STAGES = {
  read: "reading the events", start: "starting Spark", run: "running", write: "writing results",
  finish: "reporting open windows",
};
const DULL = ["waiting", "starting", "over"]; // stages that a status says as well
const ENGINES = { spark: "Spark", local: "local" };
const DEVICES = { cpu: "CPU", opencl: "OpenCL" }; // none where the plan says it
const PARTS = { read: "Reading", start: "Starting", run: "Running", write: "Writing" };
const WAYS_OUT = [
  [/no file|cannot find|No such file/i, "Check the source: its path is as the service sees it, on its own machine."],
  [/no column/i, "The events have other columns than the workload's stream names: correct the stream, or take other events."],
  [/not enough memory|memory/i, "Take fewer events, a narrower window, or the local engine, which works in slices."],
  [/not under a folder/i, "Move the file there, or start the service with --root and its folder."],
];

const head = $("#job");
const id = head.dataset.id;
const charts = $("#charts");
askWhy($("#why-box"), id);
const operators = new Operators($("#operators-box"), id);
const running = new Running($("#running"));
const alerts = new Alerts($("#alerts-box"), id);
const made = {};
const samples = []; // of progress: seconds since the page began to look, and the part that is done
const measures = [];
let job = null;
let results = null;
let from = 0; // of the measures, in bytes
let before = 0; // seconds of earlier processes

function chart(name, title, options) {
  made[name] ??= new Chart(charts, title, options);
  return made[name];
}

// --- what is shown -----------------------------------------------------------------------------

function show() {
  const tag = $("#status");
  tag.textContent = job.status;
  tag.className = `tag ${job.status}`;
  const over = OVER.includes(job.status);
  $("#stage").textContent = stageOf(job);
  $("#cancel").hidden = over;
  $("#again").hidden = !over;
  $("#delete").hidden = !over;
  $("#plan").textContent = job.plan; // of a stream, it can change
  $("#plan").href = `/plans/${job.plan}`;
  $("#version").textContent = job.workload_version;
  const change = $("#change");
  if (change) change.hidden = over || job.mode !== "stream";
  showPart(over);
  showNumbers();
  showLimits();
  showNotes();
  if (over && job.status !== "succeeded") {
    const hint = WAYS_OUT.find(([words]) => words.test(job.reason ?? ""));
    const found = job.status === "failed" ? job.reason : null;
    complain($("#problem"), found && { message: hint ? `${found}\n${hint[1]}` : found });
    $("#steps-box").open = job.status === "failed";
  }
}

function stageOf({ status, stage, position }) {
  if (status === "queued") return position ? `Waiting, ${position === 1 ? "next" : `place ${position}`} in the queue` : "Waiting";
  if (status === "running") return sentence(stageText(stage));
  return { succeeded: "Done", failed: "Failed", cancelled: "Cancelled" }[status] ?? status;
}

const stageText = (stage) => (stage === "start" && job?.engine === "local" ? "starting" : STAGES[stage] ?? stage);
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function showPart(over) {
  const { progress } = job;
  const bar = $("#bar");
  if (job.mode === "stream") { // which has no end to be so far from
    bar.setAttribute("hidden", "");
    $("#part").textContent = job.stream?.batches ? counted(job.stream.batches, "batch", "batches") : "";
    return;
  }
  const part = job.status === "succeeded" ? 1 : progress?.known ? progress.done / progress.known : 0;
  bar.querySelector(".shared").setAttribute("width", 100 * part);
  bar.setAttribute("aria-valuenow", Math.round(100 * part));
  $("#part").textContent = over || !progress ? "" :
    progress.known === 100 ? `${progress.done} %` : `${number(progress.done)} of ${number(progress.known)} tasks`;
}

const allRows = ({ rows }) => Object.values(rows ?? {}).reduce((a, b) => a + b, 0);

function showNumbers() {
  const facts = [["Engine", [ENGINES[job.engine] ?? job.engine, DEVICES[job.device]].filter(Boolean).join(", ")]];
  if (job.started) {
    const end = job.finished ? new Date(job.finished) : new Date();
    facts.push(["Time", seconds(Math.max(0, (end - new Date(job.started)) / 1000))]);
  }
  const last = { ...measures.at(-1), ...(job.stream && { state: job.stream.state }) };
  const events = job.events ?? last.events;
  if (events !== undefined && events !== null) facts.push(["Events", number(events)]);
  const run = job.seconds?.run ?? job.stream?.seconds ?? last.at;
  if (events && run) facts.push(["Events a second", number(Math.round(events / run))]);
  const rows = job.rows ? allRows(job) : last.rows;
  if (rows !== undefined) facts.push(["Rows", number(rows)]);
  if (last.state) facts.push(["State", bytes(last.state)]);
  if (job.stream?.batches > 1) facts.push(["Time of a batch", `half within ${seconds(job.stream.batch_p50)}, 99 % within ${seconds(job.stream.batch_p99)}`]);
  if (job.stream?.waiting) facts.push(["Waiting for earlier events", counted(job.stream.waiting, "event")]);
  if (job.stream?.late) facts.push(["Too late, kept aside", counted(job.stream.late, "event")]);
  if (job.skipped) facts.push(["Skipped, not readable", counted(job.skipped, "row")]);
  for (const [name, value] of Object.entries(job.options ?? {})) {
    facts.push([sentence(name.replace("_", " ")), typeof value === "number" ? value.toLocaleString("en") : value]);
  }
  if (last.held && !last.state) facts.push(["Held for windows", counted(last.held, "event")]);
  const until = job.stream?.until ?? measures.findLast((each) => (each.until ?? null) !== null)?.until ?? null;
  if (until !== null) facts.push([OVER.includes(job.status) ? "Last watermark" : "Watermark", timeText(until)]);
  for (const [stage, passed] of Object.entries(job.seconds ?? {})) facts.push([PARTS[stage] ?? sentence(stage), seconds(passed)]);
  if (job.stream?.restarts) facts.push(["Restarted", counted(job.stream.restarts, "time")]);
  if (job.files) facts.push(["Written to", job.files.join(", ")]);
  $("#numbers").replaceChildren(...facts.map(([name, value]) =>
    el("div", { class: value.length > 20 ? "long" : null }, el("dt", {}, NAMED[name] ? term(NAMED[name], name) : name), el("dd", {}, value))));
}

const NAMED = { Watermark: "watermark", "Last watermark": "watermark", State: "state" };

/** A time of the stream to the millisecond: `2025-03-01 12:50:26.234 UTC`. */
function timeText(value) {
  if (typeof value === "number") return value.toLocaleString("en");
  return value.replace("T", " ").replace(/(\.\d{3})\d+/, "$1").replace(/(\+00:00|Z)$/, " UTC");
}

function showCharts() {
  if (samples.length > 1 && measures.length < 2) {
    chart("part", "Done", { x: seconds, y: (value) => `${Math.round(value)} %` }).draw([{ hue: 0, points: samples }]);
  }
  if (measures.length < 2) return;
  const speed = measures.map((each, i) => {
    const last = measures[i - 1] ?? { events: 0, at: each.at - each.seconds };
    return [each.at, (each.events - last.events) / Math.max(each.at - last.at, 1e-6)];
  });
  chart("speed", "Throughput, events/s", { x: seconds })
    .draw([{ hue: 0, points: speed }], number(Math.round(speed.at(-1)[1])));
  const latency = measures.map((each) => [each.at, each.seconds]);
  chart("latency", "Latency of a batch", { x: seconds, y: seconds }).draw([{ hue: 1, points: latency }], seconds(latency.at(-1)[1]));
  const inBytes = measures.some((each) => each.state);
  const state = measures.map((each) => [each.at, (inBytes ? each.state : each.held) ?? 0]);
  chart("state", inBytes ? "State" : "State, events held", { x: seconds, y: inBytes ? bytes : number })
    .draw([{ hue: 2, points: state }], (inBytes ? bytes : number)(state.at(-1)[1]));
  const rows = measures.map((each) => [each.at, each.rows ?? 0]);
  chart("rows", "Rows so far", { x: seconds }).draw([{ hue: 3, points: rows }], number(rows.at(-1)[1]));
}

/** Queries that met a limit, where a job says so. */
function showLimits() {
  const said = [
    ...Object.entries(job.stopped ?? {}).map(([query, why]) => `${query} was stopped: ${why}`),
    ...Object.entries(job.dropped ?? {}).map(([query, many]) => `${query} dropped ${counted(many, "partial match", "partial matches")}`),
  ];
  const box = $("#limits");
  box.hidden = !said.length;
  box.textContent = said.join("\n");
}

/** What is odd about the events, and how many rows each query has, also those that have none. */
function showNotes() {
  const notes = job.notes ?? [];
  $("#notes").hidden = !notes.length;
  $("#notes ul").replaceChildren(...notes.map((note) => el("li", {}, note)));
  for (const option of $("#query").options) {
    const rows = job.rows_by_query?.[option.value];
    if (rows !== undefined) option.textContent = `${option.value} · ${counted(rows, "row")}`;
  }
}

function addStep({ time, status, stage, reason }) {
  const when = time ? new Date(time).toLocaleTimeString() : "";
  const words = [status, stage && stage !== status && !DULL.includes(stage) ? stageText(stage) : null, reason].filter(Boolean);
  $("#steps").append(el("li", {}, el("span", { class: "quiet" }, `${when} `), words.join(", ")));
}

// --- what is heard -----------------------------------------------------------------------------

let measuring = null; // what is asked for, which comes once

function measure() {
  measuring ??= readMeasures().finally(() => {
    measuring = null;
  });
  return measuring;
}

async function readMeasures() {
  const found = await get(`/pages/jobs/${id}/measures?after=${from}`);
  from = found.next;
  for (const each of found.measures) {
    // A process that was started again begins its clock afresh: ours goes on.
    if (measures.length && each.at + before < measures.at(-1).at) before = measures.at(-1).at;
    measures.push({ ...each, at: each.at + before });
  }
  if (found.measures.length) showCharts();
}

/** What the operators have counted: as a table, and on the picture. */
async function account(last = false) {
  await operators.refresh(last);
  await running.update(job, operators.found);
}

async function look() {
  job = await get(`/v1/jobs/${id}`);
  show();
}

async function finish() {
  await look();
  await Promise.all([measure(), account(true)]).catch(() => {});
  show();
  await showResults();
}

/** Rows, as soon as there are any: a stream has them while it runs, and when it was cancelled. */
async function showResults() {
  if (results) await results.refresh(job);
  else if (job.status === "succeeded" || (job.mode === "stream" && allRows(job))) {
    results = new Results(job);
    await results.begin();
  }
  if (results) await alerts.refresh();
}

function follow() {
  const begun = performance.now();
  // Rows are read page by page when there are any: a job may have millions.
  const events = new EventSource(`/v1/jobs/${id}/events?rows=false`);
  const timer = setInterval(async () => {
    try {
      await Promise.all([measure(), account()]);
      if (job?.mode === "stream") {
        await look();
        await showResults();
      }
    } catch {
      // the next look may be luckier
    }
    if (job) showNumbers();
  }, LOOK);
  const stop = () => {
    clearInterval(timer);
    events.close();
  };
  events.addEventListener("status", (event) => {
    const data = JSON.parse(event.data);
    addStep(data);
    look().catch((error) => complain($("#problem"), error));
  });
  events.addEventListener("progress", (event) => {
    const progress = JSON.parse(event.data);
    if (job && "batches" in progress) job.stream = progress;
    else if (job) job.progress = progress;
    if (progress.known) samples.push([(performance.now() - begun) / 1000, (100 * progress.done) / progress.known]);
    if (job) showPart(false);
    showCharts();
  });
  events.addEventListener("end", () => {
    stop();
    finish().catch((error) => complain($("#problem"), error));
  });
  events.onerror = () => {
    // The browser tries again by itself, and goes on behind the last event.
    if (events.readyState === EventSource.CLOSED) {
      stop();
      complain($("#problem"), new Error("The connection to the service was lost; load the page again."));
    }
  };
}

$("#cancel").addEventListener("click", async (event) => {
  event.target.disabled = true;
  try {
    await call("POST", `/v1/jobs/${id}/cancel`);
  } catch (error) {
    complain($("#problem"), error);
    event.target.disabled = false;
  }
});

$("#change")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const button = $("button", form);
  button.disabled = true;
  complain($("#problem"), null);
  try {
    const { content } = await call("PATCH", `/v1/jobs/${id}`, { body: { plan: form.elements.plan.value } });
    const said = [["kept", content.kept], ["started anew", content.afresh], ["removed", content.removed]]
      .filter(([, names]) => names?.length).map(([word, names]) => `${word}: ${some(names)}`);
    $("[role=status]", form).textContent = `From the next batch on: ${said.join("; ")}`;
    await look();
  } catch (error) {
    complain($("#problem"), error);
  }
  button.disabled = false;
});

try {
  await look();
  follow(); // also of a job that is over: what happened to it is told again
} catch (error) {
  complain($("#problem"), error);
}
