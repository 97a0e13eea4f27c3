"""Tables of many files, and of many instants: each step in a process of its own, with what it asked for.

`files`: 100,000 base files in 10,000 partitions, which ten commits wrote: the table is opened, an upsert of
1,000 rows is planned and made, again and again with all services automatic, and one partition is queried.
Then the files of a query of all rows are listed by the folders and by a metadata table.

`instants`: a timeline of 10,000 commits, each of which wrote one file: opened, polled by sensors, queried and
written to, before and after it is archived.

`growth`, for each size of `--files`: ten files a partition, made by twenty commits; all but the partitions
that upserts touch are hard links. Upserts of 1,000 rows into ten partitions, and queries, while these commits
are on the timeline, when they are archived, and with a metadata table. What cleans, archives, makes
and compacts the metadata table is measured, too; with `--statistics`, the indexes of
statistics. `--version 9`: of that version; `--type MERGE_ON_READ`: of that type, its plan of a compaction.

Each step is a process of its own, and its CPU seconds begin after the imports. Storage calls do not depend on
the machine's load. All tables are true ones (tests.support.large_table).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from scripts.environment import ROOT
from tests.support.large_table import OPTIONS, LargeTable

from . import output
from .counting import cost
from .metadata import ENABLE, SHORT

NAME = "scale"
CASES = ("files", "instants", "growth")
#: partitions that an upsert touches: of ten files of ten rows each
TOUCHED = 10
NO_SERVICES = {"hoodie.table.services.enabled": "false"}
#: commits that make a table of `growth`
MADE_BY = 20


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 when a step fails, or has other rows than it must."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", choices=CASES, help="one of them (files, instants; with --files: growth)")
    parser.add_argument("--files", help="of the tables of growth (1000,10000,100000,1000000)")
    parser.add_argument("--version", type=int, default=6, choices=(6, 9), help="of growth and instants (6)")
    parser.add_argument("--type", default="COPY_ON_WRITE", help="of the tables of growth (COPY_ON_WRITE)")
    parser.add_argument("--statistics", action="store_true", help="in growth: make the indexes of statistics")
    parser.add_argument("--partitions", type=int, default=10_000, help="of the table of files (10,000)")
    parser.add_argument("--instants", type=int, default=10_000, help="of the timeline (10,000)")
    parser.add_argument("--commits", type=int, help="that made the table of files (10), or of growth (20)")
    parser.add_argument("--upserts", type=int, default=14, help="into the table of files (14)")
    parser.add_argument("--work", type=Path, help="keep the tables here (default: a temporary folder)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.step:
        print(json.dumps(_step(**json.loads(args.step))))
        return 0
    results = []
    with output.folder(args.work, NAME) as folder:
        for case in [args.case] if args.case else CASES[2:] if args.files else CASES[:2]:
            if case == "growth":
                for files in map(int, (args.files or "1000,10000,100000,1000000").split(",")):
                    path = f"{folder}/growth{args.version}-{files}"
                    table = LargeTable(
                        path,
                        files // 10,
                        commits=args.commits or MADE_BY,
                        version=args.version,
                        kind=args.type,
                        real=TOUCHED,
                    )
                    results.append(_measured(case, table, _of_growth(table, statistics=args.statistics)))
                    shutil.rmtree(path)
            elif case == "files":
                table = LargeTable(f"{folder}/files", args.partitions, commits=args.commits or 10)
                results.append(_measured(case, table, _of_files(args.upserts)))
            else:
                path = f"{folder}/instants"
                table = LargeTable(path, args.instants // 10, commits=args.instants, version=args.version)
                results.append(_measured(case, table, _of_instants()))
    output.write({"scenario": NAME, "cpus": os.cpu_count(), "results": results}, args.out)
    return 0


def _of_files(upserts: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in ("open", "query", "plan"):
        yield name, {"version": 1}
    for version in range(1, upserts + 1):
        yield "upsert", {"version": version}
    yield "query", {"version": upserts}
    yield "plan", {"version": upserts + 1}
    yield "list", {}
    yield "index", {}
    yield "list", {}


def _of_growth(table: LargeTable, *, statistics: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    versions = itertools.count(1)
    alone, kept = {**NO_SERVICES, ENABLE: "false"}, {**NO_SERVICES, ENABLE: "true"}
    compacting = {
        ENABLE: "true",
        "hoodie.metadata.compact.max.delta.commits": "1",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }

    def used(stage: str, options: Mapping[str, str], upserts: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for number in range(upserts):
            first = "" if number else "the first, "
            yield f"upsert, {first}{stage}", {"version": next(versions), "options": options}
        for name in ("query", "list"):
            yield f"{name}, {stage}", {}

    yield "open", {}
    yield from used("commits on the timeline", alone, 3)
    if table.kind == "MERGE_ON_READ":
        yield "compact", {"options": {"hoodie.compact.inline.max.delta.commits": "1"}}
        return
    for name in ("clean", "archive"):
        yield name, {"options": {**SHORT, ENABLE: "false"}}
    yield from used("archived", alone, 3)
    yield "clean, archived", {"options": {**SHORT, ENABLE: "false"}}
    yield from used("metadata table", kept, 4)
    yield "upsert, metadata table compacts", {"version": next(versions), "options": compacting}
    for name in ("clean", "archive", "list"):
        yield f"{name}, metadata table compacted", {"options": {**SHORT, ENABLE: "true"}}
    if statistics:
        yield from used("statistics", {**kept, "hoodie.metadata.index.column.stats.enable": "true"}, 2)


def _of_instants() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for version in (1, 2):
        for name in ("open", "poll", "query"):
            yield name, {"version": version}
        yield "upsert", {"version": version, "options": NO_SERVICES}
        yield "upsert", {"version": version, "options": NO_SERVICES, "token": f"dag/write/{version}"}
        if version == 1:
            yield "clean", {}
            yield "archive", {}


def _measured(case: str, table: LargeTable, steps: Iterator[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    began = time.perf_counter()
    if not Path(table.path).exists():
        table.make()
    found: list[dict[str, Any]] = []
    made = round(time.perf_counter() - began, 1)
    print(f"{case}: {table} in {made} s", file=sys.stderr, flush=True)
    for name, arguments in steps:
        request = json.dumps({"name": name.partition(",")[0], "table": asdict(table), **arguments})
        command = [sys.executable, "-m", "benchmarks", NAME, "--step", request]
        run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        row = {"step": name, **json.loads(run.stdout.splitlines()[-1])}
        found.append(row)
        shown = [f"{key} {row[key]}" for key in ("seconds", "cpu_seconds", "storage_calls", "peak_mib")]
        sizes = [f"{key} {row[key] / 1e6:.1f} MB" for key in ("timeline_bytes", "bytes_written")]
        print(f"{name:8}", *shown, *sizes, file=sys.stderr, flush=True)
    return {"case": case, "table": asdict(table), "made_seconds": made, "steps": found}


def _step(
    name: str,
    table: Mapping[str, Any],
    version: int = 1,
    options: Mapping[str, str] | None = None,
    token: str = "",
) -> dict[str, Any]:
    large = LargeTable(**table)
    run = _STEPS[name](large, version, {**OPTIONS, **(options or {})}, token)
    with cost() as found:
        answer = run()
    return {**found.to_dict(), **answer}


Step = Callable[[], dict[str, Any]]


def _open(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    from hoodie.table.handle import Table

    return lambda: {"instants": len(list(Table.open(table.path).timeline))}


def _write(
    table: LargeTable, version: int, options: Mapping[str, str], token: str, *, dry_run: bool = False
) -> Step:
    import hoodie
    from hoodie.timeline.tokens import TOKEN_KEY

    rows = table.upsert(range(TOUCHED), version)

    def run() -> dict[str, Any]:
        done = hoodie.write_table(
            rows,
            table.path,
            options=options,
            extra_metadata={TOKEN_KEY: token} if token else {},
            dry_run=dry_run,
        )
        assert not done.warnings, done.warnings
        assert (done.num_updates, done.num_inserts) == (rows.num_rows, 0)
        return {"rows": rows.num_rows, "files": done.num_files}

    return run


def _query(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    import hoodie

    partition = table.partition(TOUCHED // 2)

    def run() -> dict[str, Any]:
        found: pa.Table = hoodie.read_table(table.path, where=f"part = '{partition}'")
        assert found.num_rows == table.files * table.rows, found.num_rows
        return {"rows": found.num_rows}

    return run


def _poll(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    from airflow_hoodie.commits import TableReader
    from airflow_hoodie.conditions import condition

    last = table.instant(table.commits - 1)
    conditions = {
        "a commit after an instant": condition("commits", {"after": last}),
        "freshness": condition("freshness", {"max_age": 1}),
        "a partition": condition("partitions", {"partitions": table.partition(0)}),
    }

    def run() -> dict[str, Any]:
        taken: dict[str, list[float]] = {}
        for name, wanted in conditions.items():
            reader = TableReader(table.path)
            for _ in range(2):
                begin = time.process_time()
                wanted.find(reader, found := reader.poll())
                spent = (time.process_time() - begin) * 1e6 / len(list(found))
                taken.setdefault(name, []).append(round(spent, 1))
        return {"first_and_next_cpu_us_an_instant": taken}

    return run


def _archive(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    import hoodie

    return lambda: {"archived": len(hoodie.archive_table(table.path, options=options).archived)}


def _clean(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    import hoodie

    return lambda: {"deleted": hoodie.clean_table(table.path, options=options).num_files}


def _compact(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    import hoodie

    def run() -> dict[str, Any]:
        done = hoodie.compact_table(table.path, mode="schedule", options=options)
        return {"scheduled": str(done)}

    return run


def _plan(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    return _write(table, version, options, token, dry_run=True)


def _index(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    from tests.support.metadata_index import make_metadata_table

    return lambda: {"made": str(make_metadata_table(table.path))}


def _list(table: LargeTable, version: int, options: Mapping[str, str], token: str) -> Step:
    from hoodie.read.table_view import TableView
    from hoodie.table.handle import Table

    def run() -> dict[str, Any]:
        view = TableView.load(Table.open(table.path))
        assert len(view.slices) == table.partitions * table.files, len(view.slices)
        return {"files": len(view.slices), "metadata_table": view.metadata_table}

    return run


_STEPS: Mapping[str, Callable[[LargeTable, int, Mapping[str, str], str], Step]] = {
    "open": _open,
    "plan": _plan,
    "upsert": _write,
    "query": _query,
    "poll": _poll,
    "archive": _archive,
    "clean": _clean,
    "compact": _compact,
    "index": _index,
    "list": _list,
}
