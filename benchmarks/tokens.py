"""What a write with a token asks before it begins, beside ever more tokens of archived commits.

`same token`: was it written; `newest interval`, `old interval`: did a later interval of the task write to the
partitions, which is so for none. `earlier form`: the second question, where every token is a file of its own,
as earlier releases kept them. `settle`: what an archiver does with the tokens of ten commits. Of each the
storage calls, the bytes that were read and written, and the median of the time, the sizes taken in turns.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from hoodie.storage import Access
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.time import InstantTime
from hoodie.timeline.token_store import TokenStore, facts_of, index_of, record, settle, token_folder
from hoodie.timeline.tokens import TOKEN_KEY, TokenCommit
from tests.support.storages import Delegating

from . import output

NAME = "tokens"
_ACTIVE, _SETTLED = 20, 10
#: parts of a large index that are made at once, which bounds the memory
_PARTS = 4
_FIRST = 20200101000000000
_EPOCH = datetime(1900, 1, 1, tzinfo=timezone.utc)


@dataclass
class _Counts:
    calls: int = 0
    read: int = 0
    written: int = 0


class _Counting(Delegating):
    def __init__(self) -> None:
        super().__init__(LocalStorage(access=Access(sync=False)))
        self.counts = _Counts()

    def ask(self, name: str, path: str, *arguments: Any) -> Any:
        self.counts.calls += 1
        if name in ("write", "create"):
            self.counts.written += len(arguments[0])
        found = super().ask(name, path, *arguments)
        self.counts.read += len(found) if name == "read" else 0
        return found


def _commit(number: int, task: str = "write") -> TokenCommit:
    """Of an hour, which has a partition of its own."""
    start = _EPOCH + timedelta(hours=number)
    counts = ("num_inserts", "num_updates", "num_deletes", "num_writes", "num_files", "bytes_written")
    totals = {"partitions": [f"hour={number}"], **dict.fromkeys(counts, number)}
    token = f"dag/{task}/-1/{start.isoformat()}/{(start + timedelta(hours=1)).isoformat()}"
    return TokenCommit(token, InstantTime(str(_FIRST + number)), "commit", "f" * 32, "upsert", totals)


def _table(base: str, count: int, indexed: bool) -> str:
    storage = LocalStorage(access=Access(sync=False))
    for number in range(count, count + _ACTIVE):
        commit = _commit(number)
        extra = {TOKEN_KEY: commit.token}
        stats: dict[str, Any] = {partition: [] for partition in commit.totals["partitions"]}
        text = {"partitionToWriteStats": stats, "operationType": "UPSERT", "extraMetadata": extra}
        storage.write(f"{base}/.hoodie/{commit.instant}.commit", json.dumps(text).encode())
        record(storage, base, commit)
    if indexed:
        for facts in _parts(count):
            index_of(storage, base).update(facts)
    else:
        for commit in map(_commit, range(count)):
            name = hashlib.sha256(commit.token.encode()).hexdigest()
            storage.write(f"{token_folder(base)}/{name}.json", commit.to_bytes())
    return base


def _parts(count: int) -> Iterator[Mapping[str, Any]]:
    for part in range(_PARTS):
        facts: dict[str, Any] = {}
        for commit in map(_commit, range(count)):
            for key, fact in facts_of(commit).items():
                if int(hashlib.sha256(key.encode()).hexdigest()[0], 16) % _PARTS == part:
                    facts[key] = fact
        yield facts


def _questions(count: int) -> Mapping[str, Callable[[TokenStore], object]]:
    new, old = _commit(count + _ACTIVE), _commit(count // 2)
    return {
        "same token": lambda store: store.find(new.token),
        "newest interval": lambda store: store.later(new.token, ["hour=1", "hour=2", f"hour={count // 2}"]),
        "old interval": lambda store: store.later(old.token, ["hour=1", "hour=2", f"hour={count // 2}"]),
    }


def _ask(base: str, question: Callable[[TokenStore], object]) -> tuple[float, _Counts]:
    storage = _Counting()
    timeline = Timeline.load(base, storage)
    storage.counts = _Counts()
    begin = time.perf_counter()
    answer = question(TokenStore(timeline, storage))
    seconds = time.perf_counter() - begin
    assert answer is None
    return seconds, storage.counts


def _settle(base: str, count: int, task: str) -> tuple[float, _Counts]:
    storage = _Counting()
    for number in range(count - _SETTLED, count):
        record(storage.inner, base, _commit(number, task))
    begin = time.perf_counter()
    settle(storage, base, lambda: Timeline.load(base, storage), lambda timeline: ())
    return time.perf_counter() - begin, storage.counts


def main(arguments: list[str]) -> int:
    """Prints the measurement as JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--tokens", default="1000,40000,1000000", help="comma-separated counts")
    parser.add_argument("--rounds", type=int, default=15, help="look-ups of each (15)")
    parser.add_argument("--earlier", type=int, default=40_000, help="at most so many in the earlier form")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(arguments)
    counts = [int(text) for text in args.tokens.split(",")]
    with tempfile.TemporaryDirectory(prefix="hoodie-bench-") as folder:
        cases: dict[tuple[int, str], tuple[str, Callable[[TokenStore], object]]] = {}
        for count in counts:
            base = _table(f"{folder}/{count}", count, indexed=True)
            for name, question in _questions(count).items():
                cases[count, name] = base, question
            if count <= args.earlier:
                files = _table(f"{folder}/{count}-files", count, indexed=False)
                cases[count, "earlier form"] = files, _questions(count)["newest interval"]
        seconds: dict[tuple[int, str], list[float]] = {}
        asked: dict[tuple[int, str], _Counts] = {}
        for number in range(args.rounds):
            for key, (base, question) in cases.items():
                took, asked[key] = _ask(base, question)
                seconds.setdefault(key, []).append(took)
            for count in counts:
                took, asked[count, "settle"] = _settle(f"{folder}/{count}", count, f"task {number}")
                seconds.setdefault((count, "settle"), []).append(took)
        sizes = {count: _size(Path(folder, str(count))) for count in counts}
    base_ms = {name: statistics.median(seconds[counts[0], name]) for _, name in seconds}
    results = [
        {
            "tokens": count,
            "question": name,
            "storage_calls": asked[count, name].calls,
            "bytes_read": asked[count, name].read,
            "bytes_written": asked[count, name].written,
            "median_ms": round(statistics.median(some) * 1000, 2),
            "ratio": round(statistics.median(some) / base_ms[name], 2),
        }
        for (count, name), some in sorted(seconds.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    doc = {
        "scenario": NAME,
        "rounds": args.rounds,
        "active_commits": _ACTIVE,
        "results": results,
        "index": sizes,
    }
    output.write(doc, args.out)
    return 0


def _size(table: Path) -> dict[str, int]:
    found = [
        file.stat().st_size
        for file in (table / ".hoodie/.aux/airflow-tokens/index").rglob("*")
        if file.is_file()
    ]
    return {"files": len(found), "bytes": sum(found)}
