"""File-group writes of a dry run: the rows are merged and judged as in the write, counted, and not written.

A task reads the columns of the stored rows that the merger decides by, and their keys where the index leaves
these to the writer. Memory is that of the write, without the rows of the stored files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from hoodie.format.internal_schema import stored_batches
from hoodie.format.names import new_file_id
from hoodie.index import PlacingIndex
from hoodie.read.key_join import Part, live, tally
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice
from hoodie.timeline.commit import WriteStat
from hoodie.write.context import WriteContext
from hoodie.write.files.append import filtered
from hoodie.write.files.handles import Handles, check_not_hidden
from hoodie.write.files.late_records import judge, places_in


class Effect(str, Enum):
    """What a file group gets."""

    NEW = "new"
    REWRITTEN = "rewritten"
    APPENDED = "appended"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class GroupCount:
    """What a write would do to one file group.

    inserts, updates, deletes, and the rows of its new file: as its statistics would have them. late: rows
    that change nothing, as the stored row of their key is newer. compared: were stored rows read for that.
    """

    partition: str
    file_id: str
    effect: Effect
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    late: int = 0
    rows: int = 0
    compared: bool = False

    @classmethod
    def of(cls, value: dict[str, Any]) -> GroupCount:
        """From the JSON of a task's answer."""
        return cls(**{**value, "effect": Effect(value["effect"])})


@dataclass
class Rehearsal(Handles):
    """Counts what Handles write; there are no files, hence no statistics."""

    counted: list[GroupCount] = field(default_factory=list)

    def take_counts(self) -> dict[str, Any]:
        counted, self.counted = self.counted, []
        return {**super().take_counts(), "counted": [asdict(count) for count in counted]}

    def create(self, partition: str, file_id: str, rows: Iterator[pa.Table]) -> list[WriteStat]:
        count = sum(live(self.context.merger, given).num_rows for given in rows)
        if count:
            self.counted.append(new_group(partition, file_id, count))
        return []

    def merge(self, base: BaseFile, parts: list[Part], inserts: Iterator[pa.Table]) -> list[WriteStat]:
        context = self.context
        names = _deciding(context)
        target = pa.schema([item for item in context.schema if item.name in names])
        updates = deletes = start = 0
        with open_base(self.storage, base, context.file_schema) as reader:
            places, known_as = places_in(reader, parts), context.columns(base.instant)
            held = target.names if known_as is None else known_as.names(target.names)
            compared = bool({*held} & {*reader.schema.names}) and bool((places.part >= 0).any())
            if compared:
                for stored in stored_batches(reader, target, known_as):
                    end = start + stored.num_rows
                    found = tally(context.merger, names, stored, places.between(start, end), parts)
                    updates, deletes, start = updates + found[0], deletes + found[1], end
            else:
                absent = pa.table({})
                matches = places.between(0, reader.rows)
                updates, deletes = tally(context.merger, names, absent, matches, parts)
            rows = reader.rows
        added = sum(live(context.merger, given).num_rows for given in self._unmatched(parts, inserts))
        if not context.operation.brings_rows:
            self.missing += sum(part.unmatched().num_rows for part in parts)
        self.counted.append(
            GroupCount(
                partition=base.partition,
                file_id=base.file_id,
                effect=Effect.REWRITTEN,
                inserts=added,
                updates=updates,
                deletes=deletes,
                late=int((places.part >= 0).sum()) - updates - deletes,
                rows=rows - deletes + added,
                compared=compared,
            )
        )
        return []

    def append(self, slice_: FileSlice, parts: list[Part], gone: Sequence[Part] = ()) -> list[WriteStat]:
        verdicts = judge(self.context, self.storage, slice_, parts)
        inserts = (
            filtered(part.rows, verdict.inserts) for part, verdict in zip(parts, verdicts, strict=True)
        )
        updates = sum(int(each.updates.sum()) for each in verdicts)
        deletes = sum(int(each.deletes.sum()) for each in verdicts) + sum(len(part.keys) for part in gone)
        logs = self.context.logs
        counted = GroupCount(
            partition=slice_.partition,
            file_id=slice_.file_id,
            effect=Effect.APPENDED if updates or deletes else Effect.NOTHING,
            updates=updates,
            deletes=deletes,
            late=sum(int(each.outdated.sum()) for each in verdicts),
            rows=updates,
            compared=bool(parts and logs and logs.ordering and not self.context.log_only),
        )
        self.counted.append(counted)
        if isinstance(self.context.index, PlacingIndex):
            check_not_hidden(slice_, inserts)
            return []
        return self.create(slice_.partition, new_file_id(), inserts)


def new_group(partition: str, file_id: str, rows: int) -> GroupCount:
    return GroupCount(partition=partition, file_id=file_id, effect=Effect.NEW, inserts=rows, rows=rows)


def group_counts(answers: Sequence[dict[str, Any]]) -> list[GroupCount]:
    """Those of the answers of all tasks."""
    return [GroupCount.of(value) for answer in answers for value in answer["counted"]]


def handles_of(context: WriteContext, *given: Any) -> Handles:
    """What a task writes its file groups with, or counts them with; `given` as those of Handles."""
    return (Rehearsal if context.dry_run else Handles)(context, *given)


def _deciding(context: WriteContext) -> list[str]:
    """The columns of rows that decide what a merge takes."""
    names = context.merger.deciding_columns(context.schema)
    return [*(context.schema.names if names is None else names), *context.flags]
