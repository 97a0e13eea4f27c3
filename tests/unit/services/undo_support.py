"""A table with the model of each of its commits, for tests that take commits back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hoodie
from hoodie.timeline.instant import Action
from hoodie.write.operation import WriteResult
from tests.support.oracle import Model
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import small_rows
from tests.unit.services.clean_support import MANUAL, MOR, commits, timeline
from tests.unit.write.support import Pair

COPY_ON_WRITE, MERGE_ON_READ = "COPY_ON_WRITE", "MERGE_ON_READ"
TYPES = [COPY_ON_WRITE, MERGE_ON_READ]
COMPACT = {"hoodie.compact.inline.max.delta.commits": 1, "hoodie.index.bloom.num_entries": 200}


class History(Pair):
    """`states`: the model by commit."""

    def __init__(
        self, path: Path, kind: str = COPY_ON_WRITE, options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(path, {**(MOR if kind == MERGE_ON_READ else MANUAL), **(options or {})})
        self.kind = kind
        self.states: dict[str, Model] = {}

    def write(self, rows: Sequence[Mapping[str, Any]], operation: str = "upsert", **more: Any) -> WriteResult:
        result = super().write(rows, operation, **more)
        self.states[result.instant] = copy.deepcopy(self.model)
        return result

    def change(self, version: int, keys: range = range(30)) -> str:
        """Upsert half of the keys, with a delete among them; the commit."""
        rows = small_rows(keys[version % 2 :: 2], version)
        gone = small_rows(keys[version : version + 1], version, deleted=True)
        return self.write([*rows, *gone]).instant

    def compact(self, mode: str = "run") -> str:
        """The compaction's instant."""
        result = hoodie.compact_table(str(self.path), mode=mode, options=COMPACT)
        self.states[result.instant] = copy.deepcopy(self.model)
        self.check(f"after compaction, {mode}")
        return result.instant

    def back_to(self, instant: str) -> None:
        """The model is as of the commit, and so must the table be."""
        self.model = copy.deepcopy(self.states[instant])
        self.check(f"back at {instant}")
        self.check_hudi_rs(f"back at {instant}")

    def check_hudi_rs(self, what: str = "") -> None:
        if not timeline(self).filter([Action.COMPACTION], completed=False):  # which it can't read
            assert_same_rows(read_hudi_rs(self.path), self.model.table(self.schema), what=f"{what}: hudi-rs")

    def commits(self) -> list[str]:
        return commits(self)

    def actions(self) -> list[str]:
        """What is on the timeline, without times."""
        return [f"{item.action.value} {item.state.name.lower()}" for item in timeline(self)]


def three_commits(path: Path, kind: str) -> History:
    return changed(path, kind)


def changed(path: Path, kind: str, versions: int = 3, options: Mapping[str, Any] | None = None) -> History:
    """With a commit for each version."""
    made = History(path, kind, options)
    for version in range(1, versions + 1):
        made.change(version)
    return made
