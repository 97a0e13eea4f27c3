"""Days backfilled by a real Airflow, in random order and several at once, with a real spark-submit.

`airflow standalone` (LocalExecutor, SQLite) runs dags_examples/backfill.py; each run first waits for a random
time. Afterwards some days are backfilled again. The table's rows are compared with those of a table that the
local engine wrote day after day, and with hudi-rs where it is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from scripts.environment import ROOT, spark_environment

NAME = "backfill"
DAG_ID = "backfilled_upserts"
FIRST = date(2013, 1, 8)

#: the example's DAG, whose runs begin in random order
SHUFFLED = """
import random, sys
from datetime import datetime, timedelta, timezone
sys.path.insert(0, {examples!r})
from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from backfill import dag
days = [(datetime.fromisoformat({first!r}) + timedelta(days=n)).date().isoformat() for n in range({days})]
random.Random({seed}).shuffle(days)
begin = datetime.fromtimestamp({begin}, timezone.utc)
dag.user_defined_macros = {{
    "turn": lambda day: (begin + timedelta(seconds={step} * days.index(day))).isoformat()}}
with dag:
    DateTimeSensorAsync(task_id="shuffle", target_time="{{{{ turn(ds) }}}}") >> dag.get_task("feed")
"""


class Airflow:
    """`airflow standalone` in a folder of its own."""

    def __init__(self, work: Path, at_once: int) -> None:
        self.work = work
        self.database = work / "airflow" / "airflow.db"
        connection = {"conn_type": "spark", "host": "local[1]", "extra": {"deploy-mode": "client"}}
        port = _free_port()
        kept = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW")}
        self.environ = {
            **spark_environment(),
            **kept,
            "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "spark_jobs")]),
            "AIRFLOW_HOME": str(work / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(work / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": str(at_once),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
            "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": str(at_once),
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "3600",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "1800",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
            "SPARK_CONF_DIR": str(work / "spark"),
            "FLIGHTS_HOME": str(work / "flights"),
            "FLIGHTS_START": FIRST.isoformat(),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Airflow:
        for name in ("airflow", "dags", "spark", "flights"):
            (self.work / name).mkdir()
        settings = "spark.ui.enabled false\nspark.driver.memory 700m\n"
        settings += "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"
        (self.work / "spark" / "spark-defaults.conf").write_text(settings)
        return self

    def start(self) -> None:
        with (self.work / "airflow.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "airflow", "standalone"],
                env=self.environ,
                cwd=self.work,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self) -> None:
        if self.process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
                time.sleep(10)
        self.process.wait()
        self.process = None

    def __exit__(self, *error: object) -> None:
        self.stop()

    def command(self, *arguments: str) -> str:
        """Run `airflow ...` to its end; the command. Nothing else may use the database, which is SQLite."""
        command = [sys.executable, "-m", "airflow", *arguments]
        subprocess.run(command, env=self.environ, cwd=self.work, check=True, stdout=sys.stderr)
        return " ".join(["airflow", *arguments])

    def backfill(self, first: date, last: date, at_once: int, again: str) -> str:
        """Create a backfill, and start Airflow; the command."""
        self.stop()
        command = self.command(
            *("backfill", "create", "--dag-id", DAG_ID, "--from-date", str(first), "--to-date", str(last)),
            *("--max-active-runs", str(at_once), "--reprocess-behavior", again),
        )
        self.start()
        return command

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a query; none as long as the table is not there."""
        try:
            with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30) as connection:
                return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []

    def until(self, enough: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not enough():
            if time.monotonic() > end:
                raise TimeoutError(f"not in {seconds:.0f} s; see {self.work}")
            time.sleep(2)

    def runs(self) -> dict[str, int]:
        return dict(self.ask(f"select state, count(*) from dag_run where dag_id='{DAG_ID}' group by state"))

    def tasks(self) -> list[dict[str, Any]]:
        names = ("task_id", "state", "try_number", "logical_date", "end_date")
        query = f"""select ti.task_id, ti.state, ti.try_number, dr.logical_date, ti.end_date
            from task_instance ti join dag_run dr on dr.dag_id = ti.dag_id and dr.run_id = ti.run_id
            where ti.dag_id = '{DAG_ID}'"""
        return [dict(zip(names, row, strict=True)) for row in self.ask(query)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--at-once", type=int, default=3, help="tasks that run at a time (3)")
    parser.add_argument("--again", type=int, default=3, help="days that are backfilled again (3)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step", type=float, default=10, help="seconds between the starts of two runs (10)")
    parser.add_argument("--work", type=Path, help="a new folder to keep (default: a temporary one)")
    args = parser.parse_args(arguments)
    work = (args.work or Path(tempfile.mkdtemp(prefix="hoodie-backfill-"))).resolve()
    work.mkdir(exist_ok=True)
    print(f"in {work}", file=sys.stderr, flush=True)
    with Airflow(work, args.at_once) as airflow:
        doc = _measure(airflow, args)
    print(json.dumps(doc, indent=1))
    return 0 if doc["equal"] else 1


def _measure(airflow: Airflow, args: argparse.Namespace) -> dict[str, Any]:
    last = FIRST + timedelta(days=args.days - 1)
    source = SHUFFLED.format(
        examples=str(ROOT / "dags_examples"),
        first=FIRST.isoformat(),
        days=args.days,
        seed=args.seed,
        begin=time.time() + 150,
        step=args.step,
    )
    (airflow.work / "dags" / "shuffled.py").write_text(source)
    airflow.command("db", "migrate")
    airflow.command("dags", "reserialize")
    started = time.monotonic()
    command = airflow.backfill(FIRST, last, args.days, "none")
    _wait(airflow, args.days)
    seconds = time.monotonic() - started
    doc = {
        "scenario": NAME,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg(),
        "command": command,
        "seconds": round(seconds),
        "runs": airflow.runs(),
        "tries": max(
            (task["try_number"] for task in airflow.tasks() if task["task_id"] == "upsert"), default=0
        ),
        **_table(airflow.work, args.days),
        "maintenance": [task["state"] for task in airflow.tasks() if task["task_id"] == "maintenance"],
    }
    if args.again:
        command = airflow.backfill(FIRST, FIRST + timedelta(days=args.again - 1), args.days, "completed")
        _wait(airflow, args.days)
        doc["again"] = {"command": command, "runs": airflow.runs(), **_table(airflow.work, args.days)}
    return doc


def _wait(airflow: Airflow, days: int) -> None:
    def over() -> bool:
        found = airflow.runs()
        print(time.strftime("%H:%M:%S"), found, file=sys.stderr, flush=True)
        return found.get("success", 0) + found.get("failed", 0) == days

    airflow.until(over, 3600)
    # the scheduler says after a while that a backfill is over; there can be no other one before
    airflow.until(lambda: not airflow.ask("select 1 from backfill where completed_at is null"), 300)


def _table(work: Path, days: int) -> dict[str, Any]:
    """The table's commits and the order of their days; its rows beside those of an ordered run."""
    import hoodie
    from hoodie.storage.local import LocalStorage
    from hoodie.timeline.active import Timeline
    from hoodie.timeline.token_index import interval_of
    from hoodie.timeline.token_store import TokenStore

    path = str(work / "flights" / "backfilled")
    timeline = Timeline.load(path)
    commits = sorted(TokenStore(timeline, LocalStorage()).unsettled(), key=lambda commit: str(commit.instant))
    found = [interval_of(commit.token) for commit in commits]
    order = [each[1].start.date().isoformat() for each in found if each is not None]
    ours, expected = _rows(hoodie.read_table(path, meta=False)), _rows(_ordered(work, days))
    equal = {"ordered run": ours.equals(expected)}
    if importlib.util.find_spec("hudi"):
        import pyarrow as pa
        from hudi import HudiTableBuilder

        read = HudiTableBuilder.from_base_uri(path).build().read()
        theirs = _rows(pa.Table.from_batches([pa.record_batch(batch) for batch in read]))
        equal["hudi-rs"] = ours.equals(theirs)
    return {
        "commits": len(commits),
        "days in order of commit": order,
        "days that came after a later one": sum(day < max(order[:n]) for n, day in enumerate(order) if n),
        "other instants": [
            str(item) for item in timeline if item.action.value not in ("commit", "deltacommit")
        ],
        "rows": ours.num_rows,
        "equal to": equal,
        "equal": all(equal.values()) and len(commits) == len(set(order)) == days,
    }


def _ordered(work: Path, days: int) -> Any:
    """The rows of a table into which the local engine upserts the same files, one day after the other."""
    import pyarrow.parquet as pq

    import hoodie

    path = str(work / "ordered")
    options = {
        "hoodie.datasource.write.recordkey.field": "flight_date,carrier,flight,origin",
        "hoodie.datasource.write.partitionpath.field": "flight_date",
        "hoodie.datasource.write.precombine.field": "updated_at",
    }
    if not Path(path).exists():
        for number in range(days):
            day = FIRST + timedelta(days=number)
            rows = pq.read_table(work / "flights" / "days" / f"{day}.parquet")
            hoodie.write_table(rows, path, options=options)
    return hoodie.read_table(path, meta=False)


def _rows(rows: Any) -> Any:
    """Data columns by name, rows by key: equal tables become equal."""
    names = sorted(name for name in rows.column_names if not name.startswith("_hoodie_"))
    keys: Any = [(name, "ascending") for name in ("flight_date", "carrier", "flight", "origin")]
    return rows.select(names).sort_by(keys).replace_schema_metadata(None).combine_chunks()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
