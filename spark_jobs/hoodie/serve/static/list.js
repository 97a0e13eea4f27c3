// The table of instants, newest first: what the axis shows, in words and numbers.

import { STATUS, duration, element, key, kind, link, number, runText, seconds, size } from "./format.js";

const HEADS = [
  "Instant", "Action", "State", "Inserted", "Updated", "Deleted", "Duration", "Task", "Written", "Files",
  "Partitions",
];
const NUMBERS = new Set(["Inserted", "Updated", "Deleted", "Partitions", "Files", "Written", "Duration"]);

// Where it says more than the action
const operation = (item) =>
  item.operation && !item.service ? element("span.operation", {}, ` ${item.operation.replaceAll("_", " ")}`) : null;

export class List {
  constructor(home, { chosen }) {
    this.chosen = chosen;
    this.rows = new Map();
    this.selected = null;
    this.body = element("tbody");
    const heads = HEADS.map((head) => element(`th${NUMBERS.has(head) ? ".number" : ""}`, { scope: "col" }, head));
    const caption = element("caption.unseen", {}, "Instants, newest first");
    home.replaceChildren(element("table.list", {}, caption, element("thead", {}, element("tr", {}, ...heads)), this.body));
    this.body.addEventListener("keydown", (event) => this.#pressed(event));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !event.target.closest("a")) this.chosen(this.rows.get(row.dataset.key).item);
    });
  }

  // items: oldest first
  show(items) {
    this.rows = new Map();
    for (const item of [...items].reverse()) this.rows.set(key(item), { item, row: this.#row(item) });
    this.body.replaceChildren(...[...this.rows.values()].map(({ row }) => row));
    this.select(this.selected);
  }

  // One row is in the order of the tab key; the arrow keys go to the others
  select(id) {
    this.selected = id;
    const inOrder = this.rows.has(id) ? id : this.rows.keys().next().value;
    for (const [name, { row }] of this.rows) {
      if (name === id) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
      this.#reachable(row, name === inOrder);
    }
    const home = this.body.closest(".scroll");
    const row = this.rows.get(id)?.row;
    if (!row || !home) return;
    const top = row.offsetTop - row.offsetHeight;
    if (top < home.scrollTop) home.scrollTop = top;
    else if (row.offsetTop + row.offsetHeight > home.scrollTop + home.clientHeight) {
      home.scrollTop = row.offsetTop + row.offsetHeight - home.clientHeight;
    }
  }

  #reachable(row, yes) {
    for (const part of row.querySelectorAll("button, a")) part.tabIndex = yes ? 0 : -1;
  }

  #row(item) {
    const rowsCount = (count) => (item.service ? "" : number(count));
    const cells = [
      element("button.instant", { type: "button", title: item.instant }, seconds(item.start_ms, item.instant)),
      element("span", {}, element(`span.dot.${kind(item)}`, { "aria-hidden": "true" }), kind(item), operation(item) ?? ""),
      element(`span.state.${item.status}`, { title: STATUS[item.status] }, item.archived ? "archived" : item.status),
      rowsCount(item.num_inserts),
      rowsCount(item.num_updates),
      rowsCount(item.num_deletes),
      duration(item.duration_ms),
      item.run?.href ? link(item.run.href, runText(item.run)) : runText(item.run),
      size(item.bytes_written),
      number(item.num_files),
      number(item.partitions),
    ];
    return element(
      "tr", { "data-key": key(item) },
      ...cells.map((cell, place) => element(`td${NUMBERS.has(HEADS[place]) ? ".number" : ""}`, {}, cell)),
    );
  }

  #pressed(event) {
    const row = event.target.closest("tr");
    const next = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key];
    if (!next) return;
    event.preventDefault();
    this.#reachable(row, false);
    this.#reachable(next, true);
    next.querySelector("button").focus();
  }
}
