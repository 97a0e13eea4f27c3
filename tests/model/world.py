"""What a table must hold after each of its commits, kept as plain dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.model.flavor import EXTRA, PLAIN, Flavor, Row
from tests.support.oracle import Model

Rows = Counter[tuple[Any, ...]]

#: `_at`, the commit that wrote the row, is the reader's _hoodie_commit_time
COLUMNS = ("id", "ts", "region", "val", "name", *EXTRA, "_at")


def counted(rows: Iterable[Mapping[str, Any]]) -> Rows:
    return Counter(tuple(row.get(name) for name in COLUMNS) for row in rows)


def counted_table(table: pa.Table) -> Rows:
    if not table.num_rows:
        return Counter()  # of a table without a commit not even the columns are known
    names = [*COLUMNS[:-1], "_hoodie_commit_time"]
    columns = [table.column(name).to_pylist() if name in table.column_names else None for name in names]
    return Counter(zip(*(column or [None] * table.num_rows for column in columns), strict=True))


@dataclass(frozen=True, eq=False)
class Version:
    """The rows as of a commit."""

    instant: str
    rows: tuple[Row, ...]


@dataclass
class World:
    """The versions of a table, oldest first; the last one is what a snapshot query reads.

    `savepoints`: instants of commits to which it can go back. `restoring`: where to a restore that was begun
    goes, None for none.
    """

    versions: list[Version] = field(default_factory=list)
    savepoints: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    restoring: str | None = None
    flavor: Flavor = PLAIN

    @property
    def rows(self) -> list[Row]:
        return list(self.versions[-1].rows) if self.versions else []

    @property
    def regions(self) -> list[str]:
        return sorted({row["region"] for row in self.rows})

    def commit(self, instant: str, change: Change) -> None:
        """A write that was committed."""
        model = Model(["id"], ["region"], "ts")
        for row in self.rows:
            model.stored[model.identity(row)] = [row]
        change(model, [{**row, "_at": instant} for row in change.rows])
        self.versions.append(Version(instant, tuple(model.rows())))

    def keep(self, committed: Collection[str], needed: int = 40) -> None:
        """Forget versions whose commits were undone, and those that are too old to be asked for."""
        left = [version for version in self.versions if version.instant in committed]
        assert left == self.versions[: len(left)], "only the newest commits are undone"
        oldest = len(left) - needed
        saved = {self.as_of(instant) for instant in self.savepoints}
        self.versions = [item for place, item in enumerate(left) if place >= oldest or item in saved]

    def as_of(self, instant: str) -> Version | None:
        """The newest version that is not later."""
        return next((item for item in reversed(self.versions) if item.instant <= instant), None)


@dataclass(frozen=True)
class Change:
    """What an operation makes of the rows."""

    operation: str
    rows: Sequence[Row] = ()
    partitions: Sequence[str] = ()

    def __call__(self, model: Model, rows: Sequence[Row]) -> None:
        """`rows` are those of the change, stamped with their commit."""
        if self.operation == "upsert":
            model.upsert(rows)
        elif self.operation == "delete":
            model.delete(rows)
        elif self.operation == "delete_partition":
            self._drop(model, self.partitions)
        elif self.operation == "insert_overwrite_table":
            model.stored.clear()
            model.insert(rows, combine=True)
        elif self.operation == "insert_overwrite":
            self._drop(model, {row["region"] for row in rows})
            model.insert(rows, combine=True)
        else:
            model.insert(rows)

    @staticmethod
    def _drop(model: Model, regions: Collection[str]) -> None:
        for identity in [identity for identity in model.stored if identity[1][0] in regions]:
            del model.stored[identity]
