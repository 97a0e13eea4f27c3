// All tables: what needs a hand comes first. Each table answers by itself, in its own time.

import { LEVELS } from "./health.js";
import { ago, element, number, rough } from "./format.js";
import { Failed, each, get, place } from "./server.js";

const HEADS = ["Table", "State", "Last write", "Usually every", "Failures", "Waiting", "Services due"];
const SAYS = ["all is well", "look", "needs a hand", "error"];
const HEALTH_AT_ONCE = 4;
const SERVICES_AT_ONCE = 2;

export class Overview {
  constructor(home, { chosen }) {
    this.home = home;
    this.chosen = chosen;
    this.turn = 0;
    this.known = new Map();
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

  async show(tables) {
    const turn = ++this.turn;
    const names = new Set(tables.map((table) => table.name));
    for (const name of this.known.keys()) if (!names.has(name)) this.known.delete(name);
    for (const table of tables) this.known.set(table.name, { ...this.known.get(table.name), table });
    this.#draw();
    const take = async (name, what) => {
      if (turn !== this.turn) return;
      const found = await get(place(name, what)).catch((error) => {
        if (!(error instanceof Failed)) throw error;
        return { level: 3, reasons: [error.message], problem: error.message, error: { message: error.message } };
      });
      if (turn !== this.turn) return;
      this.known.set(name, { ...this.known.get(name), [what]: found });
      this.#draw();
    };
    this.home.setAttribute("aria-busy", "true");
    await each([...names], HEALTH_AT_ONCE, (name) => take(name, "health"));
    const whole = [...names].filter((name) => turn === this.turn && !this.known.get(name).health.error);
    await each(whole, SERVICES_AT_ONCE, (name) => take(name, "services"));
    if (turn === this.turn) this.home.removeAttribute("aria-busy");
  }

  #draw() {
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    const rows = [...this.known.values()].sort((a, b) => weight(b) - weight(a) || age(b) - age(a) || (a.table.name < b.table.name ? -1 : 1));
    this.body.replaceChildren(...rows.map((row) => this.#row(row)));
    if (focused) this.body.querySelector(`[data-name="${focused}"]`)?.focus({ preventScroll: true });
    const looked = rows.filter((row) => row.health);
    const bad = looked.filter((row) => row.health.level > 1).length;
    const left = rows.length - looked.length;
    this.summary.textContent = `${number(bad)} of ${number(rows.length)} tables ${bad === 1 ? "needs" : "need"} a hand${left ? `; ${number(left)} are being looked at` : ""}`;
  }

  #row({ table, health, services }) {
    const name = element("button.link", { type: "button", "data-name": table.name, title: table.base_path, onclick: () => this.chosen(table.name) }, table.name);
    const level = health ? LEVELS[health.level] : "quiet";
    const cells = [name, element("span", {}, element(`span.level.${level}`, {}, health ? SAYS[health.level] : "…"), health?.reasons.length ? element("span.why", {}, ` ${health.reasons.join("; ")}`) : "")];
    if (health && !health.error) {
      const last = health.last_write;
      const failed = health.pending.filter((item) => ["failed", "open"].includes(item.status)).length;
      const small = [last.age_ms === null ? "" : `written ${ago(last.age_ms)}`, services?.due?.length ? `due: ${services.due.join(", ")}` : ""];
      cells[1].append(element("span.small", {}, ` ${small.filter(Boolean).join("; ")}`));
      cells.push(
        last.age_ms === null ? "" : element(`span${last.late ? ".bad" : ""}`, {}, ago(last.age_ms)),
        last.usual_ms === null ? "" : rough(last.usual_ms), failed ? number(failed) : "", health.waiting.length ? number(health.waiting.length) : "", due(services),
      );
    }
    while (cells.length < HEADS.length) cells.push("");
    return element("tr", { "data-table": table.name }, ...cells.map((cell) => element("td", {}, cell)));
  }
}

const weight = ({ health, services }) => (health ? 1 + 2 * health.level + (services?.due?.length ? 1 : 0) : 0);
const age = ({ health }) => health?.last_write?.age_ms ?? 0;

function due(services) {
  if (!services) return element("span.hint", {}, "looking…");
  if (services.problem) return element("span.hint", { title: services.problem }, "not known");
  const why = services.services.filter((item) => item.due).map((item) => `${item.service}: ${[item.would, item.reason].filter(Boolean).join("; ")}`);
  return element("span", { title: why.join("\n") }, services.due.join(", ") || "none");
}
