"""Daily upserts, the upgrade of their table between two runs, and the way back.

    versioned_upserts   feed ─► create ─► upsert                           [every day]
    upgrade_flights     savepoint ─► plan ─► upgrade ─► check              [by hand]
    downgrade_flights   plan ─► downgrade ─► check ─► release              [by hand]
    restore_flights     restore                                            [by hand]

    airflow dags trigger upgrade_flights --conf '{"to": "9"}'

On the first day `create` makes a table of version 6, that of Apache Hudi 0.14 and 0.15. The upserts say
nothing of the version: they write to the table as it is. So the DAG goes on after the upgrade, with the same
tokens: a day that is cleared is found, whichever version it was written with. While the version changes an
upsert waits (`wait_for_writer`), and the upgrade waits for an upsert; queries go on.

`savepoint` keeps the files of the newest commit, `plan` says what the upgrade will do and how many bytes it
will merge and delete, `check` compares the rows with those of the savepoint. `downgrade_flights` is the way
back, with all rows that were written since; it deletes the savepoint in the end. `restore_flights` takes the
table back to the rows of the savepoint, in whatever version the table has by then.

All run on the worker (engine "local").

Environment: FLIGHTS_HOME, the folder for the feeds and the table (default: flights, in AIRFLOW_HOME);
FLIGHTS_START, the first day (2013-01-08); FLIGHTS_DAYS, the number of days (7).
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_hoodie import (
    HOODIE_RETRIES,
    DowngradeOperator,
    HoodieTable,
    RestoreOperator,
    SavepointOperator,
    UpgradeOperator,
    UpsertOperator,
)

try:
    from airflow.sdk import CronDataIntervalTimetable
except ImportError:  # Airflow 3.1
    from airflow.timetables.interval import CronDataIntervalTimetable

HOME = Path(os.environ.get("FLIGHTS_HOME") or Path(os.environ.get("AIRFLOW_HOME", "~/airflow"), "flights"))
HOME = HOME.expanduser().absolute()
START = datetime.fromisoformat(os.environ.get("FLIGHTS_START", "2013-01-08")).replace(tzinfo=timezone.utc)
DAYS = int(os.environ.get("FLIGHTS_DAYS", "7"))

FLIGHTS = HoodieTable(
    name="flights_versioned",
    path=f"{HOME}/versioned",
    record_keys=("flight_date", "carrier", "flight", "origin"),
    partition_fields=("flight_date",),
    ordering_field="updated_at",
    options={"hoodie.datasource.write.hive_style_partitioning": "true"},
)
COMMON: dict[str, Any] = {"table": FLIGHTS, "engine": "local"}
BY_HAND: dict[str, Any] = {
    "schedule": None,
    "max_active_runs": 1,
    "default_args": HOODIE_RETRIES,
    "doc_md": __doc__,
    "tags": ["hoodie", "example"],
}


@task
def check(savepoint: str) -> int:
    """The rows of the savepoint are those that it had: none is lost, none came twice."""
    import hoodie

    saved = hoodie.read_table(FLIGHTS.path, columns=["flight_date"], as_of=savepoint)
    now = hoodie.read_table(FLIGHTS.path, columns=["_hoodie_commit_time", "_hoodie_record_key"])
    keys = now.column("_hoodie_record_key").unique()
    if len(keys) != now.num_rows or now.num_rows < saved.num_rows:
        raise ValueError(f"{now.num_rows} rows with {len(keys)} keys, the savepoint has {saved.num_rows}")
    return now.num_rows


with DAG(
    "versioned_upserts",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=START,
    end_date=START + timedelta(days=DAYS - 1),
    catchup=True,
    max_active_runs=1,
    default_args=HOODIE_RETRIES,
    doc_md=__doc__,
    tags=["hoodie", "example"],
) as daily:

    @task
    def feed(logical_date: Any = None) -> str:
        """Deliver what became known on the day, as Parquet; the same day is always the same rows."""
        import flights

        day = logical_date.date()
        path = HOME / "days" / f"{day}.parquet"
        return str(path) if path.exists() else flights.deliver(flights.feed(day, HOME), path)

    @task
    def create(source: str) -> str:
        """Make the table, unless it is there, of a version that `upgrade_flights` changes."""
        import pyarrow.parquet as pq

        import hoodie

        hoodie.Table.create(
            FLIGHTS.path,
            pq.read_schema(source),
            keys=FLIGHTS.record_keys,
            partition_by=FLIGHTS.partition_fields,
            ordering=FLIGHTS.ordering_field,
            version=6,
            name=FLIGHTS.name,
            exist_ok=True,
            options=FLIGHTS.options,
        )
        return source

    UpsertOperator(task_id="upsert", source=create(feed()), **COMMON)

with DAG("upgrade_flights", params={"to": Param("9", enum=["8", "9"])}, **BY_HAND) as up:
    savepoint = SavepointOperator(task_id="savepoint", **COMMON)
    # [START howto_upgrade_operator]
    planned = UpgradeOperator(task_id="plan", to="{{ params.to }}", dry_run=True, **COMMON)
    upgraded = UpgradeOperator(task_id="upgrade", to="{{ params.to }}", **COMMON)
    # [END howto_upgrade_operator]
    made = check("{{ ti.xcom_pull(task_ids='savepoint')['instant'] }}")
    savepoint >> planned >> upgraded >> made

INSTANT = Param("", type="string", title="The savepoint, from the task savepoint of upgrade_flights")

with DAG(
    "downgrade_flights", params={"to": Param("6", enum=["6", "8"]), "savepoint": INSTANT}, **BY_HAND
) as down:
    # [START howto_downgrade_operator]
    planned_back = DowngradeOperator(task_id="plan", to="{{ params.to }}", dry_run=True, **COMMON)
    downgraded = DowngradeOperator(task_id="downgrade", to="{{ params.to }}", **COMMON)
    # [END howto_downgrade_operator]
    release = SavepointOperator(task_id="release", instant="{{ params.savepoint }}", delete=True, **COMMON)
    planned_back >> downgraded >> check("{{ params.savepoint }}") >> release

with DAG("restore_flights", params={"savepoint": INSTANT}, **BY_HAND) as back:
    RestoreOperator(task_id="restore", instant="{{ params.savepoint }}", **COMMON)
