"""Processes that write one table at once: commits a minute, and how many attempts lost to another writer.

Each process writes for some seconds, one small write after the other. `same keys`: all update the same file
groups; `disjoint keys`: each its own partition; `new keys`: all insert a key that none has. The lock `queue`
is one writer at a time, the others wait their turn. At the end every write has to be there once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hoodie
from tests.support.at_once import OPTIONS, WORKLOADS, as_rows, batch, check
from tests.support.moto_server import bucket_on, moto

from . import output

NAME = "writers"
STORAGES, LOCKS = ("local", "s3"), ("filesystem", "storage", "queue")
QUEUE = {
    "hoodie.write.concurrency.mode": "SINGLE_WRITER",
    "hoodie.write.lock.provider": "",
    "hoodie.write.wait.for.writer.ms": "600000",
}


def main(given: list[str]) -> int:
    """Exit status 1 where a row is lost, or stored twice, or a process failed."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    parser.add_argument("--writers", default="2,4,8", help="how many at once (2,4,8)")
    parser.add_argument("--seconds", type=float, default=20, help="how long each writes (20)")
    parser.add_argument("--storage", default=",".join(STORAGES), help=f"some of {', '.join(STORAGES)}")
    parser.add_argument("--lock", default=",".join(LOCKS), help=f"some of {', '.join(LOCKS)}")
    parser.add_argument("--workload", default=",".join(WORKLOADS), help=f"some of {', '.join(WORKLOADS)}")
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE of every write")
    parser.add_argument("--work", type=Path, help="keep the tables here (default: a temporary folder)")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: stdout)")
    args = parser.parse_args(given)
    more = dict(item.split("=", 1) for item in args.option)
    results = []
    with output.folder(args.work, NAME) as folder:
        for storage in args.storage.split(","):
            with _root(storage, folder) as root:
                for lock in args.lock.split(","):
                    for workload in args.workload.split(","):
                        for writers in map(int, args.writers.split(",")):
                            results.append(
                                _measure(folder, root, lock, workload, writers, args.seconds, more)
                            )
                            results[-1] = {"storage": storage, **results[-1]}
                            print(_line(results[-1]), flush=True)
    document = {
        "benchmark": NAME,
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
        "seconds": args.seconds,
        "options": more,
        "results": results,
    }
    if args.out:
        output.write(document, args.out)
    return int(any(item["failed"] for item in results))


@contextlib.contextmanager
def _root(storage: str, folder: Path) -> Iterator[str]:
    """Where tables lie; "" for the folder itself. S3 is moto, in a process of its own."""
    if storage == "local":
        yield ""
        return
    with moto(folder) as endpoint, bucket_on(endpoint) as bucket:
        yield bucket


def _measure(
    folder: Path, root: str, lock: str, workload: str, writers: int, seconds: float, more: Mapping[str, str]
) -> dict[str, Any]:
    name = f"{lock}-{workload.replace(' ', '-')}-{writers}-{random.randrange(10**6)}"
    table = f"{root}/{name}" if root else ""
    way = QUEUE if lock == "queue" else {"hoodie.write.lock.provider": lock}
    options = {**OPTIONS, **way, **more}
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(writers)
    works = [
        context.Process(target=_work, args=(ready, folder / name, number, workload, options, seconds, table))
        for number in range(writers)
    ]
    for work in works:
        work.start()
    for work in works:
        work.join()
    failed = "" if all(work.exitcode == 0 for work in works) else "a process failed"
    base, counts = folder / name, list[dict[str, Any]]()
    if not failed:
        counts = [json.loads(Path(f"{base}.{number}.counts").read_text()) for number in range(writers)]
        try:
            check(folder / name, writers, None, table)
        except AssertionError as error:
            failed = f"rows differ: {error}"
    commits, lost = (sum(item[key] for item in counts) for key in ("commits", "lost"))
    lasted = max((item["seconds"] for item in counts), default=0.0) or 1.0
    return {
        "lock": lock,
        "workload": workload,
        "writers": writers,
        "commits": commits,
        "commits_a_minute": round(60 * commits / lasted, 1),
        "least_of_a_writer": min((item["commits"] for item in counts), default=0),
        "lost_attempts": lost,
        "abort_rate": round(lost / max(1, commits + lost), 3),
        "failed": failed,
    }


def _work(
    ready: Any, path: Path, number: int, workload: str, options: dict[str, str], seconds: float, table: str
) -> None:
    lost, commits = 0, 0

    def progress(stage: str, text: str) -> None:
        nonlocal lost
        lost += stage == "conflict"

    ready.wait()
    began = time.monotonic()
    with open(f"{path}.{number}", "w") as ledger:
        while time.monotonic() - began < seconds or not commits:
            rows = batch(workload, number, commits)
            done = hoodie.write_table(as_rows(rows), table or str(path), options=options, progress=progress)
            ledger.write(json.dumps({"instant": done.instant, "rows": rows}) + "\n")
            commits += 1
    counts = {"commits": commits, "lost": lost, "seconds": time.monotonic() - began}
    Path(f"{path}.{number}.counts").write_text(json.dumps(counts))


def _line(found: Mapping[str, Any]) -> str:
    return (
        f"{found['storage']:6} {found['lock']:11} {found['workload']:14} {found['writers']} writers: "
        f"{found['commits_a_minute']:7.1f} commits a minute, {100 * found['abort_rate']:5.1f}% lost"
        + (f"; {found['failed']}" if found["failed"] else "")
    )
