"""First pass over the input: the index finds the file group of every row, and the rows are cut into blobs by
file group.

Runs on executors, once per input partition, without a shuffle. Memory: one chunk of input rows and, one
file at a time, the key column of the candidate files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Ints, array, whole
from hoodie.engine.task import Task
from hoodie.errors import ConfigError, HoodieError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index import Index, Scope
from hoodie.index.locations import LOOK_UP, NOWHERE, Locations, Positions
from hoodie.table.handle import Table
from hoodie.table.partition import PARTITION_FILE
from hoodie.table.view import FileSlice, merged_slices
from hoodie.write.blobs import SUMMARY, Blob, encode_rows, error_message, message, rows_batch
from hoodie.write.context import WriteContext
from hoodie.write.duplicates import known_keys, refuse_known
from hoodie.write.incoming import CHUNK_BYTES, chunks, keyed_rows, travelling
from hoodie.write.partition_check import check_partition
from hoodie.write.settings import Known
from hoodie.write.workload import slice_to_json

_SAMPLES = 64


class Group(NamedTuple):
    """Records of `partition` whose keys are in the file group `file_id` of `stored_partition`, which is
    another one only for an index whose scope is the table. New records have no file id.
    """

    partition: str
    stored_partition: str
    file_id: str

    @classmethod
    def new(cls, partition: str) -> Group:
        return cls(partition, partition, "")

    @classmethod
    def stored(cls, partition: str, slice_: FileSlice) -> Group:
        return cls(partition, slice_.partition, slice_.file_id)


@dataclass(frozen=True)
class Tagged:
    """The groups by label, the rows of a chunk that go on (None: all), and for each of these its label and
    its row in the base file of the group, NOWHERE and LOOK_UP as in `Locations`.
    """

    groups: list[Group]
    rows: Ints | None
    labels: Positions
    stored: Positions


class _Found(NamedTuple):
    """Rows of those that were looked for (None: all), the slice of each or NOWHERE, its row there."""

    rows: Ints | None
    slices: Positions
    stored: Positions


class Tagging:
    """Asks the index where the rows of one task go. Keeps the slices of the partitions that it looked at."""

    def __init__(self, context: WriteContext) -> None:
        self.context = context
        self.table = Table(context.table)
        self.listing = self.table.listing()
        self.listed: dict[str, list[FileSlice]] = {}
        self._checked: set[str] = set()

    def tag(self, keys: pa.Array[Any], codes: Positions, partitions: Sequence[str]) -> Tagged:
        """`codes` are the positions of the rows' partitions in `partitions`.

        An update goes to one file group, of several with its key to that of the youngest base file; a delete
        goes to each. Rows that are left out because their key is stored are not among the tagged ones.
        """
        for partition in partitions:
            self._check(partition)
        index = self.context.index
        if index is None:
            stored = np.full(len(keys), LOOK_UP, dtype=np.int32)
            return Tagged([Group.new(partition) for partition in partitions], None, codes, stored)
        if index.scope is Scope.TABLE:
            return self._tag_in_table(index, keys, codes, partitions)
        groups: list[Group] = []
        parts: list[tuple[Ints | None, Positions, Positions]] = []
        order, bounds = grouped(codes, len(partitions))
        for code, partition in enumerate(partitions):
            rows = None if len(partitions) == 1 else order[bounds[code] : bounds[code + 1]]
            slices = _oldest_first(index, self.slices(partition))
            first = len(groups)
            groups += [Group.new(partition), *(Group.stored(partition, slice_) for slice_ in slices)]
            found = self._look(index, slices, keys if rows is None else keys.take(array(rows)))
            if found.rows is not None:
                rows = found.rows if rows is None else rows[found.rows]
            parts.append((rows, first + 1 + found.slices, found.stored))
        return _joined(groups, parts, len(keys) if self.context.operation.brings_rows else None)

    def _tag_in_table(
        self, index: Index, keys: pa.Array[Any], codes: Positions, partitions: Sequence[str]
    ) -> Tagged:
        every = [slice_ for partition in self.listing.partitions() for slice_ in self.slices(partition)]
        slices = _oldest_first(index, every)
        found = self._look(index, slices, keys)
        codes = codes if found.rows is None else codes[found.rows]
        # the groups are the pairs of a partition and a slice, or none, that occur
        width = len(slices) + 1
        pairs: Any = np.unique(codes.astype(np.int64) * width + found.slices + 1, return_inverse=True)
        groups = [
            Group.stored(partitions[code], slices[number - 1]) if number else Group.new(partitions[code])
            for code, number in (divmod(pair, width) for pair in pairs[0].tolist())
        ]
        return Tagged(groups, found.rows, pairs[1].astype(np.int32), found.stored)

    def slices(self, partition: str) -> list[FileSlice]:
        if partition not in self.listed:
            self.listed[partition] = merged_slices(self.context.snapshot, self.listing.files, partition)
        return self.listed[partition]

    @property
    def unmarked(self) -> list[str]:
        """Partitions with file groups whose metadata file is missing."""
        return [
            partition
            for partition, slices in self.listed.items()
            if slices and not any(item.name == PARTITION_FILE for item in self.listing.files(partition))
        ]

    def _check(self, partition: str) -> None:
        if partition in self._checked:
            return
        self._checked.add(partition)
        if partition and self.context.operation.brings_rows:
            fields = self.context.keys.partition_fields
            entries = self.listing.files(partition)
            check_partition(self.table, partition, fields, entries)
        self.slices(partition)

    def _look(self, index: Index, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> _Found:
        if not slices:
            nowhere = np.full(len(keys), NOWHERE, dtype=np.int32)
            return _Found(None, nowhere, nowhere if self.context.tags else np.full_like(nowhere, LOOK_UP))
        distinct = keys.dictionary_encode()
        names, places = distinct.dictionary, distinct.indices.to_numpy()
        locations = index.locate(self.context.table, slices, names)
        _check_answer(index, locations, len(slices), len(names))
        if not self.context.operation.brings_rows:
            return _everywhere(locations, places, len(names))
        found, stored = locations.last(len(names))
        kept = self._kept(index, slices, names, found, keys, places)
        places = places if kept is None else places[kept]
        if self.context.tags:
            return _Found(kept, found[places], stored[places])
        count = len(places)
        return _Found(kept, np.full(count, NOWHERE, np.int32), np.full(count, LOOK_UP, np.int32))

    def _kept(
        self,
        index: Index,
        slices: Sequence[FileSlice],
        names: pa.Array[Any],
        found: Positions,
        keys: pa.Array[Any],
        places: npt.NDArray[Any],
    ) -> Ints | None:
        """The rows that go on by the policy for keys that are stored; None: all. `names` are the distinct
        keys, `found` their slices, `places` the positions of the rows' keys among them. Raises DuplicateKey.
        """
        policy = self.context.duplicates.known
        if policy is Known.NONE:
            return None
        known = found != NOWHERE
        if not index.sees_logs:
            known = known_keys(self.context.slices, self.table.storage, slices, names, found)
        known = known[places]
        if policy is Known.FAIL:
            refuse_known(keys, known, "" if index.scope is Scope.TABLE else slices[0].partition)
        return np.flatnonzero(~known) if policy is Known.DROP and known.any() else None


@dataclass
class _Total:
    """Rows of one group seen by one task."""

    rows: int = 0
    bytes: int = 0
    samples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TagRows:
    """The function given to `map_batches`."""

    context: WriteContext
    sample_keys: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from _Tagger(self.context, self.sample_keys).run(batches)
        except HoodieError as error:
            yield error_message(error)


class _Tagger:
    def __init__(self, context: WriteContext, sample_keys: bool) -> None:
        self.context = context
        self.sample_keys = sample_keys
        self.tagging = Tagging(context)
        self.totals: dict[Group, _Total] = {}
        self.missing = self.dropped = 0

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks(batches):
            yield from self._blobs(chunk)
        yield message(SUMMARY, self.summary())

    def _blobs(self, chunk: pa.Table) -> Iterator[pa.RecordBatch]:
        blobs: list[Blob] = []
        size = 0
        for group, piece in self._pieces(chunk):
            if not group.file_id and not self.context.operation.brings_rows:
                self.missing += piece.num_rows  # nothing to delete
                continue
            if not group.file_id and piece.num_rows:
                self._refuse_placed(group.partition, piece)
            self.count(group, piece)
            for blob, count in encode_rows(piece):
                blobs.append(Blob(*group, count, blob))
                size += len(blob)
                if size >= CHUNK_BYTES // 8:
                    yield rows_batch(blobs)
                    blobs, size = [], 0
        if blobs:
            yield rows_batch(blobs)

    def _pieces(self, chunk: pa.Table) -> Iterator[tuple[Group, pa.Table]]:
        """The rows of each group, as they travel."""
        context = self.context
        keys, paths, rows = keyed_rows(context, chunk)
        if context.duplicates.combine or context.duplicates.merge:
            context.merger.check(rows)
        partitions = [str(path) for path in paths.dictionary.to_pylist()]
        tagged = self.tagging.tag(keys, paths.indices.to_numpy().astype(np.int32), partitions)
        if tagged.rows is not None:
            if context.operation.brings_rows:
                self.dropped += len(keys) - len(tagged.rows)
            keys, rows = keys.take(array(tagged.rows)), rows.take(array(tagged.rows))
        rows = travelling(keys, rows, pa.array(tagged.stored))
        if len(tagged.groups) == 1:
            yield tagged.groups[0], rows
            return
        order, bounds = grouped(tagged.labels, len(tagged.groups))
        if not np.array_equal(order, np.arange(len(order))):
            rows = rows.take(order)
        for label, group in enumerate(tagged.groups):
            yield group, rows.slice(bounds[label], bounds[label + 1] - bounds[label])

    def _refuse_placed(self, partition: str, new: pa.Table) -> None:
        index = self.context.index
        if index is None or not self.context.tags:
            return
        if index.place(partition, whole(new.column(RECORD_KEY))) is not None:
            name = type(index).__name__
            raise ConfigError(
                f"the index {name} chooses the file groups of new records, which is not supported yet; "
                "let its `place` return None",
                index=name,
            )

    def count(self, group: Group, piece: pa.Table) -> None:
        if piece.num_rows == 0:
            return
        total = self.totals.setdefault(group, _Total())
        total.rows += piece.num_rows
        total.bytes += piece.nbytes
        if self.sample_keys:
            step = max(1, math.ceil(piece.num_rows / _SAMPLES))
            total.samples.extend(str(key) for key in piece.column(RECORD_KEY)[::step].to_pylist())

    def summary(self) -> dict[str, Any]:
        listed = self.tagging.listed
        return {
            "groups": [
                [*group, total.rows, total.bytes, total.samples] for group, total in self.totals.items()
            ],
            "slices": {
                partition: list(map(slice_to_json, found))
                for partition, found in listed.items()
                if found or self.context.operation.brings_rows
            },
            "listed": list(listed),
            "unmarked": self.tagging.unmarked,
            "missing": self.missing,
            "dropped": self.dropped,
        }


def _oldest_first(index: Index, slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices that the index is asked about; of several with a key the last one counts."""
    seen = [slice_ for slice_ in slices if slice_.base or index.sees_logs]
    return sorted(seen, key=lambda slice_: (slice_.base.instant if slice_.base else "", slice_.file_id))


