"""Daily upserts of real data into a copy-on-write table: one DAG run a day.

    feed ─► choose ─┬─► bulk_insert ─┬─► committed ─► changes
                    └─► upsert ──────┘

`feed` delivers what became known on the day: its flights as scheduled, and corrections of the days before
(departures, delays, cancellations). The first run finds no table and bulk-inserts all days up to its own;
every later run upserts. `committed` waits for the commit on the table's timeline, and `changes` reads the
rows which that commit changed.

Days are small, so the writes run on the worker (engine "auto"). With the parameter `engine` "spark" they are
submitted, which needs the Spark connection `spark_default`; for a try on one machine
AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'.

Environment: FLIGHTS_HOME, the folder for the feeds and the table (default: flights, in AIRFLOW_HOME);
FLIGHTS_START, the first day (2013-01-08); FLIGHTS_DAYS, the number of days (7); FLIGHTS_ENGINE, what the
parameter `engine` is by default (auto).
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_hoodie import BulkInsertOperator, CommitSensor, HoodieTable, UpsertOperator

try:
    from airflow.sdk import CronDataIntervalTimetable
except ImportError:  # Airflow 3.1
    from airflow.timetables.interval import CronDataIntervalTimetable

HOME = Path(os.environ.get("FLIGHTS_HOME") or Path(os.environ.get("AIRFLOW_HOME", "~/airflow"), "flights"))
HOME = HOME.expanduser().absolute()
START = datetime.fromisoformat(os.environ.get("FLIGHTS_START", "2013-01-08")).replace(tzinfo=timezone.utc)
DAYS = int(os.environ.get("FLIGHTS_DAYS", "7"))

FLIGHTS = HoodieTable(
    name="flights",
    path=f"{HOME}/table",
    record_keys=("flight_date", "carrier", "flight", "origin"),
    partition_fields=("flight_date",),
    ordering_field="updated_at",
    options={"hoodie.datasource.write.hive_style_partitioning": "true"},
)

with DAG(
    "daily_upserts",
    # With this timetable the logical date is the day whose data the run brings, and the run starts when that
    # day is over. The bare "@daily" runs at the day's beginning, for an interval of no length.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=START,
    end_date=START + timedelta(days=DAYS - 1),
    catchup=True,
    max_active_runs=1,
    params={"engine": Param(os.environ.get("FLIGHTS_ENGINE", "auto"), enum=["auto", "local", "spark"])},
    default_args={"engine": "{{ params.engine }}"},
    doc_md=__doc__,
    tags=["hoodie", "example"],
) as dag:

    @task
    def feed(logical_date: Any = None) -> dict[str, str]:
        """Deliver the day's rows as Parquet; say where, and which commit is the table's newest until now."""
        import flights

        day = logical_date.date()
        last = flights.last_instant(FLIGHTS.path)
        rows = flights.feed(day, HOME) if last else flights.known(day, HOME)
        return {"path": flights.deliver(rows, HOME / "feeds" / f"{day}.parquet"), "after": last}

    @task.branch
    def choose(after: str) -> str:
        return "upsert" if after else "bulk_insert"

    delivered = feed()
    # [START howto_bulk_insert_operator]
    # [START howto_upsert_operator]
    writes = [
        BulkInsertOperator(task_id="bulk_insert", table=FLIGHTS, source=delivered["path"]),
        UpsertOperator(task_id="upsert", table=FLIGHTS, source=delivered["path"]),
    ]
    # [END howto_upsert_operator]
    # [END howto_bulk_insert_operator]
    # [START howto_commit_sensor]
    committed = CommitSensor(
        task_id="committed",
        table=FLIGHTS,
        after=delivered["after"],
        trigger_rule="none_failed_min_one_success",
        poke_interval=5,
        timeout=600,
    )
    # [END howto_commit_sensor]

    @task
    def changes(commit: dict[str, str]) -> dict[str, Any]:
        """Read the rows that the commit changed, and sum them up."""
        import flights

        import hoodie

        instant = commit["instant"]
        rows = hoodie.read_table(
            FLIGHTS.path, columns=["status", "arr_delay"], where=f"_hoodie_commit_time = '{instant}'"
        )
        answer = flights.summary(rows)
        print(f"commit {instant}: {answer}")
        return answer

    choose(delivered["after"]) >> writes >> committed
    changes(committed.output)
