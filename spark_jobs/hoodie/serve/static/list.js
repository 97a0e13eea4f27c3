// The table of instants, newest first: what the axis shows, in words and numbers.

import { STATUS, arrange, duration, element, interval, key, kind, number, runLink, seconds, size, takenBack } from "./format.js";

const rowsOf = (name) => (item) => {
  if (item.service) return "";
  const undone = item.taken_back?.[name];
  if (undone === undefined) return number(item[`num_${name}`]);
  return undone ? element("span.undone", { title: takenBack(item.taken_back) }, `(${number(undone)})`) : "";
};

// Where it says more than the action
function operation(item) {
  if (item.taken_back) return element("span.operation", {}, ` of ${item.taken_back.instant}`);
  return item.operation && !item.service ? element("span.operation", {}, ` ${item.operation.replaceAll("_", " ")}`) : "";
}

const stateOf = (item) => element(`span.state.${item.status}`, { title: STATUS[item.status] }, item.archived ? "archived" : item.status);

// On a narrow screen rows are one column: +inserted ~updated −deleted
function changes(item) {
  if (item.service) return "";
  const counts = item.taken_back ?? { inserts: item.num_inserts, updates: item.num_updates, deletes: item.num_deletes };
  const text = [["+", counts.inserts], ["~", counts.updates], ["−", counts.deletes]].filter(([, count]) => count).map(([sign, count]) => sign + number(count)).join(" ");
  return item.taken_back ? element("span.undone", { title: takenBack(item.taken_back) }, text && `(${text})`) : text;
}

const COLUMNS = {
  Instant: (item) => element("button.instant", { type: "button", title: item.instant }, seconds(item.start_ms, item.instant)),
  Action: (item) => element("span", {}, element(`span.dot.${kind(item)}`, { "aria-hidden": "true" }), kind(item), operation(item)),
  State: stateOf,
  Rows: changes,
  Inserted: rowsOf("inserts"),
  Updated: rowsOf("updates"),
  Deleted: rowsOf("deletes"),
  Duration: (item) => duration(item.duration_ms),
  Interval: (item) => interval(item.run ?? item.taken_back?.run),
  Task: (item) => runLink(item.run ?? item.taken_back?.run),
  Written: (item) => size(item.bytes_written),
  Files: (item) => number(item.num_files),
  Partitions: (item) => number(item.partitions),
};
const WIDE = ["Instant", "Action", "State", "Inserted", "Updated", "Deleted", "Duration", "Interval", "Task", "Written", "Files", "Partitions"];
const NARROW = ["State", "Rows", "Instant", "Action", "Duration", "Interval", "Task", "Written", "Files", "Partitions"];
const NUMBERS = new Set(["Inserted", "Updated", "Deleted", "Partitions", "Files", "Written", "Duration"]);

export class List {
  constructor(home, { chosen }) {
    this.home = home;
    this.chosen = chosen;
    this.rows = new Map();
    this.items = [];
    this.selected = null;
    this.head = element("thead");
    this.body = element("tbody");
    const caption = element("caption.unseen", {}, "Instants, newest first");
    home.replaceChildren(element("table.list", {}, caption, this.head, this.body));
    this.narrow = window.matchMedia("(max-width: 640px)");
    this.narrow.addEventListener("change", () => this.show(this.items));
    this.body.addEventListener("keydown", (event) => this.#pressed(event));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !event.target.closest("a")) this.chosen(this.rows.get(row.dataset.key).item);
    });
  }

  // items: oldest first. keep: what is seen stays where it is, and so does the focus
  show(items, { keep = false } = {}) {
    const seen = keep ? this.#seen() : null;
    const focused = keep ? this.#focused() : null;
    this.items = items;
    const before = this.rows;
    this.rows = new Map();
    const used = (this.narrow.matches ? NARROW : WIDE).filter((name) => name !== "Interval" || items.some((item) => item.run?.stands_for));
    this.head.replaceChildren(element("tr", {}, ...used.map((name) => element(`th${NUMBERS.has(name) ? ".number" : ""}`, { scope: "col" }, name))));
    for (const item of [...items].reverse()) {
      const said = JSON.stringify([item, used]);
      const same = before.get(key(item))?.said === said;
      this.rows.set(key(item), { item, said, row: same ? before.get(key(item)).row : row(item, used) });
    }
    arrange(this.body, [...this.rows.values()].map((shown) => shown.row));
    this.select(this.selected, { reveal: !keep });
    if (seen) this.home.scrollTop += (this.rows.get(seen.id)?.row.offsetTop ?? seen.top) - seen.top;
    if (focused && !this.#focused()) this.rows.get(focused.id)?.row.querySelector(focused.tag)?.focus({ preventScroll: true });
  }

  // The first row in sight, unless it is the first of all
  #seen() {
    const top = this.home.scrollTop;
    if (!top) return null;
    const first = [...this.rows].find(([, shown]) => shown.row.offsetTop + shown.row.offsetHeight > top + this.head.offsetHeight);
    return first ? { id: first[0], top: first[1].row.offsetTop } : null;
  }

  #focused() {
    const part = document.activeElement;
    return this.body.contains(part) ? { id: part.closest("tr").dataset.key, tag: part.tagName } : null;
  }

  // One row is in the order of the tab key; the arrow keys go to the others
  select(id, { reveal = true } = {}) {
    this.selected = id;
    const inOrder = this.rows.has(id) ? id : this.rows.keys().next().value;
    for (const [name, shown] of this.rows) {
      if (name === id) shown.row.setAttribute("aria-current", "true");
      else shown.row.removeAttribute("aria-current");
      this.#reachable(shown.row, name === inOrder);
    }
    const { home } = this;
    const found = this.rows.get(id)?.row;
    if (!found || !reveal) return;
    const top = found.offsetTop - found.offsetHeight;
    if (top < home.scrollTop) home.scrollTop = top;
    else if (found.offsetTop + found.offsetHeight > home.scrollTop + home.clientHeight) {
      home.scrollTop = found.offsetTop + found.offsetHeight - home.clientHeight;
    }
  }

  #reachable(found, yes) {
    for (const part of found.querySelectorAll("button, a")) part.tabIndex = yes ? 0 : -1;
  }

  #pressed(event) {
    const from = event.target.closest("tr");
    const next = { ArrowDown: from?.nextElementSibling, ArrowUp: from?.previousElementSibling }[event.key];
    if (!next) return;
    event.preventDefault();
    this.#reachable(from, false);
    this.#reachable(next, true);
    next.querySelector("button").focus();
  }
}

const row = (item, used) =>
  element("tr", { "data-key": key(item) }, ...used.map((name) => element(`td${NUMBERS.has(name) ? ".number" : ""}`, {}, COLUMNS[name](item))));
