"""The jobs at work on a table, and those that wait for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hoodie.concurrency.queue import line
from hoodie.serve.tables import ShownTable
from hoodie.table.heartbeat import HeartbeatFile
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES


def alive(beat: HeartbeatFile) -> bool:
    """By the default settings; our own heartbeats say themselves for how long they count."""
    return beat.alive(INTERVAL_MS.default or 0, TOLERABLE_MISSES.default or 0)


def described(beat: HeartbeatFile) -> dict[str, Any]:
    """JSON-able: the process of a heartbeat."""
    return {
        "owner": beat.owner,
        "service": beat.service,
        "silent_ms": max(0, beat.age_ms),
        "run": vars(beat.run) if beat.run is not None else None,
    }


def waiting(table: ShownTable, beats: Collection[HeartbeatFile]) -> list[dict[str, Any]]:
    """Jobs that wait for the table, first to last, each with those at work that it waits for, and how many of
    the queue go first. `beats`: heartbeats of those at work.
    """
    queue = line(table.table, INTERVAL_MS.default or 0, TOLERABLE_MISSES.default or 0)
    if not queue:
        return []
    holders = [
        {"instant": beat.instant, **described(beat)} for beat in beats if not beat.service and alive(beat)
    ]
    return [
        {
            "rank": item.rank.name.lower(),
            "waited_ms": max(0, table.now_ms - item.arrived_ms),
            **described(item.beat),
            "ahead": place,
            "for": holders,
        }
        for place, item in enumerate(queue)
    ]
