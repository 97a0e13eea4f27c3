// The table of instants, newest first: what the axis shows, in words and numbers.

import { OUTSIDE, STATUS, arrange, duration, element, interval, key, kind, number, runLink, seconds, size, takenBack } from "./format.js";

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
  Task: (item) => (item.outside ? element("span.hint", {}, OUTSIDE) : runLink(item.run ?? item.taken_back?.run)),
  Written: (item) => size(item.bytes_written),
  Files: (item) => number(item.num_files),
  Partitions: (item) => number(item.partitions),
};
const WIDE = ["Instant", "Action", "State", "Inserted", "Updated", "Deleted", "Duration", "Interval", "Task", "Written", "Files", "Partitions"];
const NARROW = ["State", "Rows", "Instant", "Action", "Duration", "Interval", "Task", "Written", "Files", "Partitions"];
const NUMBERS = new Set(["Inserted", "Updated", "Deleted", "Partitions", "Files", "Written", "Duration"]);

// So many rows are drawn all at once; of more, those in sight, and some beyond each edge
const FEW = 100;
const BEYOND = 25;

export class List {
  constructor(home, { chosen }) {
    this.home = home;
    this.chosen = chosen;
    this.items = [];
    this.places = new Map();
    this.rows = new Map();
    this.drawn = [0, 0];
    this.height = 27;
    this.selected = null;
    this.inOrder = null;
    this.head = element("thead");
    this.body = element("tbody");
    const caption = element("caption.unseen", {}, "Instants, newest first");
    this.table = element("table.list", {}, caption, this.head, this.body);
    home.replaceChildren(this.table);
    this.narrow = window.matchMedia("(max-width: 640px)");
    this.narrow.addEventListener("change", () => this.show([...this.items].reverse()));
    this.body.addEventListener("keydown", (event) => this.#pressed(event));
    this.body.addEventListener("click", (event) => {
      const id = event.target.closest("tr")?.dataset.key;
      if (id && !event.target.closest("a")) this.chosen(this.items[this.places.get(id)]);
    });
    home.addEventListener("scroll", () => this.#moved(), { passive: true });
    new ResizeObserver(() => this.#moved()).observe(home);
  }

  // items: oldest first. keep: what is seen stays where it is, and so does the focus
  show(items, { keep = false } = {}) {
    const seen = keep ? this.#seen() : null;
    const focused = keep ? this.#focused() : null;
    this.items = [...items].reverse();
    this.places = new Map(this.items.map((item, place) => [key(item), place]));
    const used = (this.narrow.matches ? NARROW : WIDE).filter((name) => name !== "Interval" || items.some((item) => item.run?.stands_for));
    if (!keep || used.join() !== this.used?.join()) {
      this.head.replaceChildren(element("tr", { "aria-rowindex": 1 }, ...used.map((name) => element(`th${NUMBERS.has(name) ? ".number" : ""}`, { scope: "col" }, name))));
    }
    this.used = used;
    this.table.setAttribute("aria-rowcount", items.length + 1);
    this.#order();
    const place = this.places.get(seen?.id);
    this.#draw(place === undefined ? this.home.scrollTop : this.#top(place) + seen.below);
    if (place !== undefined) this.home.scrollTop = this.rows.get(seen.id).row.offsetTop + seen.below;
    if (focused && !this.#focused()) this.rows.get(focused.id)?.row.querySelector(focused.tag)?.focus({ preventScroll: true });
  }

  // One row is in the order of the tab key; the arrow keys go to the others
  select(id, { reveal = true } = {}) {
    this.selected = id;
    this.inOrder = id;
    this.#order();
    this.#draw(this.home.scrollTop);
    const { home } = this;
    const found = this.rows.get(id)?.row;
    if (!found || !reveal) return;
    const top = found.offsetTop - found.offsetHeight;
    if (top < home.scrollTop) home.scrollTop = top;
    else if (found.offsetTop + found.offsetHeight > home.scrollTop + home.clientHeight) {
      home.scrollTop = found.offsetTop + found.offsetHeight - home.clientHeight;
    }
  }

  #order() {
    if (this.places.has(this.inOrder)) return;
    const first = this.places.has(this.selected) ? this.selected : this.places.keys().next().value;
    this.inOrder = first ?? null;
  }

  // Where a row begins, if all are of one height
  #top(place) {
    return this.head.offsetHeight + place * this.height;
  }

  // The places of the rows in sight below the head, which stays: from, to
  #inSight(top) {
    const count = this.items.length;
    const first = Math.floor(Math.min(top / this.height, count - 1));
    return [Math.max(0, first), Math.min(count, Math.ceil((top + this.home.clientHeight) / this.height))];
  }

  #moved() {
    const [from, to] = this.#inSight(this.home.scrollTop);
    if (from < this.drawn[0] || to > this.drawn[1]) this.#draw(this.home.scrollTop);
  }

