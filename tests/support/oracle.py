"""A Hudi table as a plain Python model: what the rows must be after a sequence of writes.

Deliberately simple and slow, one row at a time, so that it can be checked by reading. A row is identified by
record key and partition. The rules of tables up to version 6 are those of Apache Hudi 0.15.0
DefaultHoodieRecordPayload, OverwriteWithLatestAvroPayload, OverwriteNonDefaultsWithLatestAvroPayload and
PartialUpdateAvroPayload. Where the last one depends on accidents (a delete and another row of the same key in
one batch), the model follows the ordering values: see `Model.combine`.

Apache Hudi 1.2.0 makes merge modes of the payloads (BufferedRecordMergerFactory), of the first two in version
8, of all in version 9. By a mode the rows of a batch merge like those of two batches.
tests/interop/test_later_turns.py compares the model with it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Identity = tuple[Any, ...]

DELETED = "_hoodie_is_deleted"


class Mode(enum.Enum):
    """How an incoming row meets a stored row of the same key."""

    EVENT_TIME = "event_time"
    """The greater ordering value wins, a tie goes to the incoming row."""
    COMMIT_TIME = "commit_time"
    """The incoming row always wins; ordering values decide inside a batch only, or, by mode, nowhere."""
    OVERWRITE_NON_DEFAULTS = "overwrite_non_defaults"
    """As COMMIT_TIME; null fields of the incoming row keep the stored values, by mode inside a batch, too."""
    PARTIAL_UPDATE = "partial_update"
    """The row with the greater ordering value (tie: the incoming), its nulls filled from the other. A delete
    always wins against the table; by mode one with a smaller ordering value loses."""


class Model:
    """Rows by identity; a key has several rows only where `insert` or `bulk_insert` made duplicates.

    partition: fields whose values are the partition (null and "" are the same partition), or a function from
    a row to its partition. ordering: the ordering field, or None: then the later row of a batch and the
    incoming row win. version: the table's. Rows are copied in and out.
    """

    def __init__(
        self,
        record_keys: Sequence[str],
        partition: Sequence[str] | Callable[[Row], Any] = (),
        ordering: str | None = None,
        mode: Mode | str = Mode.EVENT_TIME,
        version: int = 6,
    ) -> None:
        self.record_keys = tuple(record_keys)
        self.partition = partition
        self.ordering = ordering
        self.mode = Mode(mode)
        by_mode = version >= (8 if self.mode in (Mode.EVENT_TIME, Mode.COMMIT_TIME) else 9)
        #: ordering values do not count inside a batch either
        self.by_arrival = by_mode and self.mode in (Mode.COMMIT_TIME, Mode.OVERWRITE_NON_DEFAULTS)
        self.fills_batch = self.mode is Mode.PARTIAL_UPDATE or (
            by_mode and self.mode is Mode.OVERWRITE_NON_DEFAULTS
        )
        self.late_deletes_lose = by_mode and self.mode is Mode.PARTIAL_UPDATE
        self.stored: dict[Identity, list[Row]] = {}

    def upsert(self, rows: Iterable[Mapping[str, Any]]) -> Model:
        """Combine the batch, then merge each row into every stored row of its identity, or store it."""
        for identity, row in self.combine(rows).items():
            if identity in self.stored:
                merged = [self.merge(old, row) for old in self.stored[identity]]
                left = [new for new in merged if new is not None]
            else:
                left = [] if row.get(DELETED) else [row]
            if left:
                self.stored[identity] = left
            else:
                self.stored.pop(identity, None)
        return self

    def insert(self, rows: Iterable[Mapping[str, Any]], *, combine: bool = False) -> Model:
        """Store every row beside what is there (no look at stored keys), deleted ones left out.

        combine: hoodie.combine.before.insert.
        """
        batch = self.combine(rows).values() if combine else [dict(row) for row in rows]
        for row in batch:
            if not row.get(DELETED):
                self.stored.setdefault(self.identity(row), []).append(row)
        return self

    def bulk_insert(self, rows: Iterable[Mapping[str, Any]], *, combine: bool = False) -> Model:
        """As `insert`."""
        return self.insert(rows, combine=combine)

    def delete(self, rows: Iterable[Mapping[str, Any]]) -> Model:
        """The delete operation: remove the rows' identities, whatever their ordering values."""
        for row in rows:
            self.stored.pop(self.identity(dict(row)), None)
        return self

    def insert_overwrite(self, rows: Iterable[Mapping[str, Any]], *, combine: bool = False) -> Model:
        """Replace the partitions that the rows name."""
        given = [dict(row) for row in rows]
        return self.delete_partitions({self.identity(row)[1] for row in given}).insert(given, combine=combine)

    def insert_overwrite_table(self, rows: Iterable[Mapping[str, Any]], *, combine: bool = False) -> Model:
        """Replace all."""
        self.stored.clear()
        return self.insert(rows, combine=combine)

    def delete_partitions(self, partitions: Iterable[Any]) -> Model:
        """Remove partitions, each as `identity` tells it."""
        gone = set(partitions)
        self.stored = {key: rows for key, rows in self.stored.items() if key[1] not in gone}
        return self

    def identity(self, row: Row) -> Identity:
        """(record key values, partition)."""
        keys = tuple(row.get(name) for name in self.record_keys)
        if all(value is None or value == "" for value in keys):
            raise ValueError(f"row without a record key: {row}")
        if callable(self.partition):
            return keys, self.partition(row)
        return keys, tuple(None if row.get(name) == "" else row.get(name) for name in self.partition)

    def combine(self, rows: Iterable[Mapping[str, Any]]) -> dict[Identity, Row]:
        """One row an identity: the greatest ordering value, of equal ones the later row. By mode it is the
        later row where ordering values do not count.

        PARTIAL_UPDATE: rows that follow one another are merged, unless one of the two deletes; then the
        greater ordering value alone decides. OVERWRITE_NON_DEFAULTS by mode: likewise.
        """
        batch: dict[Identity, Row] = {}
        for given in rows:
            row = dict(given)
            identity = self.identity(row)
            before = batch.get(identity)
            if before is None:
                batch[identity] = row
                continue
            late = not self.by_arrival and self.newer(before, row)
            winner, loser = (before, row) if late else (row, before)
            if self.fills_batch and not winner.get(DELETED) and not loser.get(DELETED):
                winner = filled(winner, loser)
            batch[identity] = winner
        return batch

    def merge(self, old: Row, row: Row) -> Row | None:
        """What is stored after an incoming row met a stored one; None: nothing."""
        late = self.newer(old, row)
        if late and self.mode is Mode.EVENT_TIME:
            return old
        if row.get(DELETED):
            return old if late and self.late_deletes_lose else None
        if late and self.mode is Mode.PARTIAL_UPDATE:
            return filled(old, row)
        if self.mode in (Mode.OVERWRITE_NON_DEFAULTS, Mode.PARTIAL_UPDATE):
            return filled(row, old)
        return row

    def newer(self, old: Row, row: Row) -> bool:
        """Whether `old` has the strictly greater ordering value."""
        if self.ordering is None:
            return False
        ours, theirs = old.get(self.ordering), row.get(self.ordering)
        if theirs is None:
            raise ValueError(f"row without an ordering value in {self.ordering}: {row}")
        return ours is not None and bool(ours > theirs)

    def rows(self) -> list[Row]:
        """Copies of all stored rows."""
        return [dict(row) for rows in self.stored.values() for row in rows]

    def table(self, schema: pa.Schema) -> pa.Table:
        """All rows as Arrow; a column that a row lacks is null."""
        return pa.Table.from_pylist(self.rows(), schema=schema)


def filled(winner: Row, other: Row) -> Row:
    """The winner, its null fields taken from the other; a deletion mark is never inherited."""
    merged = {name: winner.get(name) for name in {**other, **winner}}
    for name, value in merged.items():
        if value is None and name != DELETED:
            merged[name] = other.get(name)
    return merged
