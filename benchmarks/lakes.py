"""A daily upsert of a table on an object store whose answers take their time, beside one on the local disk.

The store is the S3 of the tests (tests.support.s3_store) in a process of its own, which keeps objects in
memory and answers each request a while later. Places take turns, each time with the table as a bulk insert
made it. `rounds`: the seconds in which a request was under way, by the latency: so many would it be, had they
followed one another.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.dataset as ds

import hoodie
from tests.support.s3_store import Store, environment, served

from . import output
from .scenarios import Late, daily
from .workload import KEY, ORDERING, PARTITION, Inputs, materialise

NAME = "lakes"
ROWS, LATENCIES = 4_000_000, (0.0, 5.0, 50.0)
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.datasource.write.precombine.field": ORDERING,
}
_LOCAL = "local"


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 when the tables differ in their numbers of rows."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the table ({ROWS:,})")
    parser.add_argument("--latency", type=float, action="append", help=f"ms; repeatable {LATENCIES}")
    parser.add_argument("--repeat", type=int, default=3, help="turns (3)")
    parser.add_argument("--type", choices=("COPY_ON_WRITE", "MERGE_ON_READ"), default="COPY_ON_WRITE")
    parser.add_argument("--trace", action="store_true", help="print the requests of the last turns")
    parser.add_argument("--work", type=Path, help="keep inputs here (default: a temporary folder)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    with output.folder(args.work, NAME) as work:
        inputs = materialise(daily(args.rows, Late.OLD), work)
        with _remote() as store:
            doc = _measure(args, inputs, work / "run", store)
    output.write(doc, args.out)
    return 0 if len({item["rows"] for item in doc["results"]}) == 1 else 1


def _measure(args: argparse.Namespace, inputs: Inputs, run: Path, store: Connection) -> dict[str, Any]:
    options = {**OPTIONS, "hoodie.datasource.write.table.type": args.type}
    local, kept, remote = str(run / "t"), str(run / "kept"), "s3://lake/t"
    shutil.rmtree(run, ignore_errors=True)
    for path in (kept, remote):
        hoodie.write_table(ds.dataset(inputs.base), path, operation="bulk_insert", options=options)
    _ask(store, "keep")
    places = [_LOCAL, *(args.latency or LATENCIES)]
    took: dict[Any, list[float]] = {place: [] for place in places}
    asked: dict[Any, dict[str, Any]] = {}
    rows: dict[Any, int] = {}
    for turn in range(args.repeat + 1):
        for place in places:
            path = local if place == _LOCAL else remote
            if place == _LOCAL:
                shutil.rmtree(local, ignore_errors=True)
                shutil.copytree(kept, local)
            else:
                _ask(store, "restore", place / 1000)
            began = time.perf_counter()
            hoodie.write_table(ds.dataset(inputs.upsert), path, operation="upsert", options=options)
            seconds = time.perf_counter() - began
            asked[place] = {} if place == _LOCAL else _ask(store, "requests", place / 1000)
            if turn:  # the first one warms up
                took[place].append(seconds)
                print(f"{place}: {seconds:.2f} s", file=sys.stderr)
            if turn == args.repeat:
                _ask(store, "restore", 0.0, False)
                rows[place] = sum(
                    batch.num_rows for batch in hoodie.read_batches(path, columns=[KEY], meta=False)
                )
    trace = {place: found.pop("trace", "") for place, found in asked.items()}
    if args.trace:
        print(*trace.values(), sep="\n\n", file=sys.stderr)
    base = statistics.median(took[_LOCAL])
    return {
        "scenario": NAME,
        "rows": args.rows,
        "upserted": inputs.workload.upsert_rows,
        "type": args.type,
        "cores": os.cpu_count(),
        "results": [
            {
                "place": place if place == _LOCAL else f"S3, {place:g} ms",
                "seconds": [round(seconds, 2) for seconds in took[place]],
                "median_s": round(statistics.median(took[place]), 2),
                "of_local": round(statistics.median(took[place]) / base, 2),
                "rows": rows[place],
                **asked[place],
            }
            for place in places
        ],
    }


@contextmanager
def _remote() -> Iterator[Connection]:
    """A store in a process of its own, which the environment names inside."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        with mock.patch.dict(os.environ, environment(ours.recv())):
            yield ours
    finally:
        ours.send(None)
        process.join(10)
        process.kill()


def _ask(store: Connection, *question: Any) -> Any:
    store.send(question)
    return store.recv()


def _serve(asked: Connection) -> None:
    with served() as store:
        asked.send(store.endpoint)
        kept: dict[str, Any] = {}
        while (question := asked.recv()) is not None:
            name, *values = question
            answer: Any = None
            if name == "keep":
                kept = dict(store.objects)
            elif name == "restore":
                store.delay_s = values[0]
                if len(values) == 1:
                    store.objects = dict(kept)
                store.requests.clear()
                store.spans.clear()
            else:
                answer = _requests(store, *values)
            asked.send(answer)


def _requests(store: Store, latency: float) -> dict[str, Any]:
    busy, end = 0.0, 0.0
    for began, answered in sorted(store.spans):
        busy += max(0.0, answered - max(began, end))
        end = max(end, answered)
    return {
        "requests": len(store.requests),
        "kinds": dict(Counter(request.kind for request in store.requests).most_common()),
        "rounds": round(busy / latency, 1) if latency else None,
        "trace": str(store),
    }
