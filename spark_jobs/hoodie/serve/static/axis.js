// The axis: a listbox whose options are marks, in lanes by action, over time or in order.

import { arrange, element, key, kind, seconds, sentence } from "./format.js";

const LANES = [
  "commit", "deltacommit", "replacecommit", "compaction", "logcompaction", "clustering", "clean", "indexing",
  "savepoint", "rollback", "restore",
];
const STEPS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
  1209600, 2592000, 7776000, 31536000,
];
const EDGE = 24;
const TICK_GAP = 135;
const ORDER_STEP = 18;
const SLIM = 8;
// a count needs so much room
const COUNT_GAP = 28;
const GLYPHS = { failed: "!", open: "?" };

export class Axis {
  // chosen(item): a mark was opened; looked(text): what the pointer or the focus is on, "" for nothing
  constructor(home, { chosen, looked }) {
    this.chosen = chosen;
    this.looked = looked;
    this.items = [];
    this.marks = new Map();
    this.byTime = true;
    this.zoom = 1;
    this.active = null;
    this.selected = null;
    this.names = element("div.names", { "aria-hidden": "true" });
    this.lanes = element("div.lanes", { role: "listbox", "aria-label": "Instants", "aria-orientation": "horizontal" });
    this.ticks = element("div.ticks", { "aria-hidden": "true" });
    this.plot = element("div.plot", {}, this.lanes, this.ticks);
    home.replaceChildren(element("div.axis", {}, this.names, this.plot));
    this.lanes.addEventListener("keydown", (event) => this.#pressed(event));
    this.lanes.addEventListener("click", (event) => this.#clicked(event));
    for (const name of ["focusin", "pointerover"]) this.lanes.addEventListener(name, (event) => this.#look(event));
    this.lanes.addEventListener("pointerleave", () => this.#lookAt(this.active));
    this.#measure();
    new ResizeObserver(() => {
      this.#measure();
      this.#place();
    }).observe(this.plot);
  }

  // items: oldest first. atEnd: show the newest. keep: what is seen stays where it is, and so does the focus.
  show(items, { atEnd = true, keep = false } = {}) {
    this.#measure();
    const seen = keep ? this.#seen() : null;
    const focused = keep && this.lanes.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.items = items;
    this.most = Math.max(1, ...items.map((item) => item.num_writes ?? 0));
    const kinds = new Set(items.map(kind));
    const shown = LANES.filter((lane) => kinds.has(lane));
    this.order = new Map(items.map((item, place) => [key(item), place]));
    const before = this.marks;
    this.marks = new Map();
    this.byLane = new Map(shown.map((lane) => [lane, items.filter((item) => kind(item) === lane)]));
    arrange(this.lanes, shown.map((lane) => this.#lane(lane, before)));
    this.names.replaceChildren(...shown.map((lane) => element("div.name", {}, lane)));
    if (!this.active || !this.marks.has(this.active)) this.active = items.length ? key(items.at(-1)) : null;
    this.#mark();
    this.#place();
    if (seen?.atEnd ?? atEnd) this.toEnd();
    else if (this.marks.has(seen?.id)) this.plot.scrollLeft += this.marks.get(seen.id).offsetLeft - seen.left;
    if (focused && document.activeElement?.dataset.key !== focused) this.marks.get(focused)?.focus({ preventScroll: true });
  }

  // Before marks change: to ask afterwards lays all of them out, and once more when they are placed
  #measure() {
    this.across = this.plot.clientWidth;
  }

  // The mark at the left edge; or the newest end is in sight
  #seen() {
    const { scrollLeft, scrollWidth, clientWidth } = this.plot;
    if (scrollLeft + clientWidth >= scrollWidth - 2) return { atEnd: true };
    const found = [...this.marks].find(([, mark]) => mark.offsetLeft >= scrollLeft);
    return { atEnd: false, id: found?.[0], left: found?.[1].offsetLeft };
  }

  toEnd() {
    this.plot.scrollLeft = this.plot.scrollWidth;
  }

  // The newest instants are what one looks for, so that is where each scale begins
  scale(byTime) {
    this.byTime = byTime;
    this.zoomTo(1);
    this.toEnd();
  }

  // 1 fits all instants into the window, by time; in order it is the size of a mark
  zoomTo(factor) {
    const middle = (this.plot.scrollLeft + this.plot.clientWidth / 2) / this.#width();
    this.zoom = Math.min(Math.max(factor, this.byTime ? 1 : 0.25), this.byTime ? 100000 : 8);
    this.#place();
    const active = this.marks.get(this.active);
    if (active && document.activeElement === active) active.scrollIntoView({ block: "nearest", inline: "center" });
    else this.plot.scrollLeft = middle * this.#width() - this.plot.clientWidth / 2;
  }

  select(id, { focus = false, reveal = true } = {}) {
    this.selected = id;
    if (this.marks.has(id)) this.active = id;
    this.#mark();
    const mark = this.marks.get(id);
    if (!mark) return;
    if (focus) mark.focus({ preventScroll: true });
    if (reveal) this.#reveal(mark);
  }

  focusOn(id) {
    if (this.marks.has(id)) this.#focus(id);
  }

  // Scrolls the plot only: the page stays where it is
  #reveal(mark) {
    const left = mark.offsetLeft - EDGE;
    const right = mark.offsetLeft + mark.offsetWidth + EDGE;
    if (left < this.plot.scrollLeft) this.plot.scrollLeft = left;
    else if (right > this.plot.scrollLeft + this.plot.clientWidth) this.plot.scrollLeft = right - this.plot.clientWidth;
  }

  // Marks of instants that say the same as before are taken over
  #lane(lane, before) {
    const found = [...this.lanes.children].find((other) => other.ariaLabel === lane);
    const made = found ?? element(`div.lane.${lane}`, { role: "group", "aria-label": lane });
    const marks = [];
    for (const item of this.byLane.get(lane)) {
      const id = key(item);
      const says = sentence(item);
      const looks = `mark ${lane} ${item.status}${item.archived ? " archived" : ""}`;
      let mark = before.get(id);
      if (mark?.ariaLabel !== says || mark.dataset.looks !== looks) {
        const more = { role: "option", "aria-label": says, "aria-selected": "false", tabindex: -1, "data-key": id, "data-looks": looks };
        mark = element("div", { class: looks, ...more }, GLYPHS[item.status] ?? "");
      }
      const tall = item.num_writes ? Math.log1p(item.num_writes) / Math.log1p(this.most) : 0.25;
      mark.style.height = `${Math.round(10 + 16 * tall)}px`;
      this.marks.set(id, mark);
      marks.push(mark);
    }
    arrange(made, marks);
    return made;
  }

  // Tab leads to one mark; one may be chosen
  #mark() {
    this.reached?.setAttribute("tabindex", -1);
    this.reached = this.marks.get(this.active);
    this.reached?.setAttribute("tabindex", 0);
    this.picked?.setAttribute("aria-selected", "false");
    this.picked = this.marks.get(this.selected);
    this.picked?.setAttribute("aria-selected", "true");
  }

  #span() {
    const starts = this.items.map((item) => item.start_ms).filter((ms) => ms !== null);
    const first = Math.min(...starts);
    const last = Math.max(...this.items.map((item) => (item.start_ms ?? first) + (item.elapsed_ms ?? 0)));
    return [first, Math.max(last, first + 1000)];
  }

