"""Second pass over the rows: each goes to the write of a file group.

- `PlaceRows`: all rows are new. The blobs of a partition are cut among its file groups.
- `PlaceTagged`: the index has looked the rows up. A stored key goes to the write of its file group, a new key
  to one of its partition.
- `place_groups`: the index computes the file group from the key. A row in another file group than the index's
  is never found again. So the table's files are compared with the index before anything is written.

Memory: one chunk of rows and its copy in the order of the writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.codec.arrays import Ints, array, rows_of, whole
from hoodie.codec.hashing import FILE_GROUP_SEED, key_fractions
from hoodie.engine.task import Task
from hoodie.errors import ConfigError, JobError, TableError
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import new_file_id
from hoodie.index import PlacingIndex
from hoodie.index.locations import LOOK_UP, NOWHERE, Positions
from hoodie.storage import Storage
from hoodie.table.buckets import has_rings
from hoodie.table.commit_keys import logged_keys
from hoodie.table.handle import Table
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice, TimelineView, merged_slices
from hoodie.write.assign.workload import Assignment, WorkloadProfile
from hoodie.write.blobs import (
    BLOB_BYTES,
    BLOB_ID,
    DELETES,
    ROWS,
    Blob,
    decode_rows,
    decoded,
    encode_rows,
    in_batches,
    values,
)
from hoodie.write.context import LEADING, PARTITION_CODE, WriteContext
from hoodie.write.input.incoming import CHUNK_ROWS, chunk_bytes, travelling
from hoodie.write.input.stage import grouped
from hoodie.write.plan import WritePlan
from hoodie.write.tagging.partition_updates import decide
from hoodie.write.tagging.record_locations import RecordLocations
from hoodie.write.tagging.tag import BlobId, Tags

Shares = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class PlaceRows:
    """The function given to `map_batches`. A key always goes to the same file group of its
    partition."""

    assignment: Assignment
    travel_schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            payloads: Any = batch.column("payload")
            for row, partition in enumerate(values(batch, "partition")):
                yield from in_batches(self._cut(partition, payloads[row].as_buffer()))

    def _cut(self, partition: str, payload: pa.Buffer) -> Iterator[Blob]:
        shares = shares_of(self.assignment, partition)
        for number, piece in self._split(partition, payload, shares):
            for blob, count in encode_rows(piece):
                yield Blob(partition, count, blob, number, self.assignment.reducers[number])

    def _split(self, partition: str, payload: pa.Buffer, shares: Shares) -> Iterator[tuple[int, pa.Table]]:
        rows = pa.Table.from_batches([decode_rows(payload, self.travel_schema)])
        keys = rows.column(RECORD_KEY).combine_chunks()
        chosen = chosen_shares(self.assignment, partition, shares, keys)
        for position, (number, _) in enumerate(shares):
            mask = chosen == position
            if mask.any():
                yield number, rows.filter(pa.array(mask))


def shares_of(assignment: Assignment, partition: str) -> Shares:
    """The file-group writes of a partition's new rows. Raises JobError where none were counted."""
    shares = assignment.inserts.get(partition)
    if shares is None:
        raise appeared(partition)
    return shares


def appeared(partition: str) -> JobError:
    """The error of rows for a partition that none was counted for."""
    return JobError(
        f"rows for partition {partition!r} appeared between two passes over the input: the input "
        "changes when it is read again; write it to a file first",
        partition=partition,
    )


def chosen_shares(
    assignment: Assignment, partition: str, shares: Shares, keys: pa.Array[Any]
) -> npt.NDArray[np.int64]:
    """The position in `shares` of each key's."""
    ranges = assignment.ranges.get(partition)
    return _by_hash(keys, shares) if ranges is None else _by_range(keys, ranges)


def _by_hash(keys: pa.Array[Any], shares: Shares) -> npt.NDArray[np.int64]:
    edges = np.cumsum([share for _, share in shares])
    places = np.searchsorted(edges, key_fractions(keys, FILE_GROUP_SEED), side="right")
    return np.minimum(places, len(shares) - 1)


def _by_range(keys: pa.Array[Any], starts: tuple[str, ...]) -> npt.NDArray[np.int64]:
    places = np.zeros(len(keys), dtype=np.int64)
    for start in starts:
        places += pc.greater_equal(keys, pa.scalar(start)).to_numpy(zero_copy_only=False)
    return places


