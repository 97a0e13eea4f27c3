// Hoodie's timeline page: what is loaded, and what the controls do.

import { Axis } from "./axis.js";
import { details } from "./details.js";
import { element, key, kind, number, plural, seconds } from "./format.js";
import { List } from "./list.js";

const LISTING = 'In Airflow the setting [hoodie] tables names them, such as {"orders": "/data/orders"}.';
const PAGE = 200;
const DEEP = 1000;
const at = (id) => document.getElementById(id);

const state = { table: null, active: [], archived: [], olderPending: [], next: null, nextArchived: null, item: null, turn: 0 };
const axis = new Axis(at("axis"), { chosen: (item) => open(item, { focus: true }), looked: (text) => (at("readout").textContent = text) });
const list = new List(at("list"), { chosen: (item) => open(item, { focus: true }) });

// Loading -------------------------------------------------------------------------------------------

class Failed extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
  }
}

async function get(path, query = {}) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", redirect: "error" });
  } catch {
    throw new Failed(0, { code: "unreachable", message: "The server does not answer. Is it running?" });
  }
  const document_ = await answer.json().catch(() => ({}));
  if (answer.ok) return document_;
  const refused = { 401: "You are not signed in to Airflow, or no longer. Sign in, then load this page again.",
    403: "You may not see Hoodie's tables: it takes the right to read assets." }[answer.status];
  throw new Failed(answer.status, document_.error ?? { code: "http", message: refused ?? `The server answered ${answer.status}.` });
}

const place = (name, ...more) => ["tables", name, "instants", ...more].map(encodeURIComponent).join("/");

async function start() {
  const asked = new URLSearchParams(location.search);
  const { tables } = await get("tables");
  at("table").replaceChildren(...tables.map((table) => element("option", { value: table.name }, table.error ? `${table.name} (error)` : table.name)));
  if (!tables.length) return say(`No table is on this page's list yet. ${LISTING}`, "empty");
  const name = asked.get("table");
  const wanted = name ? named(tables, name) : (tables.find((table) => !table.error) ?? tables[0]).name;
  at("table").value = wanted ?? "";
  if (!wanted) {
    at("timeline").hidden = true;
    return say(`${name} is not on this page's list of tables. ${LISTING}`, "error");
  }
  await load(wanted, { instant: asked.get("instant"), action: asked.get("action") });
}

// The name on the list of what an address calls a table: its name or its folder
function named(tables, asked) {
  const folder = asked.replace(/^file:\/*/, "/").replace(/(?<=.)\/+$/, "");
  return tables.find((table) => table.name === asked || table.base_path === folder)?.name;
}

// The table's newest page, and the instant if one is asked for
async function load(name, { instant = null, action = null } = {}) {
  const turn = ++state.turn;
  document.body.setAttribute("aria-busy", "true");
  try {
    const page = await get(place(name), { limit: PAGE });
    if (turn !== state.turn) return;
    Object.assign(state, { table: page.table, active: page.instants, archived: [], nextArchived: null, item: null });
    Object.assign(state, { olderPending: page.older_pending, next: page.next_before, total: page.total, pending: page.pending });
    show({ atEnd: true });
    at("details").replaceChildren(element("p.hint", {}, "Choose an instant to see its partitions and files."));
    if (instant) await find(instant, action);
    else remember(null);
  } catch (error) {
    if (turn !== state.turn) return;
    at("timeline").hidden = true;
    at("about").textContent = "";
    failed(error);
  } finally {
    if (turn === state.turn) document.body.removeAttribute("aria-busy");
  }
}

async function older(limit = PAGE) {
  const turn = state.turn;
  const archived = state.next === null;
  const before = archived ? state.nextArchived : state.next;
  const page = await get(place(state.table.name), { limit, before, archived: archived ? "true" : null });
  if (turn !== state.turn) return;
  if (archived) {
    state.archived = [...page.instants, ...state.archived];
    state.nextArchived = page.next_before;
    state.archivedTotal = page.total;
  } else {
    state.active = [...page.instants, ...state.active];
    state.next = page.next_before;
  }
  show({ atEnd: false });
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

function show({ atEnd }) {
  const { table } = state;
  at("message").hidden = true;
  at("timeline").hidden = false;
  const type = table.type.toLowerCase().replaceAll("_", "-");
  at("about").textContent = `${table.base_path} · ${type} · table version ${table.version} · times: ${table.zone}`;
  const shown = items();
  axis.show(shown, { atEnd });
  list.show(shown);
  const parts = [`${number(state.active.length)} of ${plural(state.total, "instant")}`];
  if (state.archived.length) parts.push(`${number(state.archived.length)} of ${number(state.archivedTotal)} archived`);
  if (state.pending) parts.push(`${number(state.pending)} unfinished`);
  at("count").textContent = parts.join(", ");
  at("older").disabled = state.next === null;
  at("archived").disabled = state.next !== null || !table.archive_files || (state.archived.length > 0 && state.nextArchived === null);
  at("archived").title = table.archive_files ? "" : "Nothing of this table is archived";
  const hidden = state.olderPending.filter((item) => !shown.some((other) => key(other) === key(item)));
  const buttons = hidden.map((item) =>
    element("button", { type: "button", onclick: () => open(item, { focus: true }) }, `${kind(item)} ${seconds(item.start_ms, item.instant)}, ${item.status}`));
  at("pending").replaceChildren("Unfinished and older: ", ...buttons);
  at("pending").hidden = !hidden.length;
  if (!shown.length) say("This table has no instants yet: nothing was written.", "empty");
}

async function open(item, { focus = false } = {}) {
  state.item = item;
  axis.select(key(item));
  list.select(key(item));
  remember(item);
  const turn = state.turn;
  try {
    const query = { action: item.action, archived: item.archived ? "true" : null };
    const found = await get(place(state.table.name, item.instant), query);
    if (turn !== state.turn || state.item !== item) return;
    if (!item.action) {
      axis.select(key(found));
      list.select(key(found));
    }
    const { parts, heading } = details(found);
    at("details").replaceChildren(...parts);
    if (focus) heading.focus({ preventScroll: false });
  } catch (error) {
    at("details").replaceChildren(element("p.problem", { role: "alert" }, error.message));
  }
}

function remember(item) {
  const url = new URL(location.href);
  url.searchParams.set("table", state.table.name);
  for (const name of ["instant", "action"]) {
    if (item?.[name]) url.searchParams.set(name, item[name]);
    else url.searchParams.delete(name);
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

at("table").addEventListener("change", () => load(at("table").value));
at("refresh").addEventListener("click", guarded(async () => {
  if (at("table").value) await load(at("table").value, { instant: state.item?.instant, action: state.item?.action });
  else await start();
}));
at("older").addEventListener("click", guarded(() => older()));
at("archived").addEventListener("click", guarded(() => older()));
at("by-time").addEventListener("click", () => scale(true));
at("by-order").addEventListener("click", () => scale(false));
at("zoom-in").addEventListener("click", () => axis.zoomTo(axis.zoom * 2));
at("zoom-out").addEventListener("click", () => axis.zoomTo(axis.zoom / 2));
at("zoom-fit").addEventListener("click", () => axis.zoomTo(1));
at("details").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.item) axis.select(key(state.item), { focus: true });
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
start().catch(failed);