def _check_answer(index: Index, locations: Locations, slices: int, keys: int) -> None:
    """Raises ConfigError for positions that an index of the caller's own got wrong."""
    count = len(locations.keys)
    if len(locations.slices) == len(locations.rows) == count and (
        not count or (_within(locations.keys, keys) and _within(locations.slices, slices))
    ):
        return
    name = type(index).__name__
    raise ConfigError(f"the index {name} located keys outside of what it was asked; correct it", index=name)


def _within(positions: Positions, count: int) -> bool:
    return bool(positions.min() >= 0 and positions.max() < count)


def _everywhere(locations: Locations, places: npt.NDArray[Any], keys: int) -> _Found:
    """Every row once for each slice with its key, or once with NOWHERE."""
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=keys)
    starts = np.cumsum(counts) - counts
    located = np.lexsort((locations.keys, locations.slices))
    names = locations.keys[located]
    repeats = counts[names]
    within = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    stored = np.zeros(keys, dtype=np.bool_)
    stored[names] = True
    missing = np.flatnonzero(~stored[places])
    nowhere = np.full(len(missing), NOWHERE, dtype=np.int32)
    return _Found(
        np.concatenate([order[np.repeat(starts[names], repeats) + within], missing]),
        np.concatenate([np.repeat(locations.slices[located], repeats), nowhere]),
        np.concatenate([np.repeat(locations.rows[located], repeats), nowhere]),
    )


def _joined(
    groups: list[Group], parts: Sequence[tuple[Ints | None, Positions, Positions]], count: int | None
) -> Tagged:
    """The tagged rows of all partitions of a chunk; `count` is how many there are where none is repeated."""
    if len(parts) == 1:
        return Tagged(groups, *parts[0])
    found: list[Any] = [np.concatenate(values) for values in zip(*parts, strict=True)]
    rows, labels, stored = found
    if len(rows) != count:
        return Tagged(groups, rows, labels, stored)
    in_order: Any = np.empty_like(labels), np.empty_like(stored)
    in_order[0][rows], in_order[1][rows] = labels, stored
    return Tagged(groups, None, *in_order)


def grouped(labels: npt.NDArray[np.int32], count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(stable order by label, start of every label in it; count + 1 entries)."""
    narrow = labels.astype(np.uint16) if count <= 1 << 16 else labels
    order = np.argsort(narrow, kind="stable")
    sizes = np.bincount(labels, minlength=count)
    return order, np.concatenate([[0], np.cumsum(sizes)])
