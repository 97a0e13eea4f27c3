// Failures before an instant exists: the last runs of the tasks that produce tables. Airflow's public API is asked, with
// the rights of who looks at the page.

import { Failed, each, get } from "./server.js";

const PAGE = 100;
// assets that are looked through, and failures, of so many days
const MOST = 2000;
const DAYS = 7;
const AT_ONCE = 4;
const STATES = ["failed", "up_for_retry"];

// By the names of tables whose producer's last run failed: {dag_id, task_id, map_index, run_id, href, ended, retried}. ended: epoch
// milliseconds. Tables without an asset, and what the user may not see, are left out
export async function producers(api, tables) {
  const names = new Map(tables.filter((table) => table.asset).map((table) => [table.asset, table.name]));
  const found = new Map();
  try {
    const tasks = await producing(api, names);
    const failures = await failed(api);
    const suspects = [...tasks].filter(([task]) => failures.has(task));
    await each(suspects, AT_ONCE, async ([task, tablesOf]) => {
      const run = await last(api, failures.get(task));
      if (!run) return;
      for (const name of tablesOf) if (run.ended > (found.get(name)?.ended ?? 0)) found.set(name, run);
    });
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
  }
  return found;
}

const idOf = ({ dag_id: dag, task_id: task }) => JSON.stringify([dag, task]);
const instances = (api, dag) => `${api}/dags/${encodeURIComponent(dag)}/dagRuns/~/taskInstances`;
const since = () => new Date(Date.now() - DAYS * 86400000).toISOString();

// Names of tables by the tasks that have their assets as outlets
async function producing(api, names) {
  const tasks = new Map();
  for (let offset = 0; offset < MOST; offset += PAGE) {
    const { assets, total_entries: total } = await get(`${api}/assets`, { uri_prefix_pattern: "hoodie://", limit: PAGE, offset });
    for (const asset of assets) {
      const name = names.get(asset.uri);
      for (const task of name ? asset.producing_tasks : []) tasks.set(idOf(task), [...(tasks.get(idOf(task)) ?? []), name]);
    }
    if (offset + PAGE >= total) break;
  }
  return tasks;
}

// The newest failure of each task
async function failed(api) {
  const { task_instances: found } = await get(instances(api, "~"), { state: STATES, start_date_gte: since(), order_by: "-start_date", limit: PAGE });
  const newest = new Map();
  for (const run of found) if (!newest.has(idOf(run))) newest.set(idOf(run), run);
  return newest;
}

// The task's last run, if that is what failed
async function last(api, failure) {
  const { dag_id: dag, task_id: task } = failure;
  const { task_instances: runs } = await get(instances(api, dag), { task_id: task, start_date_gte: since(), order_by: "-start_date", limit: 1 });
  const run = runs[0];
  if (!run || !STATES.includes(run.state)) return null;
  const base = api.replace(/\/api\/v2$/, "");
  const mapped = run.map_index >= 0 ? `/mapped/${run.map_index}` : "";
  const href = `${base}/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run.dag_run_id)}/tasks/${encodeURIComponent(task)}${mapped}`;
  return { dag_id: dag, task_id: task, map_index: run.map_index, run_id: run.dag_run_id, href, ended: Date.parse(run.end_date ?? run.start_date), retried: run.state !== "failed" };
}
