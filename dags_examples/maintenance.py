"""All services of several tables, every night, one mapped task a table.

    maintenance     tables ─► services [one task for each table] ─► report

Writes clean and archive by themselves; this DAG does what they leave out: it finishes what killed jobs have
begun, compacts merge-on-read tables and, where the table's options ask for it, clusters. While a writer is at
work on a table its task waits (`wait_for_writer`); where a service fails it is retried.

The tables are listed when the run begins, so that a new one needs no new DAG. Of a run that the button of the
timeline page triggered (`[hoodie] maintenance_dag`) it is the one table that the run's conf names. A task per
table starts its job by spark-submit, which starts executors only where there is something to compact or to
cluster; with `engine="local"`, as here by default, it runs on the worker, without a JVM.

Environment: MAINTENANCE_TABLES, a JSON file with a list of tables, each as `HoodieTable.to_dict` gives it
(default: tables.json, in AIRFLOW_HOME); MAINTENANCE_ENGINE, `local` or `spark`.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from airflow_hoodie import MaintenanceOperator

try:
    from airflow.sdk import CronDataIntervalTimetable
except ImportError:  # Airflow 3.1
    from airflow.timetables.interval import CronDataIntervalTimetable

HOME = os.environ.get("AIRFLOW_HOME", "~/airflow")
TABLES = Path(os.environ.get("MAINTENANCE_TABLES") or Path(HOME, "tables.json")).expanduser()
ENGINE = os.environ.get("MAINTENANCE_ENGINE", "local")

with DAG(
    "maintenance",
    schedule=CronDataIntervalTimetable("30 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 5, "retry_delay": timedelta(minutes=1)},
    doc_md=__doc__,
    tags=["hoodie", "example"],
) as dag:

    @task
    def tables(dag_run: Any = None) -> list[dict[str, Any]]:
        """The tables to look after; what the conf names is looked for among the listed ones only."""
        listed: list[dict[str, Any]] = json.loads(TABLES.read_text())
        asked = ((dag_run and dag_run.conf) or {}).get("hoodie_table")
        return [table for table in listed if not asked or table["path"] == asked["path"]]

    # [START howto_maintenance_operator]
    services = MaintenanceOperator.partial(
        task_id="services",
        engine=ENGINE,
        # however few upserts there were since the last night
        options={"hoodie.compact.inline.max.delta.commits": 1},
        max_active_tis_per_dagrun=2,
    ).expand(table=tables())
    # [END howto_maintenance_operator]

    @task
    def report(results: list[dict[str, Any]]) -> list[str]:
        """A line for each table."""
        lines = [f"{result['table']}: {', '.join(result['done']) or 'nothing to do'}" for result in results]
        print(*lines, sep="\n")
        return lines

    report(services.output)
