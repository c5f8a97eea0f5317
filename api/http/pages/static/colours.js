// Colours of a workload's text, drawn behind a text area whose own letters are not seen. Only the
// lines in view are drawn.

import { el } from "./dom.js";

const SPARE = 10; // lines beyond what is seen

// The words of queries have theirs from the language's grammar, by the first part of its scopes.
const CLASSES = {
  "comment": "comment", "string": "string", "constant": "number", "support": "function",
  "keyword.control": "clause", "keyword.other": "word", "keyword.operator": "sign",
  "variable.other.member": "member", "variable.other.quoted": "member",
};
const OF_YAML = [
  ["comment", String.raw`(?<=^|\s)#.*$`],
  ["string", String.raw`"(?:\\.|[^"\\])*"|'(?:''|[^'])*'`],
  ["key", String.raw`[\w.-]+(?=:(?:\s|$))`],
  ["number", String.raw`(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.-])`],
];
const BLOCK = /^((?:\s*- )?\s*(?:(?:sql|eql|query):\s)?)\s*[|>][-+0-9]*\s*(?:#.*)?$/;
const PLAIN = /^\s*- +(?:(?:sql|eql|query): +)?['"]?(?:QUERY|FUNNEL|SELECT|WITH|sequence)\b/i;

/** A function that draws a text's lines from a first to a last into a node. */
export function colouring(grammar) {
  const ofQueries = expression(grammar.map(({ name, match }) => [classOf(name), match.replace("(?i)", "")]));
  const ofYaml = expression(OF_YAML);
  return (node, lines, inQuery, from, to) => {
    const drawn = [];
    for (let n = Math.max(0, from - SPARE); n < Math.min(lines.length, to + SPARE); n += 1) {
      drawn.push(...spans(lines[n], inQuery[n] ? ofQueries : ofYaml), "\n");
    }
    node.replaceChildren(...drawn);
    return Math.max(0, from - SPARE);
  };
}

/** For each line, whether it is of a query: in a block of YAML, or in a list's plain text. */
export function linesOfQueries(lines) {
  let depth = null; // of what the query belongs to
  return lines.map((line) => {
    const indent = line.search(/\S/);
    if (depth !== null && (indent < 0 || indent > depth)) return true;
    depth = null;
    const block = BLOCK.exec(line);
    if (block && /[-:]\s*$/.test(block[1])) {
      depth = indent + (/^\s*- +\w/.test(line) ? line.slice(indent).search(/\w/) : 0);
    } else if (PLAIN.test(line)) {
      depth = indent;
      return true;
    }
    return false;
  });
}

function classOf(scope) {
  return Object.entries(CLASSES).find(([begun]) => scope.startsWith(begun))?.[1] ?? "";
}

function expression(patterns) {
  return {
    classes: patterns.map(([name]) => name),
    any: new RegExp(patterns.map(([, match]) => `(${match})`).join("|"), "gi"),
  };
}

function spans(line, { classes, any }) {
  const found = [];
  let done = 0;
  for (const match of line.matchAll(any)) {
    if (!match[0]) continue;
    if (match.index > done) found.push(line.slice(done, match.index));
    const which = match.slice(1).findIndex((group) => group !== undefined);
    found.push(el("span", { class: classes[which] }, match[0]));
    done = match.index + match[0].length;
  }
  found.push(line.slice(done));
  return found;
}
