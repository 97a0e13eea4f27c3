"""What the checks of untrusted tables (SECURITY.md) take of an upsert's processor time.

In a large upsert the checks are timed where they are called, outermost calls only, by the clock of their
thread, and what the timing takes is taken off: an upper bound, since a check that opens or reads what has to
be read counts whole. Checks of a small upsert are shorter than their timing: upserts with them and without
take turns in one process, and the medians of their processor time are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import hoodie
from hoodie.codec import avro_container
from hoodie.format import names, parquet_guard
from hoodie.storage import local, path_guard
from hoodie.table import properties as table_properties

from . import output

NAME = "checks"
TARGET = 0.02
#: (where it is looked up, name); functions are replaced in all modules that have them
METHODS = [
    (path_guard.Contained, "check"),
    (path_guard.Contained, "check_folder"),
    (parquet_guard.Footer, "__init__"),
    (parquet_guard.Pages, "batch_rows"),
    (parquet_guard.Pages, "size"),
]
FUNCTIONS = [
    *((names, name) for name in ("relative_path", "file_name", "file_id", "instant_time")),
    *((local, name) for name in ("_regular", "_check_size")),
    (table_properties, "checked_properties"),
    (avro_container, "one_datum"),
    (avro_container, "check_schema"),
]


class Watch:
    """Nanoseconds and calls of the checks."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._inside = threading.local()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "busy", False):
                return function(*args, **kwargs)
            self._inside.busy = True
            began = time.thread_time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[name] += time.thread_time_ns() - began
                self.calls[name] += 1
                self._inside.busy = False

        return run

    def install(self) -> None:
        for owner, name in METHODS:
            setattr(owner, name, self.timed(f"{owner.__name__}.{name}", getattr(owner, name)))
        for module, name in FUNCTIONS:
            function = getattr(module, name)
            timed = self.timed(name, function)
            for other in [found for key, found in sys.modules.items() if key.startswith("hoodie")]:
                if getattr(other, name, None) is function:
                    setattr(other, name, timed)

    def overhead(self) -> tuple[float, float]:
        """Nanoseconds that the timing of one call adds to (what is told as spent, all of it)."""
        probe, count = Watch(), 100_000
        nothing = probe.timed("", lambda: None)
        began = time.process_time_ns()
        for _ in range(count):
            nothing()
        return probe.spent[""] / count, (time.process_time_ns() - began) / count


class Off:
    """A context without the checks: what they do beside checking is done."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        def opened(self: Any, source: Any) -> None:
            self._read_by_arrow = pq.read_metadata(source)
            self.leaves = []

        def size(self: Any, column: str) -> int:
            metadata = self._footer._read_by_arrow
            number = metadata.schema.names.index(column)
            groups = range(metadata.num_row_groups)
            return sum(metadata.row_group(group).column(number).total_uncompressed_size for group in groups)

        self._set(path_guard.Contained, "check", lambda self, path: None)
        self._set(path_guard.Contained, "check_folder", lambda self, path: None)
        self._set(parquet_guard.Footer, "__init__", opened)
        self._set(parquet_guard.Footer, "metadata", lambda self: self._read_by_arrow)
        self._set(parquet_guard.Pages, "batch_rows", lambda self, columns, most: most)
        self._set(parquet_guard.Pages, "size", size)
        plain: dict[str, Callable[..., Any]] = {
            "_regular": lambda path, flags: os.open(path, flags, 0o666),
            "_check_size": lambda path, size: None,
            "checked_properties": lambda texts, base_path: texts,
            "check_schema": lambda schema: None,
        }
        for module, name in FUNCTIONS:
            if name != "one_datum":
                self._everywhere(getattr(module, name), name, plain.get(name, lambda value, field: value))

    def __exit__(self, *exc: object) -> None:
        for owner, name, value in reversed(self._kept):
            setattr(owner, name, value)
        self._kept.clear()

    def _everywhere(self, function: Any, name: str, other: Any) -> None:
        for module in [found for key, found in sys.modules.items() if key.startswith("hoodie")]:
            if getattr(module, name, None) is function:
                self._set(module, name, other)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._kept.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)


def paired(folder: Path, count: int, commits: int, pairs: int) -> dict[str, Any]:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    options |= {"hoodie.datasource.write.precombine.field": "ts"}
    spent: dict[bool, list[float]] = {True: [], False: []}
    for version in range(pairs):
        turn = (version % 2 == 0, version % 2 == 1)
        for checked in turn:
            table = folder / f"{version}-{checked}"
            for early in range(commits):
                hoodie.write_table(rows(count, early), str(table), operation="upsert", options=options)
            batch = rows(count, commits)
            with contextlib.nullcontext() if checked else Off():
                began = time.process_time_ns()
                hoodie.write_table(batch, str(table), operation="upsert", options=options)
                spent[checked].append((time.process_time_ns() - began) / 1e6)
            shutil.rmtree(table)
    full, without = (statistics.median(spent[on]) for on in (True, False))
    share = (full - without) / without
    told = {
        "cpu_ms": round(full, 2),
        "cpu_ms_without_checks": round(without, 2),
        "share": round(share, 4),
    }
    return {"rows": count, "commits": commits, "pairs": pairs, **told}


def rows(count: int, version: int) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "id": [f"key-{number:09d}" for number in numbers],
            "ts": pa.array([version] * count, pa.int64()),
            "city": [f"city-{number % 5000}" for number in numbers],
            "price": [float(number) for number in numbers],
        }
    )


def measure(folder: Path, count: int, commits: int, repeat: int, watch: Watch) -> dict[str, Any]:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    options |= {"hoodie.datasource.write.precombine.field": "ts"}
    for version in range(commits):
        hoodie.write_table(rows(count, version), str(folder), operation="upsert", options=options)
    told, all_of_it = watch.overhead()
    best: dict[str, Any] = {}
    for version in range(repeat):
        batch = rows(count, commits + version)
        watch.spent.clear()
        watch.calls.clear()
        began = time.process_time_ns()
        hoodie.write_table(batch, str(folder), operation="upsert", options=options)
        calls = watch.calls.total()
        total = time.process_time_ns() - began - calls * all_of_it
        spent = max(0.0, watch.spent.total() - calls * told)
        if not best or spent / total < best["share"]:
            by_name = {
                name: {"calls": watch.calls[name], "us": round(nanoseconds / 1000, 1)}
                for name, nanoseconds in watch.spent.most_common()
            }
            best = {"share": spent / total, "upsert_cpu_ms": total / 1e6, "checks_cpu_ms": spent / 1e6}
            best["checks"] = by_name
    return {"rows": count, "commits": commits, "repeat": repeat, **best}


def main(arguments: list[str]) -> int:
    """Exit status 1 when the checks take more than the target."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large upsert (1,000,000)")
    parser.add_argument("--repeat", type=int, default=3, help="large upserts; the best is told (3)")
    parser.add_argument("--pairs", type=int, default=40, help="small upserts with and without checks (40)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hoodie-bench-") as work:
        small = paired(Path(work, "small"), 3, 4, args.pairs)
        watch = Watch()
        watch.install()
        results = {
            "small": small,
            "large": measure(Path(work, "large"), args.rows, 1, args.repeat, watch),
        }
    over = [name for name, result in results.items() if result["share"] > TARGET]
    doc = {
        "scenario": NAME,
        "target_share": TARGET,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "results": results,
        "over_target": over,
    }
    output.write(doc, args.out)
    return 1 if over else 0