#: the partitions that the rows' codes stand for, the rows (see `WriteContext.staged_schema`), where they are
Staged = tuple[list[str], pa.RecordBatch, RecordLocations]


class _Deletes:
    """Keys to delete, and the write of each."""

    def __init__(self, context: WriteContext) -> None:
        self._schema = context.deletes_schema
        self.held: list[pa.Table] = []
        self.writes: list[Positions] = []

    def add(self, staged: pa.RecordBatch, left: RecordLocations, writes: Positions) -> None:
        keys: Any = staged.column(RECORD_KEY).take(array(left.rows))
        self.held.append(pa.Table.from_arrays([keys, array(left.stored)], schema=self._schema))
        self.writes.append(writes)


@dataclass(frozen=True)
class PlaceTagged:
    """The function given to `map_batches`. `numbers` are the file-group writes by label (see `Tags`), NOWHERE
    for slices that no row goes to.

    `hits` are those of all blobs; None: each blob comes with its own, in the column `hits`. `searched`: the
    index was asked; else all rows are new.
    """

    context: WriteContext
    assignment: Assignment
    numbers: Positions
    hits: Mapping[BlobId, bytes] | None
    searched: bool

    @classmethod
    def of(cls, context: WriteContext, assignment: Assignment, tags: Tags) -> PlaceTagged:
        updates = assignment.updates
        numbers = [updates.get((item.partition, item.file_id), NOWHERE) for item in tags.slices]
        return cls(context, assignment, np.array(numbers, dtype=np.int32), tags.hits, tags.searched)

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        blobs = decoded(batches, self.context.staged_schema)
        yield from self.place(
            (json.loads(row["partitions"]), rows, self._locations(row)) for row, rows in blobs
        )

    def place(self, staged_rows: Iterable[Staged]) -> Iterator[pa.RecordBatch]:
        """Blobs of the rows, by write."""
        held: list[pa.Table] = []
        writes: list[Positions] = []
        deletes = _Deletes(self.context)
        size, rows, most = 0, 0, chunk_bytes(self.context)
        for names, staged, hits in staged_rows:
            if held and (size + staged.nbytes > most or rows + staged.num_rows > CHUNK_ROWS):
                yield from in_batches(self._cut(held, writes))
                yield from in_batches(self._cut(deletes.held, deletes.writes, DELETES))
                held, writes, deletes, size, rows = [], [], _Deletes(self.context), 0, 0
            table, targets = self._placed(names, staged, hits, deletes)
            held.append(table)
            writes.append(targets)
            size += table.nbytes
            rows += table.num_rows
        yield from in_batches(self._cut(held, writes))
        yield from in_batches(self._cut(deletes.held, deletes.writes, DELETES))

    def _cut(self, held: list[pa.Table], writes: list[Positions], kind: int = ROWS) -> Iterator[Blob]:
        """The rows by write."""
        if not held:
            return
        rows, targets = pa.concat_tables(held), np.concatenate(writes)
        held.clear()
        if not rows.num_rows:
            return
        order, bounds = grouped(targets, len(self.assignment.writes))
        if not np.array_equal(order, np.arange(len(order))):
            rows = rows.take(array(order))
        (ordered,) = rows.combine_chunks().to_batches()
        step = rows_of(rows, BLOB_BYTES)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            partition, reducer = self.assignment.writes[number].partition, self.assignment.reducers[number]
            end = int(bounds[number + 1])
            for start in range(int(bounds[number]), end, step):
                piece = ordered.slice(start, min(step, end - start))
                yield Blob(
                    partition, piece.num_rows, piece.serialize().to_pybytes(), number, reducer, kind=kind
                )

    def _placed(
        self, names: list[str], staged: pa.RecordBatch, hits: RecordLocations, deletes: _Deletes
    ) -> tuple[pa.Table, Positions]:
        """The rows that go on, as they travel, and the write of each; adds to `deletes`."""
        context = self.context
        staged, hits, left = decide(context, staged, hits)
        if left is not None:
            deletes.add(staged, left, self._writes(left.labels))
        if not context.operation.brings_rows:
            chosen: Any = hits.rows
            targets, stored = self._writes(hits.labels), hits.stored
        else:
            stored = np.full(staged.num_rows, NOWHERE if context.tags else LOOK_UP, dtype=np.int32)
            targets = np.full(staged.num_rows, NOWHERE, dtype=np.int32)
            copies = hits.take(hits.followed)
            hits = hits.take(~hits.followed)
            updates = hits.labels < len(self.numbers)
            targets[hits.rows[updates]] = self._writes(hits.labels[updates])
            stored[hits.rows] = hits.stored
            new: Any = targets == NOWHERE
            new[hits.rows[~updates]] = False
            if context.found_by:
                new[:] = False
            self._place_new(names, staged, np.flatnonzero(new), targets)
            chosen = np.flatnonzero(targets != NOWHERE)
            targets = np.concatenate([targets[chosen], self._writes(copies.labels)])
            stored = np.concatenate([stored[chosen], copies.stored])
            chosen = np.concatenate([chosen, copies.rows])
        rows = pa.Table.from_batches([staged])
        if len(chosen) != staged.num_rows or not context.operation.brings_rows:
            rows = rows.take(array(chosen))
        keys, data = whole(rows.column(0)), rows.select(rows.column_names[LEADING:])
        return travelling(keys, data, array(stored)), targets

    def _place_new(self, names: list[str], staged: pa.RecordBatch, new: Ints, targets: Positions) -> None:
        codes = staged.column(PARTITION_CODE).to_numpy()[new]
        firsts = np.full(len(names), NOWHERE, dtype=np.int32)
        for code in np.unique(codes).tolist():
            shares = shares_of(self.assignment, names[code])
            if len(shares) == 1:
                firsts[code] = shares[0][0]
                continue
            mine = new[codes == code]
            keys = staged.column(RECORD_KEY).take(array(mine))
            numbers = np.array([number for number, _ in shares], dtype=np.int32)
            targets[mine] = numbers[chosen_shares(self.assignment, names[code], shares, keys)]
        single = firsts[codes] != NOWHERE
        targets[new[single]] = firsts[codes[single]]

    def _writes(self, labels: Positions) -> Positions:
        found = self.numbers[labels]
        if (found == NOWHERE).any():
            raise changed()
        return found

    def _locations(self, row: dict[str, Any]) -> RecordLocations:
        if not self.searched:
            return RecordLocations.none()
        found = row["hits"] if self.hits is None else self.hits.get(tuple(row[name] for name in BLOB_ID))
        if found is None:
            raise changed()
        return RecordLocations.from_bytes(found)


