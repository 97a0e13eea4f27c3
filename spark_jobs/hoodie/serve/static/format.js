// Texts for people. Instants come as wall clock milliseconds of the timeline's own zone, "as if UTC".

// of a Date; files may have any time
const LAST = 8.64e15;
const NUMBER = new Intl.NumberFormat("en-US");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export const number = (value) => (value === null || value === undefined ? "" : NUMBER.format(value));

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  let amount = bytes;
  let unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${bytes} B` : `${amount.toFixed(1)} ${UNITS[unit]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${ms} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const ago = (ms) => (ms === null || ms === undefined ? "" : `${rough(ms)} ago`);

// As duration, in its largest unit
export function rough(ms) {
  for (const [length, unit] of [[86400000, "d"], [3600000, "h"], [60000, "min"]]) {
    if (ms >= (unit === "d" ? 2 : 1) * length) return `${Math.floor(ms / length)} ${unit}`;
  }
  return `${Math.floor(ms / 1000)} s`;
}

export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

// 2026-01-31 18:00:00.123, or the digits of an instant that is no time
export function moment(ms, fallback = "") {
  if (ms === null || ms === undefined || Math.abs(ms) > LAST) return fallback;
  return new Date(ms).toISOString().replace("T", " ").replace("Z", "");
}

export const seconds = (ms, fallback) => moment(ms, fallback).replace(/\.\d+$/, "");

// What an instant is called: a completed compaction stands on the timeline as a commit
export function kind(item) {
  if (item.operation === "cluster") return "clustering";
  if (item.service && item.action === "commit") return "compaction";
  if (item.service && item.action === "deltacommit") return "logcompaction";
  return item.action;
}

export const key = (item) => `${item.instant}/${item.action}`;

export const STATUS = {
  completed: "completed",
  running: "running",
  failed: "failed: its writer is gone; the next write rolls it back",
  scheduled: "scheduled",
  open: "unfinished: no heartbeat tells of a writer",
};

// By what the usual gap between writes is known
export const BASIS = { stated: "as its commits state", intervals: "by the data intervals of its writes", writes: "by the gaps between its writes" };

// Of a commit that no task made
export const OUTSIDE = "outside Airflow";

export function runText(run) {
  if (!run) return "";
  const mapped = run.map_index >= 0 ? ` [${run.map_index}]` : "";
  return `${run.dag_id}.${run.task_id}${mapped}`;
}

export const runLink = (run) => (run?.href ? link(run.href, runText(run)) : runText(run));

const ISO = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::00(?:\.0+)?)?(?:Z|[+-]00:00)?)?$/;

// What a run stands for: 2026-03-09 11:00 to 12:00 of a data interval; other texts as they are
export function interval(run) {
  const text = run?.stands_for ?? "";
  const [from, to] = text.split("/", 2).map((part) => ISO.exec(part));
  if (!from || !to) return text.replace("/", " to ");
  const end = from[1] === to[1] && to[2] ? to[2] : [to[1], to[2]].filter(Boolean).join(" ");
  return `${[from[1], from[2]].filter(Boolean).join(" ")} to ${end}`;
}

// What a rollback took back, with its rows where they are known
export function takenBack(what) {
  if (!what?.instant) return "";
  const named = `took back ${[what.operation || what.action, what.instant].filter(Boolean).join(" ")}`;
  if (what.inserts === undefined) return named;
  const counts = [[what.inserts, "inserted"], [what.updates, "updated"], [what.deletes, "deleted"]].filter(([count]) => count);
  const rows = counts.map(([count, name]) => `${number(count)} ${name}`).join(", ") || "no rows";
  return `${named}: ${rows}${what.planned ? " (planned; it did not end)" : ""}`;
}

// What is made of an item once, as items never change
function once(make) {
  const known = new WeakMap();
  return (item) => {
    if (!known.has(item)) known.set(item, make(item));
    return known.get(item);
  };
}

// All that a search looks through
export const words = once((item) =>
  [item.instant, kind(item), item.action, item.operation, item.state, item.status, seconds(item.start_ms, ""), runText(item.run), item.run?.run_id, interval(item.run),
    item.outside ? OUTSIDE : "", item.taken_back?.instant, runText(item.taken_back?.run), item.writer?.owner, item.archived ? "archived" : ""].filter(Boolean).join(" ").toLowerCase());

// One line for a mark: what is seen, read out
export const sentence = once((item) => {
  const parts = [`${kind(item)} ${seconds(item.start_ms, item.instant)}`, STATUS[item.status]];
  if (item.archived) parts.push("archived");
  if (item.operation && item.operation !== "cluster" && item.operation !== "compact") parts.push(item.operation);
  if (item.num_writes !== undefined && item.service) parts.push(`${plural(item.num_writes, "row")} rewritten`);
  if (item.num_writes !== undefined && !item.service) {
    const counts = [
      [item.num_inserts, "inserted"],
      [item.num_updates, "updated"],
      [item.num_deletes, "deleted"],
    ].filter(([count]) => count);
    parts.push(counts.map(([count, what]) => `${number(count)} ${what}`).join(", ") || "no rows");
    parts.push(plural(item.partitions, "partition"));
  }
  if (item.num_files) parts.push(`${plural(item.num_files, "file")}, ${size(item.bytes_written)}`);
  if (item.status === "completed" && item.duration_ms !== null) parts.push(`took ${duration(item.duration_ms)}`);
  if (item.age_ms) parts.push(`begun ${duration(item.age_ms)} ago`);
  if (item.taken_back) parts.push(takenBack(item.taken_back));
  if (item.run) parts.push(`by ${runText(item.run)}`);
  if (item.run?.stands_for) parts.push(`for ${interval(item.run)}`);
  return parts.join("; ");
});

// DOM -----------------------------------------------------------------------------------------------

// element("a.cls#id", {attributes}, ...children): texts are texts, never markup
export function element(what, attributes = {}, ...children) {
  const [, tag, id, classes] = /^(\w+)(?:#([\w-]+))?((?:\.[\w-]+)*)$/.exec(what);
  const made = document.createElement(tag);
  if (id) made.id = id;
  if (classes) made.className = classes.slice(1).replaceAll(".", " ");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Makes these the children of home, in this order; those that are there already are left alone, as laying many out
// again is what costs
export function arrange(home, wanted) {
  const stay = new Set(wanted);
  for (const child of [...home.children]) if (!stay.has(child)) child.remove();
  let at = home.firstElementChild;
  for (const child of wanted) {
    if (child === at) at = at.nextElementSibling;
    else home.insertBefore(child, at);
  }
}

// A link into Airflow. Inside Airflow's frame, which may not navigate the window, a link of the window does it.
export function link(href, text, attributes = {}) {
  if (!/^(\/(?!\/)|https?:\/\/)/.test(href)) return document.createTextNode(text);
  return element("a", { href, ...attributes, onclick: leave }, text);
}

function leave(event) {
  if (window.parent === window || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  try {
    const outside = window.parent.document.createElement("a");
    outside.href = event.currentTarget.href;
    event.preventDefault();
    window.parent.document.body.append(outside);
    outside.click();
    outside.remove();
  } catch {
    // a frame of another origin: the browser follows the link where it can
  }
}
