// The strip: what needs a hand at this table, each part with its reasons to unfold.

import { BASIS, ago, duration, element, plural, rough, runLink, seconds, takenBack } from "./format.js";
import { Maintenance, listed, stepsOf } from "./repair.js";

export const LEVELS = ["well", "note", "wrong", "error"];
const SIGNS = { error: "error", warning: "wrong", note: "note", ok: "well" };

export class Strip {
  // chosen({instant, action}): an instant was asked for; asked("services" or "doctor"): look again, in full
  constructor(home, { chosen, asked }) {
    this.home = home;
    this.chosen = chosen;
    this.asked = asked;
    this.clear();
  }

  clear() {
    this.known = {};
    this.drawn = "";
    this.home.replaceChildren();
  }

  // The button of the table's maintenance, null for none
  maintains(button) {
    this.button = button;
  }

  // health, services, doctor: what the server answered, undefined while it has not
  show(known) {
    this.known = { ...this.known, ...known };
    const { health, services, doctor } = this.known;
    if (!health) return;
    const tiles = [fresh(health), this.#failures(health), this.#services(services), this.#doctor(health, doctor)];
    if (health.waiting.length) tiles.unshift(this.#waiting(health));
    const pressed = this.button?.element.contains(document.activeElement) ? document.activeElement : null;
    const text = JSON.stringify(this.known);
    if (text === this.drawn) return;
    this.drawn = text;
    this.#repair(tiles);
    const open = new Map([...this.home.children].map((tile) => [tile.dataset.tile, tile.open]));
    const focused = !pressed && this.home.contains(document.activeElement) ? document.activeElement.closest("[data-tile]")?.dataset.tile : null;
    for (const tile of tiles) tile.open = open.get(tile.dataset.tile) ?? false;
    this.home.replaceChildren(...tiles);
    if (pressed && this.home.contains(pressed)) pressed.focus({ preventScroll: true });
    else if (focused) this.home.querySelector(`[data-tile="${focused}"] summary`)?.focus({ preventScroll: true });
  }

  // What to run, in the tile of each kind, and the button in the first that it is for
  #repair(tiles) {
    let button = this.button;
    for (const [name, kinds] of [["failures", ["frozen", "failed"]], ["write", ["late"]], ["services", ["due"]]]) {
      const steps = stepsOf(this.known, kinds);
      if (!steps.length) continue;
      const body = tiles.find((one) => one.dataset.tile === name).querySelector(".body");
      body.append(element("p", {}, "What to run:"), listed(steps, this.known.health.repair?.maintain));
      if (button && Maintenance.fits(steps)) body.append(button.element);
      if (Maintenance.fits(steps)) button = null;
    }
  }

  #failures({ pending, rolled_back: undone }) {
    const failed = pending.filter((item) => ["failed", "open"].includes(item.status));
    const parts = [];
    if (failed.length) parts.push(plural(failed.length, "failure"));
    if (undone.length) parts.push(`${plural(undone.length, "rollback")} in 24 h`);
    const rows = [
      ...failed.map((item) => [this.#instant(item), `${ending(item)}, begun ${ago(item.age_ms)}`, runLink(item.run)]),
      ...undone.map((item) => [this.#instant({ ...item, action: "rollback" }), takenBack(item.taken_back), runLink(item.taken_back.run)]),
    ];
    return tile("failures", failed.length ? "wrong" : undone.length ? "note" : "well", parts.join(", ") || "No failures", "", listing(rows));
  }

  #services(services) {
    if (!services) return tile("services", "quiet", "Services: looking…", "", null);
    if (services.problem) return tile("services", "quiet", "Services: not known", "", element("p", {}, services.problem), this.#again("services"));
    const failing = services.services.filter((item) => item.error);
    const due = services.services.filter((item) => item.due);
    const head = due.length ? `Due: ${due.map((item) => item.service).join(", ")}` : "No service is due";
    const rows = [...due, ...failing, ...services.services.filter((item) => !item.due && !item.error)].map((item) => [
      element(`strong.${item.error ? "bad" : item.due ? "due" : "idle"}`, {}, item.service),
      item.due ? `due: ${[item.would, item.reason].filter(Boolean).join("; ")}` : item.reason,
    ]);
    for (const item of services.others) rows.push([element("strong.due", {}, `${item.action} ${item.instant}`), `pending: ${item.remedy}`]);
    const level = failing.length ? "wrong" : due.length ? "note" : "well";
    return tile("services", level, failing.length ? `${plural(failing.length, "service")} can't be planned` : head, "", listing(rows), this.#again("services"));
  }

  #doctor(health, doctor) {
    const found = doctor?.findings ?? health.findings;
    const counts = ["error", "warning", "note"].map((status) => [found.filter((item) => item.status === status).length, status]).filter(([count]) => count);
    const worst = SIGNS[counts[0]?.[1] ?? "ok"];
    const rows = found.map((item) => [element(`strong.${SIGNS[item.status]}`, {}, item.check), [item.text, item.remedy && `→ ${item.remedy}`].filter(Boolean).join(" ")]);
    const head = counts.length ? `Doctor: ${counts.map(([count, status]) => plural(count, status)).join(", ")}` : "Doctor: all is well";
    const said = doctor?.problem ?? (doctor ? "All checks." : "The checks that cost little.");
    return tile("doctor", worst, head, "", listing(rows), element("p", {}, said, " ", this.#again("doctor")));
  }

  #waiting({ waiting }) {
    const rows = waiting.map((item) => [
      element("strong", {}, `${item.ahead + 1}. ${item.rank}`),
      [runLink(item.run), `${item.owner}${item.frozen ? ", which is frozen" : ""}, for ${duration(item.waited_ms)}`],
      ["waits for ", ...(item.for.length ? item.for.flatMap((other, at) => [at ? ", " : "", runLink(other.run) || other.owner, ` (${other.instant})`]) : ["its turn"])],
    ]);
    return tile("waiting", "note", `${plural(waiting.length, "job")} ${waiting.length === 1 ? "waits" : "wait"}`, "", listing(rows));
  }

  #instant(item) {
    const text = `${item.action} ${seconds(item.start_ms, item.instant)}`;
    return element("button.link", { type: "button", onclick: () => this.chosen(item) }, text);
  }

  #again(what) {
    const text = what === "doctor" ? "Run all checks" : "Look again";
    return element("button.again", { type: "button", "data-again": what, onclick: () => this.asked(what) }, text);
  }
}

// Why an instant that did not end counts as failed
function ending({ status, writer }) {
  if (status !== "failed") return "no sign of its process";
  if (writer?.frozen) return `its process is there, but silent for ${rough(writer.silent_ms)}: it is frozen`;
  return writer ? `its writer is silent for ${rough(writer.silent_ms)}` : "its writer is gone";
}

function fresh({ last_write: last }) {
  if (last.instant === null) return tile("write", "quiet", "No write yet", "", null);
  const usual = last.usual_ms === null ? "" : `usually every ${rough(last.usual_ms)}`;
  return tile("write", last.late ? "wrong" : "well", last.age_ms === null ? "Last write: time not known" : `Last write ${ago(last.age_ms)}`, usual,
    element("p", {}, `${last.action} ${seconds(last.start_ms, last.instant)}`, ...(last.run ? [" by ", runLink(last.run)] : last.outside ? [" outside Airflow"] : []),
      last.late ? ": longer ago than usual" : "", usual ? `; ${usual}, ${BASIS[last.basis]}` : ""));
}

function tile(name, level, head, more, ...body) {
  return element(
    `details.tile.${level}`, { "data-tile": name },
    element("summary", {}, head, more ? element("span.more", {}, ` ${more}`) : ""),
    element("div.body", {}, ...body),
  );
}

const listing = (rows) =>
  rows.length ? element("ul.reasons", {}, ...rows.map((cells) => element("li", {}, ...cells.flat().filter((cell) => cell !== "" && cell !== null).flatMap((cell, at) => (at ? [" ", cell] : [cell]))))) : null;
