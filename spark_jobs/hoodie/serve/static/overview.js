// All tables: what needs a hand comes first. Each table answers by itself, in its own time.

import { LEVELS } from "./health.js";
import { BASIS, ago, element, number, rough, runLink } from "./format.js";
import { producers } from "./producers.js";
import { Maintenance, listed, stepsOf } from "./repair.js";
import { Failed, each, get, place } from "./server.js";

const HEADS = ["Table", "State", "Last write", "Usually every", "Failures", "At work", "Waiting", "Services due"];
const SAYS = ["all is well", "look", "needs a hand", "error"];
// the rank of failed writes
const FAILED = 5;
const NOT_WRITTEN = "not written yet";
const HEALTH_AT_ONCE = 4;
const SERVICES_AT_ONCE = 2;

export class Overview {
  constructor(home, { chosen }) {
    this.home = home;
    this.chosen = chosen;
    this.turn = 0;
    this.known = new Map();
    this.lines = new Map();
    this.buttons = new Map();
    this.body = element("tbody");
    this.summary = element("p#tables-count", { role: "status" });
    const heads = HEADS.map((head) => element("th", { scope: "col" }, head));
    home.replaceChildren(
      this.summary,
      element("div.scroll", {}, element("table.overview", {}, element("caption.unseen", {}, "Tables, what needs a hand first"), element("thead", {}, element("tr", {}, ...heads)), this.body)),
    );
  }

  // Ends what is under way
  stop() {
    this.turn += 1;
  }

  // api: where Airflow's public API is, null outside of Airflow; dag: of maintenance, "" for none
  async show(tables, api = null, dag = "") {
    const turn = ++this.turn;
    Object.assign(this, { api, dag });
    const names = new Set(tables.map((table) => table.name));
    for (const name of this.known.keys()) {
      if (names.has(name)) continue;
      this.known.delete(name);
      this.lines.delete(name);
    }
    for (const table of tables) this.known.set(table.name, { ...this.known.get(table.name), table });
    for (const name of names) this.#fill(name);
    this.#sort();
    const take = async (name, what) => {
      if (turn !== this.turn) return;
      const found = await get(place(name, what)).catch((error) => {
        if (!(error instanceof Failed)) throw error;
        return { level: 3, reasons: [error.message], problem: error.message, error: { message: error.message } };
      });
      if (turn !== this.turn) return;
      this.known.set(name, { ...this.known.get(name), [what]: found });
      this.#fill(name);
      this.#count();
    };
    this.home.setAttribute("aria-busy", "true");
    await each([...names], HEALTH_AT_ONCE, (name) => take(name, "health"));
    if (turn === this.turn) this.#sort();
    if (api) await this.#produced(turn, api, tables);
    const whole = [...names].filter((name) => turn === this.turn && !this.known.get(name).health.error);
    await each(whole, SERVICES_AT_ONCE, (name) => take(name, "services"));
    if (turn !== this.turn) return;
    this.#sort();
    this.home.removeAttribute("aria-busy");
  }