  // Draws what is seen when the list is scrolled to top; a row that has the focus, or that Tab leads to, is always there
  #draw(top) {
    const count = this.items.length;
    const [from, to] = this.#inSight(top);
    this.drawn = count > FEW ? [Math.max(0, from - BEYOND), Math.min(count, to + BEYOND)] : [0, count];
    const places = new Set([this.places.get(this.inOrder), this.places.get(this.#focused()?.id)]);
    places.delete(undefined);
    for (let place = this.drawn[0]; place < this.drawn[1]; place += 1) places.add(place);
    const before = this.rows;
    this.rows = new Map();
    const wanted = [];
    let next = 0;
    for (const place of [...places].sort((one, other) => one - other)) {
      if (place > next) wanted.push(this.#gap(place - next));
      wanted.push(this.#row(place, before));
      next = place + 1;
    }
    if (next < count) wanted.push(this.#gap(count - next));
    arrange(this.body, wanted);
    if (count > FEW) this.#fit();
  }

  #row(place, before) {
    const item = this.items[place];
    const id = key(item);
    const said = JSON.stringify([item, this.used]);
    const known = before.get(id);
    const made = known?.said === said ? known.row : row(item, this.used);
    this.rows.set(id, { said, row: made });
    made.setAttribute("aria-rowindex", place + 2);
    if (id === this.selected) made.setAttribute("aria-current", "true");
    else made.removeAttribute("aria-current");
    for (const part of made.querySelectorAll("button, a")) part.tabIndex = id === this.inOrder ? 0 : -1;
    return made;
  }

  // The room of rows that are not drawn
  #gap(count) {
    const room = element("td", { colspan: this.used.length });
    room.style.height = `${count * this.height}px`;
    return element("tr.gap", { "aria-hidden": "true" }, room);
  }

  // Columns become no narrower when rows go out of sight, and rooms are those of rows as they are
  #fit() {
    const cells = [...this.head.rows[0].cells];
    if (this.across !== window.innerWidth) for (const cell of cells) cell.style.minWidth = "";
    this.across = window.innerWidth;
    const widths = cells.map((cell) => cell.getBoundingClientRect().width);
    const { height } = this.body.querySelector("[data-key]").getBoundingClientRect();
    cells.forEach((cell, at) => {
      if (widths[at] > parseFloat(cell.style.minWidth || 0)) cell.style.minWidth = `${widths[at]}px`;
    });
    if (!height || Math.abs(height - this.height) < 0.01) return;
    for (const room of this.body.querySelectorAll(".gap td")) room.style.height = `${(parseFloat(room.style.height) * height) / this.height}px`;
    this.height = height;
  }

  // The first row in sight, unless it is the first of all, and how far down it the list is scrolled
  #seen() {
    const top = this.home.scrollTop;
    if (!top || !this.items.length) return null;
    const [place] = this.#inSight(top);
    const id = key(this.items[place]);
    return { id, below: top - (this.rows.get(id)?.row.offsetTop ?? this.#top(place)) };
  }

  #focused() {
    const part = document.activeElement;
    return this.body.contains(part) ? { id: part.closest("tr").dataset.key, tag: part.tagName } : null;
  }

  #pressed(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = this.items[this.places.get(event.target.closest("tr")?.dataset.key) + step];
    if (!next) return;
    event.preventDefault();
    this.inOrder = key(next);
    this.#draw(this.home.scrollTop);
    this.rows.get(this.inOrder).row.querySelector("button").focus();
  }
}

const row = (item, used) =>
  element("tr", { "data-key": key(item) }, ...used.map((name) => element(`td${NUMBERS.has(name) ? ".number" : ""}`, {}, COLUMNS[name](item))));
