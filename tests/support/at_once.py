"""Processes that write one table at once, and the serial order that must give the same rows."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.errors import ConflictError, TableNotFound
from hoodie.timeline.active import Timeline
from tests.support.metadata import disagreements
from tests.support.processes import all_forked

LOCK = {
    "hoodie.write.lock.provider": "filesystem",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "1000",
}
OPTIMISTIC = {**LOCK, "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
OPTIONS = {
    **OPTIMISTIC,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "o",  # the same in all rows: what is written last counts
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.write.num.retries.on.conflict.failures": "200",
    "hoodie.parquet.small.file.limit": "0",
}
#: of services that have something to do after a few commits
SERVICES = {
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
}
#: what each of several writers writes
WORKLOADS = ("same keys", "disjoint keys", "new keys")


def race(
    path: Path,
    writers: int,
    rounds: int,
    workload: str,
    options: Mapping[str, Any],
    skew_s: int = 0,
    services: int = 0,
) -> list[int]:
    """Exit codes of so many writers, whose clocks differ by `skew_s` from one to the next, and of so many
    processes of `services` beside them.
    """
    writing = [
        partial(write_rounds, path, number, rounds, workload, {**OPTIONS, **options}, skew_s * number)
        for number in range(writers)
    ]
    serving = [partial(serve, path, writers + number, rounds, options) for number in range(services)]
    return all_forked([*writing, *serving])


def batch(workload: str, number: int, turn: int) -> dict[str, int]:
    """Rows of one write: key and value. Values differ, so that a lost one shows."""
    value = number * 1000 + turn
    keys = {
        "same keys": ["a-0", "a-1", "b-0", f"c-{turn % 3}"],
        "disjoint keys": [f"{number}-{item}" for item in range(3)],
        "new keys": [f"a-{turn}", f"b-{turn}-{number}"],
    }[workload]
    return dict.fromkeys(keys, value)


def as_rows(found: Mapping[str, int]) -> pa.Table:
    keys, values = list(found), list(found.values())
    return pa.table(
        {"id": keys, "p": [key.partition("-")[0] for key in keys], "v": values, "o": [0] * len(keys)}
    )


def write_rounds(
    path: Path,
    number: int,
    rounds: int,
    workload: str,
    options: Mapping[str, Any],
    skew_s: int = 0,
    table: str = "",
) -> None:
    """What a process does. `path` is the table's where `table` is not, and that of ledgers beside it."""
    random.seed(number)
    if skew_s:
        real = time.time
        time.time = lambda: real() + skew_s
    for turn in range(rounds):
        rows = batch(workload, number, turn)
        done = hoodie.write_table(as_rows(rows), table or str(path), options=options)
        with open(f"{path}.{number}", "a") as ledger:
            ledger.write(json.dumps({"instant": done.instant, "rows": rows}) + "\n")


def serve(path: Path, number: int, rounds: int, options: Mapping[str, Any]) -> None:
    """A process of services beside writers: compaction, clustering, clean and archive in a random order, each
    so often. What a live writer is in the way of is left for the next turn.
    """
    random.seed(number)
    given = {**OPTIMISTIC, **SERVICES, **{name: options[name] for name in options if "metadata" in name}}
    calls: list[Any] = [hoodie.compact_table, hoodie.cluster_table, hoodie.clean_table, hoodie.archive_table]
    if options.get("hoodie.datasource.write.table.type") != "MERGE_ON_READ":
        calls.remove(hoodie.compact_table)
    turns = calls * rounds
    random.shuffle(turns)
    for call in turns:
        with contextlib.suppress(ConflictError, TableNotFound):
            call(str(path), options=given)
        time.sleep(random.uniform(0, 0.1))


def check(path: Path, writers: int, rounds: int | None, table: str = "", **reading: Any) -> None:
    """Every write is there once, in the order of the instants, and each key once; a metadata table agrees
    with the folders. Arguments as of `write_rounds`.
    """
    ledgers = [Path(f"{path}.{number}").read_text().splitlines() for number in range(writers)]
    entries = [json.loads(line) for ledger in ledgers for line in ledger]
    assert rounds is None or len(entries) == writers * rounds
    assert len({entry["instant"] for entry in entries}) == len(entries)
    expected: dict[str, int] = {}
    for entry in sorted(entries, key=lambda item: item["instant"]):
        expected.update(entry["rows"])
    found = hoodie.read_table(table or str(path), **reading)
    keys = found.column("id").to_pylist()
    assert len(keys) == len(set(keys))
    assert dict(zip(keys, found.column("v").to_pylist(), strict=True)) == expected
    timeline = Timeline.load(table or str(path))
    assert [item for item in timeline.pending() if item.action.value in ("commit", "deltacommit")] == []
    if not table:
        assert not os.path.exists(path / ".hoodie/lock")
        assert disagreements(path) == []
