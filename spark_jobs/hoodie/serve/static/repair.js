// What to run where a table needs a hand, and the button that triggers Airflow's DAG of maintenance.

import { element, link } from "./format.js";
import { Failed, post } from "./server.js";

// kinds of steps that maintenance is for
const MAINTAINED = ["failed", "frozen", "due"];

// The steps of these kinds, and what the browser knows beside them: services that are due
export function stepsOf({ health, services }, kinds = null) {
  const due = services?.due?.length ? [{ kind: "due", text: `${services.due.join(", ")} due`, command: "" }] : [];
  return [...(health?.repair?.steps ?? []), ...due].filter((step) => !kinds || kinds.includes(step.kind));
}

export function listed(steps, maintain) {
  const commands = steps.some((step) => MAINTAINED.includes(step.kind)) ? [maintain?.command, maintain?.operator].filter(Boolean) : [];
  return element("ul.reasons.repair", {},
    ...steps.map((step) => element("li", { "data-kind": step.kind }, step.text, step.command ? code(step.command) : "")),
    ...commands.map((command) => element("li", {}, code(command))));
}

const code = (text) => element("code.command", {}, text);

// The button of one table. It asks before it triggers, and keeps what it says wherever it is put
export class Maintenance {
  // dag: id of the DAG; api: where Airflow's public API is; table: {name, base_path}
  constructor({ dag, api, table }) {
    Object.assign(this, { dag, api, table });
    this.element = element("p.maintenance", { role: "status" });
    this.#ask();
  }

  // The button, or nothing where no DAG is configured
  static of(known, dag, api, table) {
    if (!dag || !api) return null;
    if (known.get(table.name)?.dag !== dag) known.set(table.name, new Maintenance({ dag, api, table }));
    return known.get(table.name);
  }

  // for steps that maintenance is for
  static fits(steps) {
    return steps.some((step) => MAINTAINED.includes(step.kind));
  }

  #ask(...said) {
    this.element.replaceChildren(...said, this.#button(`Trigger ${this.dag}`, () => this.#confirm()));
  }

  #confirm() {
    const no = this.#button("Cancel", () => {
      this.#ask();
      this.element.querySelector("button").focus();
    });
    this.element.replaceChildren(`Trigger the DAG ${this.dag} for ${this.table.name}? `, this.#button("Yes, trigger it", () => this.#trigger(), "data-yes"), " ", no);
    no.focus();
  }

  async #trigger() {
    this.element.replaceChildren(`Triggering ${this.dag}…`);
    const dag = encodeURIComponent(this.dag);
    const conf = { hoodie_table: { name: this.table.name, path: this.table.base_path } };
    try {
      const run = await post(`${this.api}/dags/${dag}/dagRuns`, { logical_date: null, conf }, {
        403: `You may not trigger the DAG ${this.dag}.`,
        404: `Airflow has no DAG ${this.dag}: the setting [hoodie] maintenance_dag names it.`,
      });
      const href = `${this.api.replace(/\/api\/v2$/, "")}/dags/${dag}/runs/${encodeURIComponent(run.dag_run_id)}`;
      this.#ask("Triggered: ", link(href, `${this.dag} ${run.dag_run_id}`), ", which is ", String(run.state), ". ");
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      this.#ask(element("span.bad", {}, error.message), " ");
    }
  }

  #button(text, onclick, mark = "data-maintain") {
    return element("button.again", { type: "button", [mark]: this.table.name, onclick }, text);
  }
}
