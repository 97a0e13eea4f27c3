"""A table with a day behind it: real writes, one an hour, on a clock that is set back.

Merge-on-read, upserted by runs of the DAG `orders_hourly`, compacted, cleaned and archived on the way; one
write dies in the middle and is rolled back by the next, another one at the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.table import heartbeat
from hoodie.table.heartbeat import machine
from hoodie.timeline import clock
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.commit import PlannedFile, inflight_metadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import RUN_KEY, TOKEN_KEY
from tests.support.stores import store_at

START = dt.datetime(2026, 3, 9, 0, 5, 12, tzinfo=dt.timezone.utc)
DAG, TASK = "orders_hourly", "upsert"
#: orders of so many hours are in one partition
_SHIFT = 4
#: keys that an hour may use
_IDS = 2000
OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.partitionpath.field": "ordered",
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "4",
    "hoodie.cleaner.commits.retained": "5",
    "hoodie.keep.min.commits": "14",
    "hoodie.keep.max.commits": "18",
}
_STORAGE = LocalStorage()


def interval(hour: int) -> tuple[str, str]:
    """Start and end, ISO 8601, of the data interval that the write of this hour stands for."""
    end = START.replace(minute=0, second=0) + dt.timedelta(hours=hour)
    return (end - dt.timedelta(hours=1)).isoformat(), end.isoformat()


def run_id(hour: int) -> str:
    return f"scheduled__{interval(hour)[1]}"


def write_table(folder: Path, hours: int = 24, *, archive: bool = True) -> str:
    """Path of the table. 24 hours take about three seconds."""
    path = str(folder / "orders")
    options = OPTIONS if archive else {**OPTIONS, "hoodie.archive.automatic": "false"}
    chance = random.Random(7)
    settled: set[str] = set()
    with set_back() as now:
        for hour in range(hours):
            now(START + dt.timedelta(hours=hour, seconds=chance.randrange(40)))
            if hour == hours // 2:
                die(path, hour, chance)
                settle(path, settled, chance)
                now(START + dt.timedelta(hours=hour, minutes=22))
            hoodie.write_table(
                orders(hour, chance), path, operation="upsert", options=options, extra_metadata=task(hour)
            )
            settle(path, settled, chance)
        now(START + dt.timedelta(hours=hours))
        die(path, hours, chance)
        settle(path, settled, chance)
    return path


def orders(hour: int, chance: random.Random) -> pa.Table:
    """New orders of an hour, and changes of earlier ones."""
    new, first = _new(hour), hour * _IDS
    earlier = [chance.randrange(hour) for _ in range(new // 3)] if hour else []
    changed = [other * _IDS + chance.randrange(_new(other)) for other in earlier]
    ids = [*dict.fromkeys(changed), *range(first, first + new)]
    shifts = [number // _IDS // _SHIFT * _SHIFT for number in ids]
    return pa.table(
        {
            "order_id": [f"o{number:07d}" for number in ids],
            "ordered": [f"2026-03-{9 + shift // 24:02d}-{shift % 24:02d}" for shift in shifts],
            "updated_at": pa.array([hour] * len(ids), pa.int64()),
            "amount": pa.array([float(chance.randrange(100, 90000)) / 100 for _ in ids]),
            "status": [chance.choice(("open", "paid", "sent")) for _ in ids],
        }
    )


def _new(hour: int) -> int:
    return random.Random(hour).randrange(200, _IDS)


def task(hour: int, dag: str = DAG, name: str = TASK) -> dict[str, str]:
    """What names the run of a task in an hour."""
    return {
        TOKEN_KEY: f"{dag}/{name}/-1/{'/'.join(interval(hour))}",
        RUN_KEY: f"{dag}/{name}/-1/run={run_id(hour)}",
    }


def die(path: str, hour: int, chance: random.Random) -> str:
    """Leave what a writer leaves that is killed while it writes: an inflight instant, and a heartbeat of a
    process that is gone. Returns its instant.
    """
    time = clock.new_instant_time(None, utc=True)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    owner = {"host": "worker-2", "machine": machine(), "pid": process.pid, "started": "1"}
    owner |= task(hour)
    _STORAGE.write(heartbeat.heartbeat_path(path, time), json.dumps(owner).encode())
    planned = inflight_metadata(
        "UPSERT",
        {"2026-03-09-20": 412},
        {"2026-03-09-16": [PlannedFile("", InstantTime(""), chance.randrange(300))]},
    )
    planned = dataclasses.replace(planned, extra_metadata=task(hour))
    for state, data in ((State.REQUESTED, b""), (State.INFLIGHT, planned.to_json())):
        store_at(path).create(Instant(time, Action.DELTACOMMIT, state), data)
    return time


def settle(path: str, settled: set[str], chance: random.Random) -> None:
    """Give new files of the timeline times as in production: a write takes minutes, not milliseconds."""
    folder = Path(path, META_FOLDER)
    by_time: dict[str, list[tuple[State, Path]]] = {}
    for file in sorted(folder.iterdir()):
        known = ONE.parse(file.name)
        if known is not None and file.name not in settled:
            by_time.setdefault(known.time, []).append((known.state, file))
            settled.add(file.name)
    for time, files in by_time.items():
        begun = clock.instant_millis(time, utc=True) / 1000 + 0.05
        work = chance.uniform(60, 420)
        late = {State.REQUESTED: 0.0, State.INFLIGHT: work / 4, State.COMPLETED: work}
        for state, file in files:
            os.utime(file, (begun + late[state],) * 2)


@contextlib.contextmanager
def set_back() -> Iterator[Callable[[dt.datetime], None]]:
    """Instants are taken from a clock of ours; the function that it gives sets it. Times must rise."""
    place = SimpleNamespace(now=START.timestamp())

    def tick() -> float:
        place.now += 7.0  # so that a service after a write is seen beside it
        return float(place.now)

    def now(moment: dt.datetime) -> None:
        place.now = moment.timestamp()

    ours = SimpleNamespace(time=tick)
    with mock.patch.object(clock, "time", ours), mock.patch.dict(clock._last, clear=True):
        yield now
