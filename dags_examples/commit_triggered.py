"""A report for every day whose flights a commit changed: DAGs that are started by commits of a table.

    commits of the table ─► flights_changed: relay ─► one event a changed day ─► day_report: report

`flights_changed` is started by every commit of the table that `daily_upserts` writes, whoever wrote it; not
by compactions, clusterings and cleans. No task waits for one: the triggerer looks at the table's timeline.
Its task tells which partitions the commits changed, and `day_report` runs once for each of them.

Environment: FLIGHTS_HOME as for `daily_upserts`; the reports are the files in its folder `reports`.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, PartitionedAssetTimetable, task

from airflow_hoodie import HoodieTable, PartitionRelayOperator

HOME = Path(os.environ.get("FLIGHTS_HOME") or Path(os.environ.get("AIRFLOW_HOME", "~/airflow"), "flights"))
HOME = HOME.expanduser().absolute()

FLIGHTS = HoodieTable(
    name="flights",
    path=f"{HOME}/table",
    record_keys=("flight_date", "carrier", "flight", "origin"),
    partition_fields=("flight_date",),
    ordering_field="updated_at",
)
COMMON = {"start_date": datetime(2013, 1, 1, tzinfo=timezone.utc), "tags": ["hoodie", "example"]}

with DAG("flights_changed", schedule=[FLIGHTS.commits()], doc_md=__doc__, **COMMON) as changed:
    # [START howto_partition_relay_operator]
    # keys="value": the partition flight_date=2013-01-08 is told as 2013-01-08
    PartitionRelayOperator(task_id="relay", table=FLIGHTS, keys="value")
    # [END howto_partition_relay_operator]

with DAG(
    "day_report", schedule=PartitionedAssetTimetable(assets=FLIGHTS.partitions), doc_md=__doc__, **COMMON
) as day_report:

    @task
    def report(partition_key: Any = None) -> dict[str, Any]:
        """Count the day's flights by their status."""
        import hoodie

        rows = hoodie.read_table(FLIGHTS.path, where=f"flight_date = '{partition_key}'", columns=["status"])
        counts = rows["status"].value_counts().to_pylist()
        answer = {"day": partition_key, **{str(row["values"]): row["counts"] for row in counts}}
        path = HOME / "reports" / f"{partition_key}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(answer))
        return answer

    report()