  // Failures of the tasks that produce a table, after its last write
  async #produced(turn, api, tables) {
    const found = await producers(api, tables);
    if (turn !== this.turn) return;
    for (const [name, known] of this.known) {
      const run = found.get(name);
      const written = known.health?.last_write?.age_ms;
      const producer = run && run.ended > Date.now() - (written ?? Infinity) ? run : null;
      this.known.set(name, { ...known, producer });
      this.#fill(name);
    }
    this.#sort();
  }

  // Rows change places when all tables have answered, so that none moves from under a pointer before
  #sort() {
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const rows = [...this.known.values()].sort((a, b) => weight(b) - weight(a) || age(b) - age(a) || (a.table.name < b.table.name ? -1 : 1));
    this.body.replaceChildren(...rows.map((row) => this.lines.get(row.table.name)));
    focused?.focus({ preventScroll: true });
    this.#count();
  }

  #count() {
    const rows = [...this.known.values()];
    const looked = rows.filter((row) => row.health);
    const bad = looked.filter((row) => row.health.level > 1 || row.producer).length;
    const left = rows.length - looked.length;
    this.summary.textContent = `${number(bad)} of ${number(rows.length)} tables ${bad === 1 ? "needs" : "need"} a hand${left ? `; ${number(left)} are being looked at` : ""}`;
  }

  // The cell of the name stays, with its focus, and with a click that has begun
  #fill(name) {
    const known = this.known.get(name);
    const line = this.lines.get(name) ?? element("tr", { "data-table": name }, element("td", {}, this.#name(known.table)));
    this.lines.set(name, line);
    line.querySelector("button").title = known.table.base_path;
    line.classList.toggle("absent", isAbsent(known));
    const open = line.querySelector("details.repairs")?.open;
    const focused = line.contains(document.activeElement) ? document.activeElement : null;
    while (line.children.length > 1) line.lastElementChild.remove();
    line.append(...this.#cells(known).map((cell) => element("td", {}, cell)));
    const repairs = this.#repairs(known);
    if (repairs) line.children[1].append(repairs);
    if (repairs && open) repairs.open = true;
    if (focused?.tagName === "SUMMARY") repairs?.firstElementChild.focus({ preventScroll: true });
    else focused?.focus({ preventScroll: true });
  }

  // What to run, folded; the button of maintenance stays the same, whatever it says
  #repairs({ table, health, services, producer }) {
    const steps = stepsOf({ health, services });
    if (isAbsent({ health, producer }) || !(steps.length || producer)) return null;
    const list = listed(steps, health?.repair?.maintain);
    if (producer) list.prepend(element("li", { "data-kind": "producer" }, "mend what the log of ", runLink(producer), " says, then clear the task there"));
    const button = Maintenance.fits(steps) ? Maintenance.of(this.buttons, this.dag, this.api, table) : null;
    return element("details.repairs", {}, element("summary", {}, "What to run"), list, ...(button ? [button.element] : []));
  }

  #name(table) {
    return element("button.link", { type: "button", "data-name": table.name, onclick: () => this.chosen(table.name) }, table.name);
  }

  #cells({ health, services, producer }) {
    if (isAbsent({ health, producer })) return [element("span.level.quiet", { title: health.reasons.join("; ") }, NOT_WRITTEN), ...HEADS.slice(2).map(() => "")];
    const height = producer ? Math.max(health?.level ?? 0, 2) : health?.level;
    const level = height === undefined ? "quiet" : LEVELS[height];
    const cells = [element("span", {}, element(`span.level.${level}`, {}, height === undefined ? "…" : SAYS[height]), ...(producer ? broken(producer) : []), health?.reasons.length ? element("span.why", {}, `${producer ? "; " : " "}${health.reasons.join("; ")}`) : "")];
    if (health && !health.error) {
      const last = health.last_write;
      const failed = health.pending.filter((item) => ["failed", "open"].includes(item.status)).length;
      const small = [last.age_ms === null ? "" : `written ${ago(last.age_ms)}`, services?.due?.length ? `due: ${services.due.join(", ")}` : ""];
      cells[0].append(element("span.small", {}, ` ${small.filter(Boolean).join("; ")}`));
      if (health.waiting.length) cells[0].append(element("span.small", {}, " waits: ", waiting(health.waiting)));
      cells.push(
        last.age_ms === null ? "" : element("span", {}, element(`span${last.late ? ".bad" : ""}`, {}, ago(last.age_ms)), ...who(last)),
        last.usual_ms === null ? "" : element("span", { title: BASIS[last.basis] ?? "" }, rough(last.usual_ms)), failed ? number(failed) : "",
        atWork(health.pending), waiting(health.waiting), due(services),
      );
    }
    while (cells.length < HEADS.length - 1) cells.push("");
    return cells;
  }
}

// What is not written yet goes last, before it what has not answered
const weight = ({ health, services, producer }) => (health ? 2 * Math.max(health.rank ?? 6, producer ? FAILED : 0) + (services?.due?.length ? 1 : 0) : 0.5);
const isAbsent = ({ health, producer }) => health?.rank === 0 && !producer;

function broken(run) {
  return [element("span.why", {}, " ", runLink(run), ` failed ${ago(Math.max(0, Date.now() - run.ended))}${run.retried ? ", to be retried" : ""}`)];
}
const age = ({ health }) => health?.last_write?.age_ms ?? 0;

// Of a last write: its task, or that it is of none
function who(last) {
  if (last.run) return [" by ", runLink(last.run)];
  return last.outside ? [element("span.hint", {}, " outside Airflow")] : [];
}

function named(item) {
  return runLink(item.run) || item.owner || item.writer?.owner || item.instant;
}

function atWork(pending) {
  const running = pending.filter((item) => item.status === "running");
  return several(running, (item) => [named(item), ` for ${rough(item.age_ms ?? 0)}`]);
}

const waiting = (jobs) => several(jobs, (item) => [named(item), ` for ${rough(item.waited_ms)}`, ...(item.for.length ? [", after ", named(item.for[0])] : [])]);

// The first of them, and how many there are more
function several(items, text) {
  if (!items.length) return "";
  const more = items.length > 1 ? ` and ${number(items.length - 1)} more` : "";
  return element("span", {}, ...text(items[0]), more);
}

function due(services) {
  if (!services) return element("span.hint", {}, "looking…");
  if (services.problem) return element("span.hint", { title: services.problem }, "not known");
  const why = services.services.filter((item) => item.due).map((item) => `${item.service}: ${[item.would, item.reason].filter(Boolean).join("; ")}`);
  return element("span", { title: why.join("\n") }, services.due.join(", ") || "none");
}
