"""The example DAGs under a real `airflow standalone`: scheduler, triggerer, API server and workers.

    scripts/standalone_check [--home FOLDER] [--keep]

Two days of flights are upserted by Spark; sensors wait for the second commit without a worker slot; each
commit starts a DAG run, and that one run for each partition it changed. What is checked is read from
Airflow's API, the table and the reports. Prints one JSON document; exit code 1 and the log's end where a
check fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scripts import demo, environment

DAYS = [date(2013, 1, 2), date(2013, 1, 3)]
DAGS = ("waiting", "flights_changed", "day_report", "daily_upserts")
WAITING = """
from datetime import datetime, timezone
from airflow.sdk import DAG
from airflow_hoodie import CommitSensor

with DAG("waiting", schedule=None, start_date=datetime(2013, 1, 1, tzinfo=timezone.utc)):
    common = {"table": %r, "min_commits": 2, "poke_interval": 1}
    CommitSensor(task_id="deferred", deferrable=True, **common)
    CommitSensor(task_id="direct", start_from_trigger=True, **common)
"""
_TIMEOUT_S = 600
_TAIL = 60


class CheckFailed(Exception):
    """Something is not as it must be; the text says what."""


def main() -> int:
    return told(__doc__ or "", run_examples)


def told(
    doc: str, story: Callable[[Api, Path], dict[str, Any]], before: Callable[[Path], None] | None = None
) -> int:
    """A story in a folder with an Airflow, by the arguments of the command line; `before` lays what is there
    first. Prints what the story gives; the exit code.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--home", type=Path, help="work here (default: a temporary folder)")
    parser.add_argument("--keep", action="store_true", help="leave the folder there")
    arguments = parser.parse_args()
    home = (arguments.home or Path(tempfile.mkdtemp(prefix="hoodie-standalone-"))).absolute()
    home.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    try:
        if before is not None:
            before(home)
        with standalone(home) as airflow:
            found = {**story(airflow, home), "seconds": round(time.monotonic() - started, 1)}
        print(json.dumps(found, indent=1))
        return 0
    except CheckFailed as error:
        print("".join((home / "standalone.log").read_text().splitlines(keepends=True)[-_TAIL:]))
        print(f"standalone: {error}", file=sys.stderr)
        return 1
    finally:
        if not arguments.keep:
            shutil.rmtree(home, ignore_errors=True)


# Airflow -------------------------------------------------------------------------------------------


class Api:
    """Airflow's REST API, signed in as admin."""

    def __init__(self, base: str, password: str) -> None:
        self.base = base
        answer = self.call("POST", "/auth/token", {"username": "admin", "password": password})
        self._token = str(answer["access_token"])

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of an answer, or its text. Raises CheckFailed for what is no success."""
        request = urllib.request.Request(self.base + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if token := getattr(self, "_token", None):
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise CheckFailed(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from None
        try:
            return json.loads(text)
        except ValueError:
            return text

    def get(self, path: str) -> Any:
        return self.call("GET", f"/api/v2{path}")

    def unpause(self, dag: str) -> None:
        self.call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})

    def runs(self, dag: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/dags/{dag}/dagRuns?limit=100")["dag_runs"]
        return found

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        found = self.get(f"/dags/{dag}/dagRuns/{quote(run)}/taskInstances")["task_instances"]
        return {item["task_id"]: item for item in found}

    def xcom(self, dag: str, run: str, task: str) -> Any:
        path = f"/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{task}/xcomEntries/return_value"
        value = self.get(f"{path}?deserialize=false&stringify=false")["value"]
        return json.loads(value) if isinstance(value, str) else value


@contextlib.contextmanager
def standalone(home: Path) -> Iterator[Api]:
    """`airflow standalone` with the example DAGs, once it answers."""
    base = f"http://127.0.0.1:{free_port()}"
    dags = home / "dags"
    shutil.copytree(demo.EXAMPLES, dags, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    (dags / "waiting.py").write_text(WAITING % str(home / "table"))
    with airflow_process("standalone", home, base) as process:
        passwords = home / "airflow" / "simple_auth_manager_passwords.json.generated"
        until("the API server", lambda: process.poll() is not None or (healthy(base) and passwords.exists()))
        if process.poll() is not None:
            raise CheckFailed(f"airflow standalone ended with exit code {process.returncode}")
        yield Api(base, json.loads(passwords.read_text())["admin"])


@contextlib.contextmanager
def airflow_process(command: str, home: Path, base: str) -> Iterator[subprocess.Popen[bytes]]:
    """`airflow <command>` in a process group of its own, ended as a whole; `<command>.log` has its output."""
    with (home / f"{command}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", command],
            env=airflow_environment(home, base),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def airflow_environment(home: Path, base: str) -> dict[str, str]:
    """Of the demo, and: its own port, few processes, lineage to a file, the page's list of tables."""
    found = demo.airflow_environment(home, DAYS, home / "dags")
    lineage = {"type": "file", "log_file_path": str(home / "lineage.jsonl"), "append": True}
    warehouse = {"conn_type": "hoodie", "extra": {"warehouse": str(home)}}
    return {
        **found,
        "PATH": os.pathsep.join([str(environment.interpreter(environment.MAIN).parent), os.environ["PATH"]]),
        "AIRFLOW__API__PORT": base.rpartition(":")[2],
        "AIRFLOW__API__BASE_URL": base,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{base}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "3",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage),
        "AIRFLOW__HOODIE__TABLES": json.dumps({"flights": str(home / "table")}),
        "AIRFLOW_CONN_HOODIE_DEFAULT": json.dumps(warehouse),
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def healthy(base: str) -> bool:
    """Do the API server, the scheduler, the DAG processor and the triggerer all beat?"""
    try:
        with urllib.request.urlopen(f"{base}/api/v2/monitor/health", timeout=10) as answer:
            parts = json.load(answer)
    except (OSError, ValueError):
        return False
    names = ("scheduler", "dag_processor", "triggerer")
    return all(parts[name]["status"] == "healthy" for name in names)


