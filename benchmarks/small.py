"""Small writes of the local engine, one after the other in one process: milliseconds of a write and of its
steps, and how often it syncs a file or a folder to the disk.

A write is three rows with new keys in as many partitions; with `--files 1` all are in one. Steps are means
of CPU time, that of all threads, each without the steps inside it. The table is in memory where the machine
has `/dev/shm`, so that the figures are the writer's own.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie

from . import output

NAME = "small"
ROWS = 3
_REST = "all else"
#: step -> the function that does it
STEPS = {
    "settings, table and schema": "hoodie.write.token_guard:TokenGuard.done_or_plan",
    "rows staged": "hoodie.write.input.staged_input:StagedInput.staged",
    "partitions listed": "hoodie.write.tagging.tag:list_slices",
    "keys found": "hoodie.write.tagging.tag:_Located.run",
    "files against commits": "hoodie.read.verify:check_no_gaps",
    "table taken": "hoodie.write.transaction:Transaction.take",
    "services of the metadata table": (
        "hoodie.write.participants.metadata_table:MetadataTableUpdate.settled"
    ),
    "instant begun": "hoodie.write.transaction:Transaction.begin",
    "inflight file": "hoodie.write.transaction:Transaction.inflight",
    "data files written": "hoodie.write.input.write_input:WriteInput.write",
    "metadata table written": "hoodie.write.participants.metadata_table:MetadataTableUpdate.prepare",
    "instant completed": "hoodie.write.transaction:Transaction.commit",
    "services after the commit": "hoodie.hooks:Hooks.run",
}


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--version", default="9", help="table versions (9)")
    parser.add_argument(
        "--files", type=int, default=ROWS, help=f"partitions of a write, 1 to {ROWS} ({ROWS})"
    )
    parser.add_argument("--warmups", type=int, default=15, help="writes before (15)")
    parser.add_argument("--writes", type=int, default=60, help="writes that are measured (60)")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE of every write")
    parser.add_argument("--work", type=Path, help="keep the tables here (default: below /dev/shm)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(given)
    more = dict(item.split("=", 1) for item in args.option)
    clock, found = _Clock(), []
    for step, place in STEPS.items():
        clock.follow(step, place)
    with output.folder(args.work, NAME, "/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        for version in args.version.split(","):
            options = {"hoodie.write.table.version": version, **more}
            found.append(_measure(clock, str(folder / f"v{version}"), options, args))
    output.write({"benchmark": NAME, "options": more, "files": args.files, "results": found}, args.out)
    return 0


def _measure(clock: _Clock, path: str, options: dict[str, str], args: argparse.Namespace) -> dict[str, Any]:
    table, wall, cpu = hoodie.Table(path), list[float](), list[float]()
    for number in range(args.warmups + args.writes):
        rows = _rows(number, args.files)
        if number == args.warmups:
            clock.reset()
        began, used = time.perf_counter(), time.process_time()
        table.upsert(rows, keys="id", partition_by="part", ordering="ts", options=options)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    wall, cpu = wall[args.warmups :], cpu[args.warmups :]
    steps = {step: clock.seconds[step] for step in STEPS}
    steps[_REST] = sum(cpu) - sum(steps.values())
    return {
        "version": options["hoodie.write.table.version"],
        "milliseconds": _millis(statistics.median(wall)),
        "least": _millis(min(wall)),
        "cpu_milliseconds": _millis(statistics.median(cpu)),
        "cpu_milliseconds_of_steps": {step: _millis(seconds / len(cpu)) for step, seconds in steps.items()},
        "syncs": _syncs(table, args, options),
    }


def _rows(number: int, files: int) -> pa.Table:
    first = number * ROWS
    return pa.table(
        {
            "id": [str(first + row) for row in range(ROWS)],
            "part": [f"p{row % files}" for row in range(ROWS)],
            "value": [float(number)] * ROWS,
            "ts": [number] * ROWS,
        }
    )


def _syncs(table: hoodie.Table, args: argparse.Namespace, options: dict[str, str]) -> int:
    """Of one write that comes between two compactions of the metadata table: the least of three."""
    storage: Any = importlib.import_module("hoodie.storage.local")
    counted, sync, sync_data = [0], os.fsync, storage._sync_data

    def counting(real: Callable[[int], None], file: int) -> None:
        counted[0] += 1
        real(file)

    found = []
    os.fsync = functools.partial(counting, sync)
    storage._sync_data = functools.partial(counting, sync_data)
    try:
        for number in range(3):
            counted[0] = 0
            rows = _rows(args.warmups + args.writes + number, args.files)
            table.upsert(rows, keys="id", partition_by="part", ordering="ts", options=options)
            found.append(counted[0])
    finally:
        os.fsync, storage._sync_data = sync, sync_data
    return min(found)


def _millis(seconds: float) -> float:
    return round(seconds * 1000, 2)


class _Clock:
    """CPU seconds of each step of the main thread, without those of steps inside it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    def reset(self) -> None:
        self.seconds.clear()

    def follow(self, step: str, place: str) -> None:
        """Measure a function, wherever it was imported to, or a method."""
        module, _, name = place.partition(":")
        owner: Any = importlib.import_module(module)
        *classes, name = name.split(".")
        for part in classes:
            owner = getattr(owner, part)
        real = getattr(owner, name)
        timed = self._timed(step, real)
        owners = [owner] if classes else [item for key, item in sys.modules.items() if "hoodie" in key]
        for each in owners:
            if getattr(each, name, None) is real:
                setattr(each, name, timed)

    def _timed(self, step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def timed(*given: Any, **named: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return real(*given, **named)
            began = time.process_time()
            self._inside.append(0.0)
            try:
                return real(*given, **named)
            finally:
                took = time.process_time() - began
                self.seconds[step] += took - self._inside.pop()
                if self._inside:
                    self._inside[-1] += took

        return timed