  #width() {
    const window = Math.max(200, this.across);
    if (this.byTime) return Math.min(window * this.zoom, 8_000_000);
    return Math.max(window, 2 * EDGE + this.items.length * ORDER_STEP * this.zoom);
  }

  #place() {
    if (!this.items.length) return;
    const width = this.#width();
    const [first, last] = this.#span();
    const room = width - 2 * EDGE - SLIM;
    const perMs = room / (last - first);
    const step = Math.max(ORDER_STEP * this.zoom, room / this.items.length / 4);
    this.at = (item) =>
      EDGE + (this.byTime ? ((item.start_ms ?? first) - first) * perMs : this.order.get(key(item)) * step);
    for (const item of this.items) {
      const mark = this.marks.get(key(item));
      const long = this.byTime ? Math.max(SLIM, (item.elapsed_ms ?? 0) * perMs) : Math.max(6, step - 5);
      mark.style.left = `${this.at(item).toFixed(1)}px`;
      mark.style.width = `${long.toFixed(1)}px`;
      if (item.waited_ms && item.elapsed_ms) {
        mark.classList.toggle("waited", this.byTime);
        mark.style.setProperty("--waited", `${Math.round((100 * item.waited_ms) / item.elapsed_ms)}%`);
      }
    }
    for (const items of this.byLane.values()) this.#count(items);
    for (const part of [this.lanes, this.ticks]) part.style.width = `${width}px`;
    this.ticks.replaceChildren(...(this.byTime ? this.#timeTicks(first, last, perMs) : this.#orderTicks(step)));
  }

  // Marks of a lane that lie on one another: the first of each few says how many they are
  #count(items) {
    let group = [];
    const told = () => {
      const many = group.length > 1;
      group.forEach((mark, at) => {
        if (many && at === 0) {
          mark.dataset.count = group.length;
          mark.title = `${group.length} instants lie here: zoom in to see each`;
        } else {
          delete mark.dataset.count;
          mark.removeAttribute("title");
        }
      });
    };
    let first = -Infinity;
    let last = -Infinity;
    for (const item of items) {
      const at = this.at(item);
      if (at >= last + SLIM || at >= first + COUNT_GAP) {
        told();
        group = [];
        first = at;
      }
      last = at;
      group.push(this.marks.get(key(item)));
    }
    told();
  }

  #timeTicks(first, last, perMs) {
    const step = 1000 * (STEPS_S.find((s) => s * 1000 * perMs >= TICK_GAP) ?? STEPS_S.at(-1));
    const found = [];
    let day = "";
    for (let ms = Math.ceil(first / step) * step; ms <= last && found.length < 2000; ms += step) {
      const [date, clock] = seconds(ms).split(" ");
      const text = step >= 86400000 ? date : date === day ? short(clock) : `${date} ${short(clock)}`;
      day = date;
      found.push(this.#tick(EDGE + (ms - first) * perMs, text));
    }
    return found.length ? found : [this.#tick(EDGE, seconds(first))];
  }

  #orderTicks(step) {
    const every = Math.ceil(170 / step);
    return this.items
      .filter((_, place) => place % every === 0)
      .map((item) => this.#tick(this.at(item), seconds(item.start_ms, item.instant)));
  }

  // At the right edge only as much text as there is room for
  #tick(left, text) {
    const room = this.#width() - left;
    const shown = [text, text.split(" ").at(-1), ""].find((words) => words.length * 7.5 + 6 < room);
    const made = element("span.tick", {}, shown ?? "");
    made.style.left = `${left.toFixed(1)}px`;
    return made;
  }

  #look(event) {
    const mark = event.target.closest("[data-key]");
    if (!mark) return;
    if (event.type === "focusin" && mark.dataset.key !== this.active) {
      this.active = mark.dataset.key;
      this.#mark();
    }
    this.#lookAt(mark.dataset.key);
  }

  #lookAt(id) {
    const place = this.order?.get(id);
    this.looked(place === undefined ? "" : sentence(this.items[place]));
  }

  #clicked(event) {
    const mark = event.target.closest("[data-key]");
    if (mark) this.chosen(this.items[this.order.get(mark.dataset.key)]);
  }

  #pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.active === null) return;
    const place = this.order.get(this.active);
    const item = this.items[place];
    const moves = {
      ArrowLeft: () => this.items[place - 1],
      ArrowRight: () => this.items[place + 1],
      PageUp: () => this.items[Math.max(0, place - 10)],
      PageDown: () => this.items[Math.min(this.items.length - 1, place + 10)],
      Home: () => this.items[0],
      End: () => this.items.at(-1),
      ArrowUp: () => this.#beside(item, -1),
      ArrowDown: () => this.#beside(item, 1),
    };
    const acts = {
      Enter: () => this.chosen(item),
      " ": () => this.chosen(item),
      "+": () => this.zoomTo(this.zoom * 2),
      "=": () => this.zoomTo(this.zoom * 2),
      "-": () => this.zoomTo(this.zoom / 2),
      0: () => this.zoomTo(1),
    };
    if (event.key in moves) {
      const next = moves[event.key]();
      if (next) this.#focus(key(next));
    } else if (event.key in acts) acts[event.key]();
    else return;
    event.preventDefault();
  }

  #focus(id) {
    this.active = id;
    this.#mark();
    const mark = this.marks.get(id);
    mark.focus({ preventScroll: true });
    this.#reveal(mark);
  }

  // The nearest instant of the lane above or below
  #beside(item, way) {
    const shown = [...this.byLane.keys()];
    const lane = this.byLane.get(shown[shown.indexOf(kind(item)) + way]);
    const far = (other) => Math.abs(this.at(other) - this.at(item));
    return lane?.reduce((best, other) => (far(other) < far(best) ? other : best));
  }
}

const short = (clock) => clock.replace(/:00$/, "");