def changed() -> JobError:
    """The error of rows that are not those whose keys were looked for."""
    return JobError(
        "rows were staged again, and are not those that were looked for: the input changes when it is read "
        "again; write it to a file first"
    )


#: stored keys that are compared where the table does not remember its index: of two numbers of buckets one of
#: which is twice the other, half of the keys have the same bucket
_ENOUGH_KEYS = 64
_MOST_FILES = 16


def place_groups(table: Table, plan: WritePlan, index: PlacingIndex, profile: WorkloadProfile) -> None:
    """Count the profile's rows by file group: those that are there, or new ones. Keys to delete of new
    ones are missing.

    Raises ConfigError where the file groups of the table are not the index's, TableError where two have the
    same number, and where a new one would be out of sight.
    """
    index.load({*profile.slices, *(partition for partition, _ in profile.numbered)})
    replaces = plan.context.operation.replaces
    # what a ring lacks may be overwritten
    spared = index.ringed and replaces and has_rings(table.storage, plan.timeline)
    slices = {} if spared else profile.slices
    there = {partition: _numbers(index, found) for partition, found in slices.items()}
    if plan.new_properties is None:
        _check(table, plan, index, profile)
    if replaces:
        there = {}
    profile.groups.clear()
    shown = {(name, slice_.file_id) for name, group in profile.slices.items() for slice_ in group}
    for (partition, number), total in sorted(profile.numbered.items()):
        known = there.get(partition, {}).get(int(number))
        if known is None and not plan.context.operation.brings_rows:
            profile.missing += total[0]
        file_id = known or index.new_file_id(partition, int(number))
        used = (partition, file_id) in shown or (partition, file_id) in plan.context.snapshot.replaced
        if known is None and used and not index.ringed:  # of zeros, in an overwritten partition
            file_id, used = f"{file_id[:8]}{new_file_id()[8:]}", False
        if known is None and used and plan.context.operation.brings_rows:
            raise _replaced(partition, file_id)
        profile.file_ids[partition, number] = file_id
        profile.groups[partition, file_id] = total


