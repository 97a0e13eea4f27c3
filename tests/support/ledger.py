"""A participant in commits that keeps files of its own: two for each instant that it prepared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hoodie.config.key import Config
from hoodie.format.names import join
from hoodie.index.simple import SimpleIndex
from hoodie.table.handle import Table
from hoodie.table.participant import Commit, CommitParticipant
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Instant
from hoodie.timeline.time import REQUESTED

FOLDER = ".hoodie/.ledger"
PARTS = ("changes", "sum")


class Ledger(CommitParticipant):
    """What an instant changed, and then how much that is."""

    def prepare(self, commit: Commit) -> None:
        deleted = {path: sorted(names) for path, names in sorted(commit.deleted.items())}
        undone = sorted((info.time for info in commit.rolled_back), key=REQUESTED.key)
        changes = {"deleted": deleted, "undone": undone}
        total = {"deleted": sum(map(len, deleted.values())), "undone": len(undone)}
        self._sweep(commit.table)
        for part, content in zip(PARTS, (changes, total), strict=True):
            commit.table.storage.write(
                _path(commit.table, commit.instant, part), json.dumps(content).encode()
            )

    def undo(self, table: Table, instant: Instant) -> None:
        self._sweep(table)
        for part in reversed(PARTS):
            table.storage.delete(_path(table, instant, part))

    def _sweep(self, table: Table) -> None:
        table.storage.sweep_partial(join(table.base_path, FOLDER))


class LedgerIndex(SimpleIndex):
    def __init__(self, *, config: Config) -> None: ...

    def participant(self, table: Table) -> CommitParticipant:
        return Ledger()


LEDGER = {"hoodie.index.class": f"{__name__}:{LedgerIndex.__name__}"}


def entries(path: str | Path) -> dict[str, dict[str, Any]]:
    """What the ledger counts: that of completed instants, by time and action. Fails where it is not whole."""
    found = {}
    for instant in Timeline.load(str(path)):
        if instant.completed:
            name = _name(instant)
            changes, total = (json.loads(Path(path, FOLDER, f"{name}.{part}").read_bytes()) for part in PARTS)
            assert total["deleted"] == sum(map(len, changes["deleted"].values()))
            assert total["undone"] == len(changes["undone"])
            found[name] = changes
    return found


def not_counted(path: str | Path) -> list[str]:
    """Files of the ledger of instants that are not there, or not completed."""
    known = {_name(instant) for instant in Timeline.load(str(path)) if instant.completed}
    return sorted(file.name for file in Path(path, FOLDER).glob("*") if file.stem not in known)


def _name(instant: Instant) -> str:
    return f"{instant.time}.{instant.comparable_action.value}"


def _path(table: Table, instant: Instant, part: str) -> str:
    return join(table.base_path, FOLDER, f"{_name(instant)}.{part}")