def end(process: subprocess.Popen[bytes]) -> None:
    """The whole group: standalone's processes take their time with SIGTERM."""
    for number, patience in ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)


def until(what: str, holds: Callable[[], Any], seconds: float = _TIMEOUT_S) -> Any:
    """What `holds` gives once it is true. Raises CheckFailed."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise CheckFailed(f"{what}: not in {seconds:g} s")
        time.sleep(0.5)
    return found


def check(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise CheckFailed(f"{what}: {found!r}, expected {expected!r}")


# The story -----------------------------------------------------------------------------------------


def run_examples(airflow: Api, home: Path) -> dict[str, Any]:
    """Run all and check it; what was found, for people."""
    until("the DAGs to be read", lambda: set(DAGS) <= {dag["dag_id"] for dag in airflow.get("/dags")["dags"]})
    check("import errors", airflow.get("/importErrors")["import_errors"], [])
    waiting = start_waiting(airflow)
    start_watching(airflow)
    airflow.unpause("daily_upserts")
    writes = finished(airflow, "daily_upserts", len(DAYS))
    return {
        **check_waiting(airflow, waiting),
        **check_writes(airflow, home, writes),
        **check_fan_out(airflow, home),
        **check_provider(airflow, home, writes[-1]),
    }


def finished(airflow: Api, dag: str, number: int) -> list[str]:
    """Ids of so many runs of a DAG, by logical date, once all of them have succeeded."""

    def done() -> list[str]:
        runs = sorted(airflow.runs(dag), key=lambda run: run["logical_date"] or run["run_after"])
        failed = [run["dag_run_id"] for run in runs if run["state"] == "failed"]
        if failed:
            raise CheckFailed(f"runs of {dag} failed: {failed}")
        ended = [run["dag_run_id"] for run in runs if run["state"] == "success"]
        return ended if len(ended) >= number else []

    found: list[str] = until(f"{number} runs of {dag}", done)
    return found


def start_waiting(airflow: Api) -> dict[str, Any]:
    """Sensors that wait, and how many slots they take meanwhile."""
    airflow.unpause("waiting")
    body = {"logical_date": None, "dag_run_id": "waiting-1"}
    airflow.call("POST", "/api/v2/dags/waiting/dagRuns", body)

    def deferred() -> bool:
        states = {item["state"] for item in airflow.tasks("waiting", "waiting-1").values()}
        return states == {"deferred"}

    until("both sensors to be deferred", deferred)
    time.sleep(3)  # the worker that looked once for `deferred` has gone
    pools, running = [], []
    for _ in range(5):
        pools.append(airflow.get("/pools/default_pool"))
        query = "/dags/~/dagRuns/~/taskInstances?state=running&state=queued"
        running.append(airflow.get(query)["total_entries"])
        time.sleep(0.5)
    check("both still wait", deferred(), True)
    slots = {name: [pool[name] for pool in pools] for name in ("running_slots", "queued_slots")}
    check("slots of sensors that wait", slots, {name: [0] * 5 for name in slots})
    check("running tasks while sensors wait", running, [0] * 5)
    return {"waiting_sensors": 2, "running_tasks_meanwhile": max(running)}


def start_watching(airflow: Api) -> None:
    """Unpause the consumers, and wait until the watcher of the table has taken its place."""
    airflow.unpause("flights_changed")
    airflow.unpause("day_report")

    def placed() -> bool:
        assets = airflow.get("/assets?limit=100")["assets"]
        ids = [asset["id"] for asset in assets if "events=commits" in asset["uri"]]
        stored = [airflow.get(f"/assets/{number}/state-store") for number in ids]
        return any("hoodie.place" in json.dumps(item) for item in stored)

    until("the watcher to begin", placed)


def check_waiting(airflow: Api, found: dict[str, Any]) -> dict[str, Any]:
    finished(airflow, "waiting", 1)
    tasks = airflow.tasks("waiting", "waiting-1")
    check(
        "the sensors", {name: item["state"] for name, item in tasks.items()}, dict.fromkeys(tasks, "success")
    )
    direct = airflow.xcom("waiting", "waiting-1", "direct")
    return {**found, "sensor_found": direct["instant"]}


def check_writes(airflow: Api, home: Path, runs: list[str]) -> dict[str, Any]:
    """Each day's commit, the rows, and that a cleared task writes nothing twice."""
    import hoodie

    sys.path.insert(0, str(demo.EXAMPLES))
    import flights  # type: ignore[import-not-found]

    writer = {runs[0]: "bulk_insert", **dict.fromkeys(runs[1:], "upsert")}
    results = [airflow.xcom("daily_upserts", run, task) for run, task in writer.items()]
    check("status of the writes", [item["status"] for item in results], ["committed"] * len(runs))
    instants = [item["instant"] for item in hoodie.instants(str(home / "table"))]
    check("instants of the table", instants, [item["instant"] for item in results])
    rows = demo.ordered(hoodie.read_table(str(home / "table"), meta=False))
    expected = demo.ordered(flights.known(DAYS[-1], home))
    check("the rows are those known on the last day", rows.equals(expected), True)

    body = {"dry_run": False, "dag_run_id": runs[-1], "task_ids": ["upsert"], "only_failed": False}
    airflow.call("POST", "/api/v2/dags/daily_upserts/clearTaskInstances", body)
    until("the cleared task", lambda: airflow.tasks("daily_upserts", runs[-1])["upsert"]["try_number"] > 1)
    finished(airflow, "daily_upserts", len(runs))
    again = airflow.xcom("daily_upserts", runs[-1], "upsert")
    check("the cleared task", (again["status"], again["instant"]), ("already_committed", instants[-1]))
    return {"commits": instants, "rows": rows.num_rows, "cleared": again["status"]}


