// The panel of one instant.

import { OUTSIDE, STATUS, duration, element, interval, kind, moment, number, runLink, size, takenBack } from "./format.js";

const FIRST = 12;

// closed(): the pane is to go
export function details(item, closed) {
  const heading = element("h2", { tabindex: "-1" }, `${kind(item)} ${item.instant}`);
  const close = element("button.close", { type: "button", "aria-label": "Close the details", onclick: closed }, "×");
  const parts = [heading, close, element("dl.facts", {}, ...facts(item))];
  if (item.problem) parts.push(element("p.problem", {}, item.problem));
  const planned = item.planned ? " (planned)" : "";
  if (item.partition_rows.length) parts.push(partitions(item, planned));
  if (item.validations.length) parts.push(validations(item.validations));
  if (item.files.length) parts.push(files(item));
  const extra = Object.entries(item.extra_metadata).filter(([, text]) => text !== "");
  if (extra.length) {
    parts.push(element("h3", {}, "Extra metadata"), element("dl.facts", {}, ...extra.flatMap(([name, text]) => fact(name, text))));
  }
  if (item.schema) parts.push(folded("Schema", element("pre", {}, pretty(item.schema))));
  if (item.timeline_files.length) {
    const rows = item.timeline_files.map((file) => [file.name, size(file.size), `${moment(file.changed_ms)} UTC`]);
    parts.push(folded("Files on the timeline", grid(["file", "size", "changed"], rows, [1])));
  }
  return { parts, heading };
}

function facts(item) {
  const found = [];
  const add = (name, value) => value && found.push(...fact(name, value));
  add("state", item.state);
  if (item.status !== item.state) add("status", STATUS[item.status]);
  if (item.action !== kind(item)) add("on the timeline", item.action);
  add("operation", item.operation);
  add("begun", moment(item.start_ms, item.instant));
  if (item.waited_ms) add("waited", duration(item.waited_ms));
  if (item.status === "completed") {
    const unknown = item.archived ? "" : "not known: its files do not have the times of the write";
    add("duration", duration(item.duration_ms) || unknown);
  } else add("age", duration(item.age_ms));
  if (item.writer) add("writer", `${item.writer.owner}, silent for ${duration(item.writer.silent_ms)}`);
  if (item.run) {
    add("task", runLink(item.run));
    add("run", item.run.run_id);
    add("stands for", interval(item.run));
  }
  if (item.outside) add("task", OUTSIDE);
  if (item.taken_back) {
    add("undone", takenBack(item.taken_back));
    add("of task", runLink(item.taken_back.run));
    add("of run", item.taken_back.run?.run_id);
    add("that stood for", interval(item.taken_back.run));
  }
  if (item.num_writes !== undefined) {
    if (!item.service) {
      add("rows", `${number(item.num_inserts)} inserted, ${number(item.num_updates)} updated, ${number(item.num_deletes)} deleted`);
    }
    add("in its files", `${number(item.num_writes)} rows, ${number(item.num_files)} files, ${size(item.bytes_written)} written`);
  }
  for (const [name, text] of item.facts) add(name, text);
  return found;
}

const fact = (name, value) => [element("dt", {}, name), element("dd", {}, value)];

const COLUMNS = [
  ["inserts", "inserted"], ["updates", "updated"], ["deletes", "deleted"], ["rows", "rows in files"],
  ["files", "files"], ["bytes", "written"], ["replaced", "replaced"], ["deleted", "files deleted"],
  ["failed", "not deleted"], ["slices", "file slices"], ["logs", "log files"],
];

function partitions(item, planned) {
  const used = COLUMNS.filter(([name]) => item.partition_rows.some((row) => row[name]));
  const rows = item.partition_rows.map((row) => [
    row.partition || "(no partition)",
    ...used.map(([name]) => (name === "bytes" ? size(row[name]) : number(row[name]))),
  ]);
  const heads = ["partition", ...used.map(([, head]) => head)];
  const places = used.map((_, place) => place + 1);
  return table(`Partitions${planned}`, item.partitions_total, heads, rows, places);
}

function validations(found) {
  const rows = found.map((one) => [one.validator, one.query, one.passed ? "passed" : "failed", one.expected, one.found]);
  return table("Validators", found.length, ["validator", "query", "", "expected", "found"], rows, []);
}

function files(item) {
  const largest = Math.max(1, ...item.files.map((file) => file.size));
  const rows = item.files.map((file) => [
    named(file), file.kind, number(file.rows), bar(file.size, largest), size(file.size), file.previous ?? "new",
  ]);
  return table("Files", item.files_total, ["file", "kind", "rows", "", "size", "before"], rows, [2, 4]);
}

const named = (file) =>
  element("span.file", { title: `${file.partition ? `${file.partition}/` : ""}${file.name}` }, file.name);

function bar(value, largest) {
  const made = element("span.bar", { "aria-hidden": "true" });
  made.style.width = `${Math.max(2, Math.round((48 * value) / largest))}px`;
  return made;
}

// A table with its first rows, and a button for the others
function table(title, total, heads, rows, numbers) {
  const shown = grid(heads, rows.slice(0, FIRST), numbers);
  const parts = [element("h3", {}, `${title}: ${number(total)}`), element("div.scroll", {}, shown)];
  if (rows.length > FIRST) {
    const more = element("button", { type: "button" }, `Show ${number(rows.length)}`);
    more.addEventListener("click", () => {
      shown.replaceWith(grid(heads, rows, numbers));
      more.remove();
    });
    parts.push(more);
  }
  if (rows.length < total) parts.push(element("p.hint", {}, `The first ${number(rows.length)} are listed.`));
  return element("div", {}, ...parts);
}

export function grid(heads, rows, numbers = []) {
  const cell = (tag) => (value, place) =>
    element(`${tag}${numbers.includes(place) ? ".number" : ""}`, tag === "th" ? { scope: "col" } : {}, value);
  return element(
    "table", {},
    element("thead", {}, element("tr", {}, ...heads.map(cell("th")))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td"))))),
  );
}

const folded = (title, content) => element("details", {}, element("summary", {}, title), element("div.scroll", {}, content));

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
