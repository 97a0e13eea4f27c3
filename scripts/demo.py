"""A week of daily upserts of real flights: Airflow with SQLite runs the example DAG, which writes the table.

The first days are submitted to Spark, the others run on the worker, without a JVM.

    scripts/demo [--days N] [--start YYYY-MM-DD]

Everything lives in .demo, made anew each time. The DAG's runs go through `dag.test`, one logical date after
the other, in a process of their own whose output is kept in .demo/airflow.log. This process shows the
progress, then reads the table with our reader and with hudi-rs, and compares.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts import environment

if TYPE_CHECKING:
    import pyarrow as pa

HOME = environment.ROOT / ".demo"
TABLE = HOME / "table"
EXAMPLES = environment.ROOT / "dags_examples"
LOG = HOME / "airflow.log"

#: what a line of the log tells about the running task, by pattern
_TOLD = (
    re.compile(r"\[info *\] \[((?:source|stage|write|commit)\] .*?) +\[airflow"),
    re.compile(r"\[info *\] (engine='auto' takes .*?) +\[airflow"),
    re.compile(r"\b(commit \d+: \{.*\})"),
)
_TAIL = 40
#: days that are submitted to Spark; "auto" takes the local engine for the others
ON_SPARK = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=7, help="how many days to upsert (default 7)")
    parser.add_argument(
        "--start", type=date.fromisoformat, default=date(2013, 1, 8), help="the first of them"
    )
    parser.add_argument("--runs", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    days = [arguments.start + timedelta(days=number) for number in range(arguments.days)]
    if arguments.runs:
        return run_days(days)
    started = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    say(f"flights of {days[0]} to {days[-1]}, one DAG run a day; log in {LOG.relative_to(environment.ROOT)}")
    if not follow_runs(days, started):
        return 1
    same = show_table(days)
    say(f"done in {time.monotonic() - started:.0f} s; the table is {TABLE.relative_to(environment.ROOT)}")
    return 0 if same else 1


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


# The runs, in a process of their own ---------------------------------------------------------------


def airflow_environment(home: Path, days: list[date], dags: Path = EXAMPLES) -> dict[str, str]:
    """Airflow with SQLite and the Spark connection, for a folder and these days only."""
    connection = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
    kept = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW_")}
    return {
        **kept,
        **environment.spark_environment(),
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
        "SPARK_CONF_DIR": str(spark_settings(home)),
        "FLIGHTS_HOME": str(home),
        "FLIGHTS_START": days[0].isoformat(),
        "FLIGHTS_DAYS": str(len(days)),
        "FLIGHTS_ENGINE": "spark",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(environment.ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
    }


def spark_settings(home: Path) -> Path:
    """A folder with spark-defaults.conf for jobs of seconds: no UI, and a compiler that is ready early."""
    folder = home / "spark"
    folder.mkdir(exist_ok=True)
    (folder / "spark-defaults.conf").write_text(
        "spark.ui.enabled false\nspark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"
    )
    return folder


def run_days(days: list[date]) -> int:
    """Create Airflow's database and run the DAG for each day; marks its progress with DEMO lines."""
    from airflow.utils.db import initdb

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # let the hook end its job
    mark("Airflow: database (SQLite)")
    initdb()
    from airflow.dag_processing.dagbag import BundleDagBag
    from airflow.sdk import timezone

    bag = BundleDagBag(dag_folder=EXAMPLES, bundle_path=EXAMPLES, bundle_name="dags-folder")
    dag = bag.get_dag("daily_upserts")
    if dag is None:
        raise SystemExit(f"Airflow can't load the example: {bag.import_errors}")
    for number, day in enumerate(days, 1):
        engine = "spark" if number <= ON_SPARK else "auto"
        mark(f"run {number} of {len(days)}: {day}, engine={engine!r}")
        began = time.monotonic()
        run = dag.test(logical_date=timezone.parse(f"{day}T00:00:00+00:00"), run_conf={"engine": engine})
        if run.state != "success":
            mark(f"run {day}: {run.state}")
            return 1
        mark(f"    the run took {time.monotonic() - began:.1f} s")
    return 0


def mark(text: str) -> None:
    print(f"DEMO {json.dumps(text)}", flush=True)