def check_fan_out(airflow: Api, home: Path) -> dict[str, Any]:
    """Every partition that the commits changed has been reported, as it is now."""
    import hoodie

    days = [str(DAYS[0] - timedelta(days=1)), *map(str, DAYS)]

    def reported() -> bool:
        keys = [run["partition_key"] for run in airflow.runs("day_report") if run["state"] == "success"]
        return set(keys) >= set(days) and not [
            run for run in airflow.runs("flights_changed") if run["state"] in ("queued", "running")
        ]

    until("a report for each changed day", reported)
    until("the last reports", lambda: all(run["state"] == "success" for run in airflow.runs("day_report")))
    for day in days:
        rows = hoodie.read_table(str(home / "table"), where=f"flight_date = '{day}'", columns=["status"])
        counts = {row["values"]: row["counts"] for row in rows["status"].value_counts().to_pylist()}
        report = json.loads((home / "reports" / f"{day}.json").read_text())
        check(f"report of {day}", report, {"day": day, **counts})
    relays = [run["state"] for run in airflow.runs("flights_changed")]
    check("runs that commits started", set(relays), {"success"})
    return {"runs_by_commits": len(relays), "runs_by_partition": len(airflow.runs("day_report"))}


def check_provider(airflow: Api, home: Path, run: str) -> dict[str, Any]:
    """Links, the page they lead to, lineage, and the connection's form and test."""
    links = airflow.get(f"/dags/daily_upserts/dagRuns/{quote(run)}/taskInstances/upsert/links")["extra_links"]
    check("links", sorted(links), ["Hudi commit", "Hudi timeline", "Spark UI"])
    for name in ("Hudi commit", "Hudi timeline"):
        check(f"link {name}", links[name].startswith(f"{airflow.base}/hoodie/?table="), True)
        page = airflow.call("GET", links[name].removeprefix(airflow.base))
        check(f"page of {name}", "<html" in str(page), True)
    tables = airflow.call("GET", "/hoodie/tables")["tables"]
    check("tables of the page", [table["name"] for table in tables], ["flights"])
    body = {
        "connection_id": "hoodie_default",
        "conn_type": "hoodie",
        "extra": json.dumps({"warehouse": str(home)}),
    }
    tested = airflow.call("POST", "/api/v2/connections/test", body)
    check(
        "test of the connection",
        (tested["status"], "table (COPY_ON_WRITE)" in tested["message"]),
        (True, True),
    )
    forms = airflow.call("GET", "/ui/connections/hook_meta")
    check("form of the connection", "hoodie" in {form["connection_type"] for form in forms}, True)
    events = [json.loads(line) for line in (home / "lineage.jsonl").read_text().splitlines() if line]
    written = [
        output
        for event in events
        if event["eventType"] == "COMPLETE" and event["job"]["name"] == "daily_upserts.upsert"
        for output in event.get("outputs", [])
    ]
    check("lineage of the upsert", {item["name"] for item in written}, {str(home / "table")})
    columns = [field["name"] for field in written[0]["facets"]["schema"]["fields"]]
    check("columns in the lineage", "flight_date" in columns, True)
    return {"connection": tested["message"], "lineage_events": len(events), "lineage_columns": len(columns)}


if __name__ == "__main__":
    sys.exit(main())
