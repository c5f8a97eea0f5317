// The conflict graph: candidates that exclude each other, pushed apart until they can be told.

import { cost, counted, el, some, svg, unquoted } from "./dom.js";
import { hideTip, showTip, showTipBeside } from "./tip.js";

const MOST = 60; // that are drawn: the chosen ones first, then those with the most to say
const ROUNDS = 260;
const WIDTH = 1000;
const HEIGHT = 460;
const LETTER = 6.8; // the width of a letter in a label
const LABELLED = 14; // up to so many, all are; of more, the chosen ones

export function showConflicts(box, plan, chosen) {
  const inConflict = plan.candidates.filter((c) => c.conflicts.length);
  if (!inConflict.length) {
    const said = plan.candidates.length ? "No candidate excludes another." : "There are no candidates.";
    box.replaceChildren(el("p", { class: "loading" }, said));
    return;
  }
  const nodes = [...inConflict]
    .sort((a, b) => chosen.has(b.id) - chosen.has(a.id) || b.benefit - a.benefit || b.conflicts.length - a.conflicts.length)
    .slice(0, MOST)
    .map((candidate) => ({ candidate, x: 0, y: 0 }));
  const byId = new Map(nodes.map((node) => [node.candidate.id, node]));
  const links = [];
  for (const node of nodes) {
    for (const other of node.candidate.conflicts) {
      if (byId.has(other) && node.candidate.id < other) links.push([node, byId.get(other)]);
    }
  }
  settle(nodes, links);
  box.replaceChildren(drawing(nodes, links, plan, chosen), legend(inConflict.length, nodes.length));
}

/** Places for all, the same each time: nodes repel each other, conflicts pull. */
function settle(nodes, links) {
  nodes.forEach((node, i) => {
    const turn = (2 * Math.PI * i) / nodes.length;
    node.x = Math.cos(turn);
    node.y = Math.sin(turn);
  });
  const length = 2.2 / Math.sqrt(nodes.length);
  for (let round = 0; round < ROUNDS; round += 1) {
    const heat = 0.12 * (1 - round / ROUNDS);
    for (const node of nodes) node.dx = node.dy = 0;
    for (let i = 0; i < nodes.length; i += 1) {
      for (let j = i + 1; j < nodes.length; j += 1) {
        push(nodes[i], nodes[j], (far) => (length * length) / far);
      }
    }
    for (const [a, b] of links) push(a, b, (far) => (-far * far) / length / 2);
    for (const node of nodes) {
      node.dx -= node.x * 0.25; // what hangs on nothing stays in sight
      node.dy -= node.y * 0.25;
      const far = Math.hypot(node.dx, node.dy) || 1;
      node.x += (node.dx / far) * Math.min(far, heat);
      node.y += (node.dy / far) * Math.min(far, heat);
    }
  }
  for (const [axis, size, margin] of [["x", WIDTH, 110], ["y", HEIGHT, 36]]) {
    const values = nodes.map((node) => node[axis]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const wide = high - low || 1;
    for (const node of nodes) node[axis] = nodes.length === 1 ? size / 2 : margin + ((node[axis] - low) / wide) * (size - 2 * margin);
  }
}

function push(a, b, force) {
  const [dx, dy] = [a.x - b.x, a.y - b.y];
  const far = Math.max(Math.hypot(dx, dy), 0.01);
  const by = force(far) / far;
  a.dx += dx * by;
  a.dy += dy * by;
  b.dx -= dx * by;
  b.dy -= dy * by;
}

function drawing(nodes, links, plan, chosen) {
  const most = Math.max(...nodes.map((node) => Math.abs(node.candidate.benefit))) || 1;
  const root = svg("svg", {
    class: "conflict", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group",
    "aria-label": `${counted(nodes.length, "candidate")}, ${counted(links.length, "conflict")}`,
  });
  for (const link of links) {
    const [a, b] = link;
    link.line = svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y });
    root.append(link.line);
  }
  const taken = nodes.map(({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 }));
  nodes.forEach((node, i) => {
    const { candidate } = node;
    const about = [
      unquoted(candidate.pattern.join(" → ")),
      `${counted(candidate.queries.length, "query", "queries")}: ${some(candidate.queries)}`,
      `saves ${cost(candidate.benefit, plan.cost.unit)}; excludes ${candidate.conflicting ?? candidate.conflicts.length}`,
      candidate.why,
    ].join("\n");
    const radius = 5 + 9 * Math.sqrt(Math.abs(candidate.benefit) / most);
    const isChosen = chosen.has(candidate.id);
    node.group = svg("g", { class: isChosen ? "chosen" : null, tabindex: i ? "-1" : "0", role: "img", "aria-label": about },
      svg("circle", { cx: node.x, cy: node.y, r: radius }),
      nodes.length <= LABELLED || isChosen ? label(node, radius, taken) : null);
    const light = (on) => {
      root.classList.toggle("lit", on);
      root.querySelectorAll(".on").forEach((each) => each.classList.remove("on"));
      if (!on) return;
      node.group.classList.add("on");
      for (const { line, 0: a, 1: b } of links) {
        if (a !== node && b !== node) continue;
        line.classList.add("on");
        (a === node ? b : a).group.classList.add("on");
      }
    };
    node.group.addEventListener("pointerenter", () => light(true));
    node.group.addEventListener("pointermove", (event) => showTip(about, event.clientX, event.clientY));
    node.group.addEventListener("pointerleave", () => { light(false); hideTip(); });
    node.group.addEventListener("focus", () => {
      if (!node.group.matches(":focus-visible")) return;
      light(true);
      showTipBeside(about, node.group);
    });
    node.group.addEventListener("blur", () => { light(false); hideTip(); });
    node.group.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const next = nodes[(i + by + nodes.length) % nodes.length].group;
      node.group.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
    root.append(node.group);
  });
  for (const { group } of nodes.filter(({ candidate }) => chosen.has(candidate.id))) root.append(group); // on top
  return root;
}

/** A candidate's pattern beside its circle, where no other label or circle is; null where there is no room. */
function label({ x, y, candidate }, radius, taken) {
  const words = short(unquoted(candidate.pattern.join("→")));
  const wide = words.length * LETTER;
  const spots = [
    { x, y: y + radius + 12, anchor: "middle", left: x - wide / 2 },
    { x, y: y - radius - 5, anchor: "middle", left: x - wide / 2 },
    { x: x + radius + 5, y: y + 4, anchor: "start", left: x + radius + 5 },
    { x: x - radius - 5, y: y + 4, anchor: "end", left: x - radius - 5 - wide },
  ];
  for (const spot of spots) {
    const box = { left: spot.left, right: spot.left + wide, top: spot.y - 10, bottom: spot.y + 3 };
    const isOutside = box.left < 0 || box.right > WIDTH || box.top < 0 || box.bottom > HEIGHT;
    const isTaken = taken.some((each) =>
      box.left < each.right && each.left < box.right && box.top < each.bottom && each.top < box.bottom);
    if (isOutside || isTaken) continue;
    taken.push(box);
    return svg("text", { x: spot.x, y: spot.y, "text-anchor": spot.anchor }, words);
  }
  return null;
}

const short = (text) => (text.length > 30 ? `${text.slice(0, 29)}…` : text);

function legend(all, drawn) {
  return el("div", { class: "legend" },
    el("span", {}, el("i", { class: "chosen" }), "chosen"),
    el("span", {}, el("i"), "not chosen"),
    el("span", {}, "the larger, the more it would save or cost"),
    all > drawn ? el("span", {}, `${drawn} of ${counted(all, "candidate")} with conflicts are drawn`) : null);
}