def _replaced(partition: str, file_id: str) -> TableError:
    return TableError(
        f"file group {file_id} of partition {partition!r} was replaced, or is by this write, and the hash "
        "ring of the partition has it still: Apache Hudi leaves it so when it overwrites or deletes a "
        "partition. Rows that are put there would not be seen. Overwrite the partition here "
        "(insert_overwrite), which renews its ring",
        partition=partition,
        file_id=file_id,
    )


def _numbers(index: PlacingIndex, slices: list[FileSlice]) -> dict[int, str]:
    """File ids by number."""
    found: dict[int, str] = {}
    for slice_ in slices:
        partition, file_id = slice_.partition, slice_.file_id
        number = _number(index, slice_)
        if found.setdefault(number, file_id) != file_id:
            raise TableError(
                f"partition {partition!r} has two file groups of bucket {number}, {found[number]} and "
                f"{file_id}: a writer that did not know the table's index made one of them. Write the "
                "partition anew (insert_overwrite)",
                partition=partition,
                file_id=file_id,
            )
    return found


def _check(table: Table, plan: WritePlan, index: PlacingIndex, profile: WorkloadProfile) -> None:
    """Raises ConfigError where stored keys are not in the file groups that the index says.

    Lists all partitions, and reads keys of some files, unless the table's properties say that it was made
    with this index.
    """
    persisted = index.persisted
    if persisted and all(table.properties.get(name) == text for name, text in persisted.items()):
        return
    stored: list[tuple[str, int, pa.Array[Any]]] = []
    snapshot = plan.context.snapshot
    for number, slice_ in _to_compare(table, plan, index, profile)[:_MOST_FILES]:
        stored.append((slice_.partition, number, _some_keys(table.storage, slice_, snapshot)))
        if sum(len(keys) for _, _, keys in stored) >= _ENOUGH_KEYS:
            break
    for partition, number, keys in stored:
        elsewhere = ~index.belong(partition, keys, number)
        if elsewhere.any():
            raise ConfigError(
                f"{table.base_path} was made with other settings than the index {type(index).__name__} has "
                f"now: file group {number} of partition {partition!r} has keys such as "
                f"{str(keys.filter(array(elsewhere))[0].as_py())!r}; "
                f"{index.advice([(number, keys) for _, number, keys in stored])}",
                path=table.base_path,
            )


def _to_compare(
    table: Table, plan: WritePlan, index: PlacingIndex, profile: WorkloadProfile
) -> list[tuple[int, FileSlice]]:
    """All file groups, the greatest numbers first: file groups beyond a number of buckets show that it only
    divides the table's, the keys of any show other differences. Where rings have the numbers, any file groups
    do, of the write's partitions or of another one.
    """
    listing, snapshot = table.listing(), plan.context.snapshot
    slices = [slice_ for found in profile.slices.values() for slice_ in found]
    others = [] if index.ringed and slices else listing.partitions()
    others = [name for name in others if name not in profile.slices]
    for partition in others if index.ringed else listing.many(others):
        slices += merged_slices(snapshot, listing.files, partition)
        if index.ringed and slices:
            break
    ringed = index.ringed and has_rings(table.storage, plan.timeline)
    numbered = [
        (index.number(slice_.partition, slice_.file_id) if ringed else _number(index, slice_), slice_)
        for slice_ in slices
    ]
    known = [(number, slice_) for number, slice_ in numbered if number is not None]
    return sorted(known, key=lambda item: (-item[0], -item[1].size))


def _some_keys(storage: Storage, slice_: FileSlice, snapshot: TimelineView) -> pa.Array[Any]:
    if slice_.base is not None:
        with open_base(storage, slice_.base, None) as reader:
            keys: Any = next(reader.record_keys(READ_BATCH_ROWS), None)
    else:
        keys = next(logged_keys(storage, slice_, snapshot), None)
    if keys is None:
        none: pa.Array[Any] = pa.array([], pa.string())
        return none
    return whole(keys).slice(0, _ENOUGH_KEYS)


def _number(index: PlacingIndex, slice_: FileSlice) -> int:
    """Raises ConfigError for a file group of another index."""
    number = index.number(slice_.partition, slice_.file_id)
    if number is not None:
        return number
    raise ConfigError(
        f"the index {type(index).__name__} can't be used: the table is none of the BUCKET index with these "
        f"settings, as file group {slice_.file_id} of partition {slice_.partition!r} {index.unknown}",
        partition=slice_.partition,
        file_id=slice_.file_id,
    )
