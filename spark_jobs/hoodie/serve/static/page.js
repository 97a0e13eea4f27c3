// Hoodie's timeline page: what is loaded, and what the controls do.

import { Axis } from "./axis.js";
import { details } from "./details.js";
import { element, key, kind, number, plural, seconds, words } from "./format.js";
import { Strip } from "./health.js";
import { List } from "./list.js";
import { Overview } from "./overview.js";
import { Maintenance } from "./repair.js";
import { Failed, get, place } from "./server.js";

const LISTING = 'In Airflow the setting [hoodie] tables names them, such as {"orders": "/data/orders"}.';
const PAGE = 200;
const DEEP = 1000;
const NAMED = 20;
const at = (id) => document.getElementById(id);

const state = { tables: [], name: null, table: null, active: [], archived: [], olderPending: [], next: null, nextArchived: null, item: null, shown: "", search: "", turn: 0, busy: 0 };
const axis = new Axis(at("axis"), { chosen: (item) => open(item, { focus: true }), looked: (text) => (at("readout").textContent = text) });
const list = new List(at("list"), { chosen: (item) => open(item, { focus: true }) });
const strip = new Strip(at("strip"), { chosen: (item) => inTurn(() => find(item.instant, item.action)).catch(failed), asked: (what) => examine(what, true) });
const overview = new Overview(at("overview"), { chosen: (name) => go(name) });

// Loading -------------------------------------------------------------------------------------------

async function start() {
  const asked = new URLSearchParams(location.search);
  const turn = ++state.turn;
  const { tables, api, maintenance } = await get("tables", { open: "false" });
  if (turn !== state.turn) return;
  Object.assign(state, { tables, api, maintenance });
  at("table").replaceChildren(element("option", { value: "" }, "All tables"), ...tables.map((table) => element("option", { value: table.name }, table.name)));
  if (!tables.length) return say(`No table is on this page's list yet. ${LISTING}`, "empty");
  const name = asked.get("table");
  const wanted = name ? named(tables, name) : tables.length === 1 ? tables[0].name : null;
  if (name && !wanted) {
    const names = tables.slice(0, NAMED).map((table) => table.name).join(", ");
    const more = tables.length > NAMED ? ` and ${number(tables.length - NAMED)} more` : "";
    say(`${name} is not on this page's list of tables, which has ${names}${more}. ${LISTING}`, "error");
  } else at("message").hidden = true;
  if (!wanted) return all();
  await load(wanted, { instant: asked.get("instant"), action: asked.get("action") });
}

