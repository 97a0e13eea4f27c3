"""Memory of the local engine: one write of more rows than its budget, in a process of its own.

The table has `--table-rows` rows in partitions that every source file has rows of; half of the rows that are
written, at most as many as the table has, are updates. Of the process the peak of its resident memory, also
without mapped files, by step, beside the budget; and the bytes of its source, of the rows that it spilled,
and of the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from hoodie.bundle import job_script
from hoodie.config.cores import usable_cores
from scripts.environment import ROOT

from . import output
from .workload import KEY, ORDERING, PARTITION, rows_of

NAME = "bounded"
_FILE_ROWS = 500_000
_BUDGET = "hoodie.memory.merge.max.size"
_SPILL = "hoodie.memory.spillable.map.path"
_OPERATIONS = ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite", "insert_overwrite_table")
_FORMATS = ("parquet", "csv", "json")


def main(arguments: list[str]) -> int:
    """Prints the measurement as JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows to write (2,000,000)")
    parser.add_argument("--table-rows", type=int, default=1_000_000, help="rows that are there (1,000,000)")
    parser.add_argument("--partitions", type=int, default=20, help="of the table (20)")
    parser.add_argument("--budget", type=int, default=64, help=f"MiB of {_BUDGET} (64)")
    parser.add_argument("--operation", choices=_OPERATIONS, default="upsert")
    parser.add_argument("--format", choices=_FORMATS, default="parquet", help="of the source (parquet)")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE of the table; repeatable")
    parser.add_argument("--work", type=Path, help="keep source files here (default: a temporary folder)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    work = (args.work or Path(tempfile.mkdtemp(prefix="hoodie-bench-"))).resolve()
    try:
        output.write(_measured(args, work), args.out)
    finally:
        shutil.rmtree(work / "run" if args.work else work, ignore_errors=True)
    return 0


def _measured(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    run = work / "run"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": KEY,
        "hoodie.datasource.write.partitionpath.field": PARTITION,
        "hoodie.datasource.write.precombine.field": ORDERING,
        **dict(option.split("=", 1) for option in args.option),
    }
    if args.table_rows:
        base = _source(work, 0, args.table_rows, args.partitions, "parquet", 1_000_000)
        _job(run, "bulk_insert", base, options)
    updates = min(args.rows // 2, args.table_rows)
    source = _source(work, args.table_rows - updates, args.rows, args.partitions, args.format, 5_000_000)
    limited = {**options, _BUDGET: str(args.budget << 20), _SPILL: str(run / "spill")}
    found = _job(run, args.operation, source, limited)
    return {
        "scenario": NAME,
        "cores": usable_cores(),
        "operation": args.operation,
        "format": args.format,
        "rows": args.rows,
        "updates": updates,
        "table_rows": args.table_rows,
        "partitions": args.partitions,
        "budget_mib": args.budget,
        "source_mib": _mib(sum(file.stat().st_size for file in source.iterdir())),
        "source_rows_mib": _mib(args.rows * _row_bytes()),
        "table_mib": _mib(sum(file.stat().st_size for file in (run / "t").rglob("*.parquet"))),
        **found,
    }


def _job(
    run: Path,
    operation: str,
    source: Path,
    options: dict[str, str],
) -> dict[str, Any]:
    request = {
        "table": str(run / "t"),
        "operation": operation,
        "source": {"path": str(source)},
        "options": options,
        "engine": "local",
    }
    (run / "request.json").write_text(json.dumps(request))
    command = [sys.executable, str(job_script()), operation, "--request", f"@{run / 'request.json'}"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "spark_jobs")}
    began = time.monotonic()
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    watch = _Watch(process.pid)
    result = watch.follow(process.stdout)
    _, status, used = os.wait4(process.pid, 0)
    if status or result is None:
        raise RuntimeError(f"{operation} failed: {watch.last}")
    return {
        "num_inserts": result["num_inserts"],
        "num_updates": result["num_updates"],
        "peak_mib": _mib(used.ru_maxrss * 1024),
        "steps": watch.peaks,
        "spilled_mib": _mib(watch.spilled),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "seconds": round(time.monotonic() - began, 1),
    }


class _Watch:
    """Looks at a process 20 times a second until its output ends."""

    def __init__(self, pid: int) -> None:
        self.peaks: dict[str, dict[str, float]] = {}
        self.spilled = 0
        self.last = ""
        self._pid = pid
        self._step = "start"
        self._done = threading.Event()

    def follow(self, lines: IO[str]) -> dict[str, Any] | None:
        thread = threading.Thread(target=self._sample, daemon=True)
        thread.start()
        result: dict[str, Any] | None = None
        with lines:
            for line in lines:
                self.last = line.strip()
                kind, _, value = line.partition(" ")
                if kind == "HOODIE_PROGRESS":
                    self._step = json.loads(value)["step"]
                elif kind == "HOODIE_RESULT":
                    result = json.loads(value)
        self._done.set()
        thread.join()
        return result

    def _sample(self) -> None:
        while not self._done.wait(0.05):
            try:
                status = Path(f"/proc/{self._pid}/status").read_text()
                self.spilled = max(self.spilled, sum(_unnamed(self._pid)))
            except OSError:
                continue
            found = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if " kB" in line}
            peaks = self.peaks.setdefault(self._step, {"resident_mib": 0.0, "without_files_mib": 0.0})
            for name, field in (("resident_mib", "VmRSS"), ("without_files_mib", "RssAnon")):
                peaks[name] = max(peaks[name], _mib(int(found.get(field, 0)) * 1024))


def _unnamed(pid: int) -> Iterator[int]:
    """Bytes of the files without a name that a process has open."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if str(link.readlink()).endswith("(deleted)"):
                yield link.stat().st_size
        except OSError:
            continue


def _source(work: Path, first: int, rows: int, partitions: int, kind: str, ordering: int) -> Path:
    """Files of the rows of these numbers, made unless an earlier run did."""
    folder = work / f"{kind}-{first}-{rows}-{partitions}-{ordering}"
    if folder.exists():
        return folder
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number, start in enumerate(range(first, first + rows, _FILE_ROWS)):
        ids = np.arange(start, min(start + _FILE_ROWS, first + rows), dtype=np.int64)
        table = rows_of(
            ids, ids % partitions, ordering=ordering, rng=np.random.default_rng([ordering, number])
        )
        path = unfinished / f"part-{number:04d}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path, compression="snappy")
        elif kind == "csv":
            pa.csv.write_csv(table, path)
        else:
            _write_json(table, path)
    unfinished.rename(folder)
    return folder


def _write_json(table: pa.Table, path: Path) -> None:
    with path.open("w") as file:
        for batch in table.drop_columns(["amount"]).to_batches(max_chunksize=10_000):
            file.writelines(json.dumps(row, default=str) + "\n" for row in batch.to_pylist())


def _row_bytes() -> float:
    sample = rows_of(
        np.arange(10_000), np.zeros(10_000, dtype=np.int64), ordering=0, rng=np.random.default_rng(0)
    )
    return float(sample.nbytes) / sample.num_rows


def _mib(size: float) -> float:
    return round(size / (1 << 20), 1)
