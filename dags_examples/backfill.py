"""Any days, in any order, several at once: a table that is filled by `airflow backfill create`.

    feed ─► upsert ─► maintenance

    airflow backfill create --dag-id backfilled_upserts --from-date 2013-01-08 --to-date 2013-02-06 \\
        --max-active-runs 4

Runs that write at once queue up for the table: `upsert` waits for its turn (`wait_for_writer`). The order of
the runs does not matter, since of two rows with one key the one that became known later stays
(`ordering_field`). A day that is there already is found and not written again, whichever run wrote it.
Conflicts, as with a writer that is none of Airflow's, are retried later; wrong settings are not.

During a backfill the writes leave out cleaning and archiving, and `maintenance` does it all once, in the run
that ends last. In the scheduled runs it is the other way round.

Needs the Spark connection `spark_default`, for a try on one machine
AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'.

Environment: FLIGHTS_HOME, the folder for the feeds and the table (default: flights, in AIRFLOW_HOME);
FLIGHTS_START, the first day (2013-01-08).
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from airflow_hoodie import HOODIE_RETRIES, BackfillMaintenanceOperator, HoodieTable, UpsertOperator

try:
    from airflow.sdk import CronDataIntervalTimetable
except ImportError:  # Airflow 3.1
    from airflow.timetables.interval import CronDataIntervalTimetable

HOME = Path(os.environ.get("FLIGHTS_HOME") or Path(os.environ.get("AIRFLOW_HOME", "~/airflow"), "flights"))
HOME = HOME.expanduser().absolute()
START = datetime.fromisoformat(os.environ.get("FLIGHTS_START", "2013-01-08")).replace(tzinfo=timezone.utc)

FLIGHTS = HoodieTable(
    name="flights_backfilled",
    path=f"{HOME}/backfilled",
    record_keys=("flight_date", "carrier", "flight", "origin"),
    partition_fields=("flight_date",),
    ordering_field="updated_at",
    options={"hoodie.datasource.write.hive_style_partitioning": "true"},
)

with DAG(
    "backfilled_upserts",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=START,
    end_date=datetime(2013, 12, 31, tzinfo=timezone.utc),  # the last day of the data
    catchup=False,
    default_args=HOODIE_RETRIES,
    doc_md=__doc__,
    tags=["hoodie", "example"],
) as dag:

    @task
    def feed(logical_date: Any = None) -> str:
        """Deliver what became known on the day, as Parquet; the same day is always the same rows."""
        import flights

        day = logical_date.date()
        path = HOME / "days" / f"{day}.parquet"
        return str(path) if path.exists() else flights.deliver(flights.feed(day, HOME), path)

    upsert = UpsertOperator(
        task_id="upsert", table=FLIGHTS, source=feed(), wait_for_writer=timedelta(hours=1)
    )
    # [START howto_backfill_maintenance_operator]
    upsert >> BackfillMaintenanceOperator(task_id="maintenance", table=FLIGHTS, engine="local")
    # [END howto_backfill_maintenance_operator]