// The name on the list of what an address calls a table: its name or its folder
function named(tables, asked) {
  const folder = asked.replace(/^file:\/*/, "/").replace(/(?<=.)\/+$/, "");
  return tables.find((table) => table.name === asked || table.base_path === folder)?.name;
}

// To a table, or to all of them for "": the way back leads here
async function go(name) {
  history.pushState(null, "", location.href);
  at("message").hidden = true;
  if (!name) {
    remember(null, null);
    return all();
  }
  return load(name);
}

async function all() {
  state.turn += 1;
  Object.assign(state, { name: null, table: null, item: null });
  at("table").value = "";
  at("about").textContent = "";
  at("timeline").hidden = true;
  at("overview").hidden = false;
  await overview.show(state.tables, state.api, state.maintenance);
}

// The table's newest page, and the instant if one is asked for
async function load(name, { instant = null, action = null } = {}) {
  const turn = ++state.turn;
  overview.stop();
  at("overview").hidden = true;
  at("table").value = name;
  if (state.name !== name) {
    at("search").value = state.search = "";
    strip.clear();
    const table = state.tables.find((one) => one.name === name);
    strip.maintains(table && Maintenance.of(overview.buttons, state.maintenance, state.api, table));
  }
  Object.assign(state, { name, looked: "" });
  document.body.setAttribute("aria-busy", "true");
  try {
    const page = await get(place(name, "instants"), { limit: PAGE });
    if (turn !== state.turn) return;
    Object.assign(state, { table: page.table, active: page.instants, archived: [], nextArchived: null, item: null });
    Object.assign(state, { olderPending: page.older_pending, next: page.next_before, total: page.total, pending: page.pending });
    show({ atEnd: true });
    close();
    if (instant) await find(instant, action);
    else remember(name, null);
    look(turn).catch(failed);
  } catch (error) {
    if (turn !== state.turn) return;
    state.table = null;
    at("timeline").hidden = true;
    at("about").textContent = "";
    failed(error);
  } finally {
    if (turn === state.turn) document.body.removeAttribute("aria-busy");
  }
}

// Reads again; what is seen, chosen and open stays where it is
async function refresh() {
  if (!state.tables.length || (state.name === null && at("overview").hidden)) return start();
  if (state.name === null) return overview.show(state.tables, state.api, state.maintenance);
  if (state.table === null) return load(state.name);
  const turn = state.turn;
  const page = await get(place(state.name, "instants"), { limit: PAGE });
  if (turn !== state.turn || state.busy) return;
  const again = merge(page);
  if (again) await older(DEEP, { keep: true });
  if (turn !== state.turn) return;
  show({ atEnd: false, keep: true });
  await reopen();
  look(turn).catch(failed);
}

// Takes a new first page over. True where older instants have to be loaded again: they changed, or some lie between
function merge(page) {
  const first = page.instants[0]?.instant ?? "";
  const newest = state.active.at(-1)?.instant ?? "";
  const pending = new Map(page.older_pending.map((item) => [key(item), item]));
  const before = page.next_before === null ? [] : state.active.filter((item) => item.instant < first);
  const whole = state.next === null && before.length !== page.total - page.instants.length;
  const changed = before.some((item) => item.status !== "completed" && !pending.has(key(item)));
  const apart = before.length > 0 && newest < first;
  const lost = page.next_before !== null && (whole || changed || apart);
  state.active = [...(lost ? [] : before.map((item) => pending.get(key(item)) ?? item)), ...page.instants];
  if (lost || page.next_before === null || !before.length) state.next = page.next_before;
  Object.assign(state, { table: page.table, olderPending: page.older_pending, total: page.total, pending: page.pending });
  return lost && before.length > 0;
}

// The chosen instant again, where it has changed
async function reopen() {
  const { item } = state;
  if (!item) return;
  const found = items().find((other) => key(other) === key(item)) ?? items().find((other) => other.instant === item.instant && other.action !== "savepoint");
  if (!found) {
    if (!item.archived && !at("details").querySelector(".gone") && item.status) at("details").prepend(element("p.problem.gone", {}, "This instant is no longer on the timeline."));
    return;
  }
  if (found.status !== item.status || found.state !== item.state) await open(found, { keep: true });
}

// The strip: health at once, services when it has come
async function look(turn) {
  const health = await get(place(state.name, "health"));
  if (turn !== state.turn) return;
  if (health.error) return;
  strip.show({ health });
  const now = state.active.slice(-PAGE).map((item) => `${key(item)}${item.state}`).join(" ");
  if (now === state.looked) return;
  state.looked = now;
  await examine("services", false);
}

async function examine(what, again) {
  const { turn } = state;
  const button = at("strip").querySelector(`[data-again="${what}"]`);
  if (button) button.disabled = true;
  const found = await get(place(state.name, what), { again: again ? "true" : null }).catch((error) => ({ problem: error.message }));
  if (turn !== state.turn) return;
  if (button) button.disabled = false;
  strip.show({ [what]: found });
}

async function older(limit = PAGE, { keep = false } = {}) {
  const turn = state.turn;
  const archived = state.next === null;
  const before = archived ? state.nextArchived : state.next;
  state.busy += 1;
  try {
    const page = await get(place(state.name, "instants"), { limit, before, archived: archived ? "true" : null });
    if (turn !== state.turn) return;
    if (archived) {
      state.archived = [...page.instants, ...state.archived];
      state.nextArchived = page.next_before;
      state.archivedTotal = page.total;
    } else {
      state.active = [...page.instants, ...state.active];
      state.next = page.next_before;
    }
    show({ atEnd: false, keep });
  } finally {
    state.busy -= 1;
  }
}

// Loads back to an instant, and opens it
async function find(instant, action) {
  const shown = () => items().find((item) => item.instant === instant && (!action || item.action === action));
  while (!shown() && state.next !== null && state.next > instant) await older(DEEP);
  const item = shown() ?? { instant, action, archived: !state.active.some((other) => other.instant <= instant) };
  await open(item);
}

// Instants that are not on the active timeline any more come first, and once: a killed archiver leaves both
function items() {
  const active = new Set(state.active.map(key));
  return [...state.archived.filter((item) => !active.has(key(item))), ...state.active];
}

// Showing -------------------------------------------------------------------------------------------

const searched = (all) => {
  const asked = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  return asked.length ? all.filter((item) => asked.every((word) => words(item).includes(word))) : all;
};

// typing: the axis follows in a task of its own, so that keys are not kept waiting
function show({ atEnd, keep = false, typing = false }) {
  const { table } = state;
  at("message").hidden = true;
  at("timeline").hidden = false;
  const type = table.type.toLowerCase().replaceAll("_", "-");
  at("about").textContent = `${table.base_path} · ${type} · table version ${table.version} · times: ${table.zone}`;
  const loaded = items();
  const found = searched(loaded);
  const drawn = JSON.stringify(found);
  if (!keep || drawn !== state.shown) {
    state.shown = drawn;
    list.show(found, { keep });
    const draw = () => state.shown === drawn && axis.show(found, { atEnd, keep });
    if (typing) setTimeout(draw);
    else draw();
  }
  const parts = [`${number(state.active.length)} of ${plural(state.total, "instant")}`];
  if (state.search.trim()) parts.unshift(`${number(found.length)} found`);
  if (state.archived.length) parts.push(`${number(state.archived.length)} of ${number(state.archivedTotal)} archived`);
  if (state.pending) parts.push(`${number(state.pending)} unfinished`);
  at("count").textContent = parts.join(", ");
  at("older").disabled = state.next === null;
  at("archived").disabled = state.next !== null || !table.archive_files || (state.archived.length > 0 && state.nextArchived === null);
  at("archived").title = table.archive_files ? "" : "Nothing of this table is archived";
  const hidden = state.olderPending.filter((item) => !loaded.some((other) => key(other) === key(item)));
  const buttons = hidden.map((item) =>
    element("button", { type: "button", onclick: () => open(item, { focus: true }) }, `${kind(item)} ${seconds(item.start_ms, item.instant)}, ${item.status}`));
  at("pending").replaceChildren("Unfinished and older: ", ...buttons);
  at("pending").hidden = !hidden.length;
  if (!loaded.length) say("This table has no instants yet: nothing was written.", "empty");
}

// keep: the pane is open already, and stays as it is scrolled
async function open(item, { focus = false, keep = false } = {}) {
  state.item = item;
  axis.select(key(item), { reveal: !keep });
  list.select(key(item), { reveal: !keep });
  remember(state.name, item);
  const turn = state.turn;
  try {
    const query = { action: item.action, archived: item.archived ? "true" : null };
    const found = await get(place(state.name, "instants", item.instant), query);
    if (turn !== state.turn || state.item !== item) return;
    if (!item.action) {
      axis.select(key(found));
      list.select(key(found));
    }
    const { parts, heading } = details(found, () => close({ focus: true }));
    pane(parts, keep);
    if (focus) heading.focus({ preventScroll: false });
  } catch (error) {
    if (turn === state.turn && state.item === item) pane([element("p.problem", { role: "alert" }, error.message)], keep);
  }
}

function pane(parts, keep) {
  const top = at("details").scrollTop;
  const unfolded = [...at("details").querySelectorAll("details[open] > summary")].map((part) => part.textContent);
  at("details").replaceChildren(...parts);
  at("details").hidden = false;
  if (!keep) return void (at("details").scrollTop = 0);
  for (const part of at("details").querySelectorAll("summary")) part.parentElement.open = unfolded.includes(part.textContent);
  at("details").scrollTop = top;
}

function close({ focus = false } = {}) {
  const { item } = state;
  at("details").hidden = true;
  at("details").replaceChildren();
  if (!item) return;
  state.item = null;
  axis.select(null);
  list.select(null);
  remember(state.name, null);
  if (focus) axis.focusOn(key(item));
}

function remember(name, item) {
  const url = new URL(location.href);
  for (const [part, text] of [["table", name], ["instant", item?.instant], ["action", item?.action]]) {
    if (text) url.searchParams.set(part, text);
    else url.searchParams.delete(part);
  }
  history.replaceState(null, "", url);
}

function say(text, look) {
  at("message").className = look;
  at("message").replaceChildren(text);
  at("message").hidden = false;
}

function failed(error) {
  if (!(error instanceof Failed)) throw error;
  say(error.message, "error");
  at("message").append(element("span.code", {}, error.code));
}

// Controls ------------------------------------------------------------------------------------------

function scale(byTime) {
  at("by-time").setAttribute("aria-pressed", String(byTime));
  at("by-order").setAttribute("aria-pressed", String(!byTime));
  axis.scale(byTime);
}

const guarded = (act) => () => act().catch(failed);

// What changes the instants that are loaded comes one after the other
let line = Promise.resolve();
const inTurn = (act) => (line = line.then(act, act));

at("table").addEventListener("change", guarded(() => go(at("table").value)));
window.addEventListener("popstate", guarded(start));
at("refresh").addEventListener("click", guarded(() => inTurn(refresh)));
at("older").addEventListener("click", guarded(() => inTurn(() => older())));
at("archived").addEventListener("click", guarded(() => inTurn(() => older())));
at("by-time").addEventListener("click", () => scale(true));
at("by-order").addEventListener("click", () => scale(false));
at("zoom-in").addEventListener("click", () => axis.zoomTo(axis.zoom * 2));
at("zoom-out").addEventListener("click", () => axis.zoomTo(axis.zoom / 2));
at("zoom-fit").addEventListener("click", () => axis.zoomTo(1));
at("details").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.item) axis.select(key(state.item), { focus: true });
});

let searching;
at("search").addEventListener("input", () => {
  clearTimeout(searching);
  searching = setTimeout(() => {
    state.search = at("search").value;
    if (state.table) show({ atEnd: true, typing: true });
  }, 120);
});

// Reads again every data-every seconds, while the page is seen and nothing else is under way
let waiting;
function again() {
  clearTimeout(waiting);
  if (at("auto").getAttribute("aria-pressed") !== "true") return;
  waiting = setTimeout(async () => {
    if (!document.hidden && !document.body.hasAttribute("aria-busy")) await inTurn(refresh).catch(failed);
    again();
  }, 1000 * Number(at("auto").dataset.every));
}
at("auto").addEventListener("click", () => {
  at("auto").setAttribute("aria-pressed", String(at("auto").getAttribute("aria-pressed") !== "true"));
  again();
});

// Inside Airflow its light or dark look is ours; elsewhere the system's is (page.css)
function followAirflow() {
  let outside;
  try {
    outside = window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    return;
  }
  if (!outside) return;
  document.documentElement.dataset.framed = "";
  const follow = () => {
    const look = ["dark", "light"].find((name) => outside.classList.contains(name) || outside.dataset.theme === name);
    if (look) document.documentElement.dataset.theme = look;
  };
  follow();
  new MutationObserver(follow).observe(outside, { attributes: true, attributeFilter: ["class", "data-theme"] });
}

followAirflow();
again();
start().catch(failed);
