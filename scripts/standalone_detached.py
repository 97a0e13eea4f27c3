"""A detached job of the local engine under `airflow standalone`, whose triggerer is killed.

    python -m scripts.standalone_detached [--home FOLDER] [--keep]

The job waits for another writer while its task is deferred. Then the triggerer gets SIGKILL, the writer ends,
and another triggerer is started. Prints one JSON document; exit code 1 and the log's end where a check fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from scripts.standalone import Api, airflow_process, check, finished, told, until

DAG = """
from datetime import datetime, timedelta, timezone
from airflow.sdk import DAG
from airflow_hoodie import HoodieTable, UpsertOperator

with DAG("detached", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    UpsertOperator(
        task_id="write",
        table=HoodieTable(name="orders", path=%r, record_keys="id"),
        source=%r,
        engine="local",
        detached=True,
        poll_interval=1,
        retries=3,
        retry_delay=timedelta(seconds=1),
    )
"""
_RUN = "detached-1"


def main() -> int:
    return told(__doc__ or "", _story, _dags)


def _dags(home: Path) -> None:
    """What is there before Airflow starts: the DAG, its source, and a table with a row."""
    import pyarrow as pa

    import hoodie

    (home / "dags").mkdir()
    (home / "dags" / "detached.py").write_text(DAG % (str(home / "orders"), str(home / "news.csv")))
    (home / "news.csv").write_text("id,n\nb,1\n")
    hoodie.Table(home / "orders").upsert(pa.table({"id": ["a"], "n": [0]}), keys="id")


def _story(airflow: Api, home: Path) -> dict[str, Any]:
    import hoodie
    from hoodie.storage.local import LocalStorage
    from hoodie.table.handle import Table, TableRef
    from hoodie.table.heartbeat import Heartbeat

    until("the DAG to be read", lambda: "detached" in {dag["dag_id"] for dag in airflow.get("/dags")["dags"]})
    path = str(home / "orders")
    beat = Heartbeat(Table(TableRef(path), LocalStorage()), "20990101000000000", 60_000, 2)
    beat.start()
    try:
        airflow.unpause("detached")
        airflow.call("POST", "/api/v2/dags/detached/dagRuns", {"logical_date": None, "dag_run_id": _RUN})
        until("the task to be deferred", lambda: _task(airflow)["state"] == "deferred")
        job = until("a life sign of the job", lambda: _job(home))
        killed = _kill(home)
        check("the job goes on", Path(f"/proc/{job}").exists(), True)
    finally:
        beat.stop()
    until("the commit of the job", lambda: len(hoodie.instants(path)) == 2)
    with airflow_process("triggerer", home, airflow.base):
        finished(airflow, "detached", 1)
    result = airflow.xcom("detached", _RUN, "write")
    check("commits", [item["state"] for item in hoodie.instants(path)], ["completed"] * 2)
    check("rows", sorted(hoodie.read_table(path, columns=["id"])["id"].to_pylist()), ["a", "b"])
    check("the result's commit", result["instant"], hoodie.instants(path)[-1]["instant"])
    left = [item.name for item in (home / "orders/.hoodie/.aux/airflow-jobs").glob("*")]
    check("files of jobs that are left", left, [])
    return {"killed": killed, "status": result["status"], "tries": _task(airflow)["try_number"]}


def _task(airflow: Api) -> dict[str, Any]:
    return airflow.tasks("detached", _RUN)["write"]


def _job(home: Path) -> int:
    """The id of the job's process; 0 before its first life sign."""
    for sign in (home / "orders/.hoodie/.aux/airflow-jobs").glob("*.json"):
        return int(json.loads(sign.read_text())["pid"])
    return 0


def _kill(home: Path) -> int:
    """SIGKILL for the triggerer of this Airflow, by its ids; how many processes that were."""
    mine, found = f"AIRFLOW_HOME={home / 'airflow'}".encode(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = mine in (folder / "environ").read_bytes().split(b"\0")
            if ours and b"triggerer" in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)
                found += 1
    check("a triggerer was killed", found > 0, True)
    return found


if __name__ == "__main__":
    sys.exit(main())