def follow_runs(days: list[date], started: float) -> bool:
    """Start the runs, show what they do; False, with the end of their log, when they failed."""
    command = [
        sys.executable,
        "-m",
        "scripts.demo",
        "--runs",
        "--days",
        str(len(days)),
        "--start",
        days[0].isoformat(),
    ]
    process = subprocess.Popen(
        command,
        cwd=HOME,
        env=airflow_environment(HOME, days),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    try:
        with LOG.open("w") as log:
            for line in process.stdout:
                log.write(line)
                for text in told(line):
                    print(f"[{time.monotonic() - started:4.0f} s] {text}", flush=True)
    except BaseException:
        process.terminate()
        raise
    finally:
        code = process.wait()
    if code == 0:
        return True
    say(f"the runs failed with exit code {code}; the last lines of {LOG}:")
    print("".join(LOG.read_text(errors="replace").splitlines(keepends=True)[-_TAIL:]))
    return False


def told(line: str) -> Iterator[str]:
    """What a line of the runs' output says to people."""
    if line.startswith("DEMO "):
        yield json.loads(line[len("DEMO ") :])
        return
    for pattern in _TOLD:
        if found := pattern.search(line):
            yield f"    {found[1].replace(']', ':', 1)}"
            return


# The table, read twice -----------------------------------------------------------------------------


def show_table(days: list[date]) -> bool:
    """Timeline, files, and a query's answer from two readers; False when they disagree."""
    from hoodie.cli import main as hoodie_command

    for command in ("timeline", "files"):
        print(f"\n$ hoodie {command} --table {TABLE.relative_to(environment.ROOT)}\n", flush=True)
        hoodie_command([command, "--table", str(TABLE)])
    ours, theirs, expected = our_rows(), hudi_rs_rows(), known_rows(days[-1])
    print(f"\nRows of the table: {ours.num_rows:,} with our reader, {theirs.num_rows:,} with hudi-rs")
    same = True
    for title, query in QUERIES.items():
        answer, other = ask(ours, query), ask(theirs, query)
        print(f"\n{title}\n")
        print_answers(answer, other)
        same = same and answer == other
    equal = {"hudi-rs": ours.equals(theirs), "the flights known on the last day": ours.equals(expected)}
    print()
    for name, agrees in equal.items():
        say(f"our reader's rows {'equal' if agrees else 'DIFFER FROM'} those of {name}")
    return same and all(equal.values())


QUERIES = {
    "Flights of each day": """
        SELECT flight_date AS day, count(*) AS flights, count(*) FILTER (status = 'landed') AS landed,
               count(*) FILTER (status = 'cancelled') AS cancelled,
               count(*) FILTER (status = 'diverted') AS diverted,
               count(*) FILTER (status IN ('scheduled', 'departed')) AS open
        FROM flights GROUP BY 1 ORDER BY 1""",
    "Mean arrival delay of each carrier, in minutes": """
        SELECT carrier, count(arr_delay) AS landed, round(avg(arr_delay), 2) AS mean_arrival_delay
        FROM flights GROUP BY 1 ORDER BY 3, 1""",
}


def our_rows() -> pa.Table:
    import hoodie

    return ordered(hoodie.read_table(str(TABLE), meta=False))


def hudi_rs_rows() -> pa.Table:
    import pyarrow as pa
    from hudi import HudiTableBuilder

    batches = HudiTableBuilder.from_base_uri(str(TABLE)).build().read()
    return ordered(pa.Table.from_batches([pa.record_batch(batch) for batch in batches]))


def known_rows(day: date) -> pa.Table:
    """What the table must hold after that day, straight from the data."""
    sys.path.insert(0, str(EXAMPLES))
    import flights  # type: ignore[import-not-found]

    return ordered(flights.known(day, HOME))


def ordered(rows: pa.Table) -> pa.Table:
    """Data columns by name, rows by key: equal tables become equal."""
    names = sorted(name for name in rows.column_names if not name.startswith("_hoodie_"))
    keys: Any = [(name, "ascending") for name in ("flight_date", "carrier", "flight", "origin")]
    return rows.select(names).sort_by(keys).replace_schema_metadata(None).combine_chunks()


def ask(rows: pa.Table, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a query over `flights`."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("flights", rows)
        answer = connection.execute(query)
        return [column[0] for column in answer.description or ()], answer.fetchall()


def print_answers(ours: tuple[list[str], list[Any]], theirs: tuple[list[str], list[Any]]) -> None:
    """One table when both say the same, else both."""
    from hoodie.cli.output import grid

    if ours == theirs:
        print(grid(*ours))
        print("\n(our reader and hudi-rs say the same)")
        return
    print(f"our reader:\n{grid(*ours)}\n\nhudi-rs:\n{grid(*theirs)}\n\nTHEY DIFFER")


if __name__ == "__main__":
    sys.exit(main())
