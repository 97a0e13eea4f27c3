"""Upserts every hour into a merge-on-read table, and its compaction every night.

    hourly_upserts       feed ─► upsert
    nightly_compaction   compact ─► report

An upsert of a merge-on-read table appends changed rows to logs, which is quick; queries merge the logs as
they read. The nightly DAG merges them into base files, so that queries are quick again. While it executes its
plan the upserts go on. Only at its beginning, when the plan is made, the table must be its own for a moment:
the one that comes second waits for the other.

`feed` delivers what became known in the hour: at five (midnight in New York) the day's flights as scheduled,
and from then on how those of three hours ago went.

Needs the Spark connection `spark_default`, for a try on one machine
AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'.

Environment: FLIGHTS_HOME, the folder for the feeds and the table (default: flights, in AIRFLOW_HOME);
FLIGHTS_START, the first hour (2013-01-08T05); FLIGHTS_HOURS, the number of hours (48).
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from airflow_hoodie import CompactionOperator, HoodieTable, UpsertOperator

try:
    from airflow.sdk import CronDataIntervalTimetable
except ImportError:  # Airflow 3.1
    from airflow.timetables.interval import CronDataIntervalTimetable

HOME = Path(os.environ.get("FLIGHTS_HOME") or Path(os.environ.get("AIRFLOW_HOME", "~/airflow"), "flights"))
HOME = HOME.expanduser().absolute()
START = datetime.fromisoformat(os.environ.get("FLIGHTS_START", "2013-01-08T05")).replace(tzinfo=timezone.utc)
END = START + timedelta(hours=int(os.environ.get("FLIGHTS_HOURS", "48")) - 1)

FLIGHTS = HoodieTable(
    name="flights_live",
    path=f"{HOME}/live",
    table_type="MERGE_ON_READ",
    record_keys=("flight_date", "carrier", "flight", "origin"),
    partition_fields=("flight_date",),
    ordering_field="updated_at",
    options={"hoodie.datasource.write.hive_style_partitioning": "true"},
)
#: a conflict is over when the other one is done
PATIENT = {"retries": 5, "retry_delay": timedelta(minutes=1)}

with DAG(
    "hourly_upserts",
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=START,
    end_date=END,
    catchup=True,
    max_active_runs=1,
    default_args=PATIENT,
    doc_md=__doc__,
    tags=["hoodie", "example"],
) as hourly:

    @task
    def feed(logical_date: Any = None) -> str:
        """Deliver what became known in the hour, as Parquet."""
        import flights

        rows = flights.hour_feed(logical_date, HOME)
        return flights.deliver(rows, HOME / "hours" / f"{logical_date:%Y-%m-%dT%H}.parquet")

    UpsertOperator(task_id="upsert", table=FLIGHTS, source=feed())

with DAG(
    "nightly_compaction",
    schedule=CronDataIntervalTimetable("30 3 * * *", timezone="UTC"),
    start_date=START,
    end_date=END + timedelta(days=1),
    catchup=False,
    max_active_runs=1,
    default_args=PATIENT,
    doc_md=__doc__,
    tags=["hoodie", "example"],
) as nightly:
    # [START howto_compaction_operator]
    compact = CompactionOperator(
        task_id="compact",
        table=FLIGHTS,
        mode="run",
        # however few upserts there were since the last night
        options={"hoodie.compact.inline.max.delta.commits": 1},
    )
    # [END howto_compaction_operator]

    @task
    def report(result: dict[str, Any]) -> str:
        """Say what was done; that there was nothing to do is no failure."""
        if result["status"] == "skipped":
            said = f"nothing to do: {result['reason']}"
        else:
            said = (
                f"{result['num_log_files']} log files of {result['log_bytes']} bytes merged into "
                f"{result['num_files']} files with {result['num_writes']} rows"
            )
        print(said)
        return said

    report(compact.output)
