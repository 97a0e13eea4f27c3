"""Between the two passes: where the index finds the keys of staged rows.

Keys are gathered by the files that may have them, each file is asked about once, and the answers go back by
the blob of rows that they belong to. Three functions for `map_batches`, with shuffles between them:
`RouteKeys`, by locator; `LocateKeys`, by input task; `MergeLocations`. Rows do not move.

Memory: a locator holds keys up to `located_bytes`, beyond which it asks about its files again, and the key
columns of some files; `MergeLocations` holds the answers for one input task.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Bools, Ints, array, whole
from hoodie.engine.packing import together
from hoodie.engine.task import Task
from hoodie.errors import ConfigError, HoodieError
from hoodie.index import Index, Scope
from hoodie.index.locations import NOWHERE, Locations, Positions
from hoodie.storage import Storage
from hoodie.table.view import FileSlice
from hoodie.write.assign.workload import slice_from_json
from hoodie.write.blobs import ERROR, HITS, KEYS, STAGED_SCHEMA, SUMMARY, decoded, error_message, message
from hoodie.write.context import WriteContext
from hoodie.write.input.delete_keys import check_no_known_keys, known_keys
from hoodie.write.input.stage import KEY_SCHEMA, grouped
from hoodie.write.settings import Known
from hoodie.write.tagging.partition_updates import find_moved
from hoodie.write.tagging.record_locations import Copies, RecordLocations, again, gone, numbers, paired

LOCATED_BYTES = 128 << 20
_LEAST_BYTES = 1 << 20
#: more than there are partitions
_CODES = 1 << 31
#: keys on their way to a locator: the number of the partition in the whole write, the row in the blob
_ROUTED = pa.schema([*KEY_SCHEMA, pa.field("row", pa.int32())])


def located_bytes(context: WriteContext) -> int:
    """Bytes of keys that a locator holds at once; it has several copies of them then."""
    return min(LOCATED_BYTES, max(_LEAST_BYTES, context.merge_budget // 8))


@dataclass(frozen=True)
class Unit:
    """Slices, (partition, slice as JSON), that are asked about together, for the keys of one partition, by
    its number, or of all (None). The first slice has the label `first`, the next ones those that follow.
    """

    code: int | None
    first: int
    slices: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class RouteKeys:
    """Cuts the keys of each blob by locator.

    `codes` numbers the partitions; those of number c are looked for by the locators
    `locators[starts[c] : starts[c + 1]]`: by all of them, or, where the index cuts keys into parts, by that
    of its part. A blob without any goes to one, so that it is answered for.
    """

    codes: dict[str, int]
    starts: Ints
    locators: Positions
    count: int
    parts_of: Index | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        for row, keys in decoded(batches, KEY_SCHEMA):
            yield self._routed(row, keys)

    def _routed(self, row: dict[str, Any], keys: pa.RecordBatch) -> pa.RecordBatch:
        names = json.loads(row["partitions"])
        codes = np.array([self.codes[name] for name in names], dtype=np.int32)[keys.column(1).to_numpy()]
        counts = np.diff(self.starts)[codes]
        if self.parts_of is None:
            rows = np.repeat(np.arange(len(codes)), counts)
            within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        else:
            rows = np.arange(len(codes))
            within = self.parts_of.key_part(keys.column(0)) % counts
        targets = self.locators[self.starts[codes[rows]] + within]
        order, bounds = grouped(targets, self.count)
        wanted = np.flatnonzero(np.diff(bounds)).tolist() or [row["task"] % self.count]
        sent = []
        for locator in wanted:
            mine = rows[order[bounds[locator] : bounds[locator + 1]]]
            columns = [keys.column(0).take(array(mine)), array(codes[mine]), array(mine.astype(np.int32))]
            payload = pa.RecordBatch.from_arrays(columns, schema=_ROUTED).serialize().to_pybytes()
            sent.append({**row, "kind": KEYS, "reducer": locator, "partitions": "", "payload": payload})
        return pa.RecordBatch.from_pylist(sent, schema=STAGED_SCHEMA)


@dataclass(frozen=True)
class LocateKeys:
    """Asks the index about the units of each locator; answers every message with the hits among its keys.

    `partitions` are the partitions by number, `slices` the count of all labels. Labels beyond are those of
    rows to leave out: the count and the number of their partition. `reducers`: how many tasks merge hits.
    """

    context: WriteContext
    units: tuple[tuple[Unit, ...], ...]
    partitions: tuple[str, ...]
    slices: int
    reducers: int

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        try:
            for locator, messages in itertools.groupby(
                decoded(batches, _ROUTED), key=lambda item: item[0]["reducer"]
            ):
                for held in together(messages, lambda item: item[1].nbytes, located_bytes(self.context)):
                    yield self._answers(self.units[locator], held)
        except HoodieError as error:
            yield error_message(error, STAGED_SCHEMA)

    def _answers(
        self, units: Sequence[Unit], held: list[tuple[dict[str, Any], pa.RecordBatch]]
    ) -> pa.RecordBatch:
        batches = [batch for _, batch in held]
        keys = whole(pa.chunked_array([batch.column("key") for batch in batches]))
        codes = np.concatenate([batch.column("code").to_numpy() for batch in batches])
        rows = np.concatenate([batch.column("row").to_numpy() for batch in batches])
        edges = np.cumsum([0, *(batch.num_rows for batch in batches)])
        hits = self._look(units, keys, codes).by_row()
        answers = []
        for number, (row, _) in enumerate(held):
            payload = hits.between(int(edges[number]), int(edges[number + 1]), rows).to_bytes()
            answers.append({**row, "kind": HITS, "reducer": row["task"] % self.reducers, "payload": payload})
        return pa.RecordBatch.from_pylist(answers, schema=STAGED_SCHEMA)

    def _look(self, units: Sequence[Unit], keys: pa.Array[Any], codes: Positions) -> RecordLocations:
        search = _Search(self)
        order, bounds = grouped(codes, len(self.partitions))
        found = [RecordLocations.none()]
        for unit in units:
            if unit.code is None:
                found.append(search.look(unit, keys, codes))
                continue
            rows = order[bounds[unit.code] : bounds[unit.code + 1]]
            if len(rows):
                hits = search.look(unit, keys.take(array(rows)), codes[rows])
                found.append(replace(hits, rows=rows[hits.rows].astype(np.int32)))
        return RecordLocations.joined(found)


class _Search:
    """Asks the index; the policy for keys that are stored, and what the writer does not do, apply here."""

    def __init__(self, step: LocateKeys) -> None:
        self._step = step
        self._context = step.context
        self._storage: Storage = step.context.table.storage()
        self._codes = {partition: code for code, partition in enumerate(step.partitions)}

    def look(self, unit: Unit, keys: pa.Array[Any], codes: Positions) -> RecordLocations:
        """The hits among `keys`, by their place there; `codes` are the numbers of their partitions."""
        context, index = self._context, self._context.index
        assert index is not None
        base = context.base_path
        slices = [slice_from_json(base, partition, value) for partition, value in unit.slices]
        distinct = keys.dictionary_encode()
        names, places = distinct.dictionary, distinct.indices.to_numpy()
        locations = index.locate(context.table, slices, names) if slices else Locations.of(())
        _check_answer(index, locations, len(slices), len(names))
        if context.operation.brings_rows:
            found, stored = locations.last(len(names))
            known = self._known(index, slices, names, found, keys, places)
            hits = self._updates(found, stored, known, places, codes, unit.first)
            if context.tags and len(locations.keys) > np.count_nonzero(found != NOWHERE):
                hits = self._copies(hits, _everywhere(locations, places, len(names), unit.first))
            if context.tags:
                hits = self._with_moved(hits, slices, keys, codes, unit.first)
        else:
            hits = _everywhere(locations, places, len(names), unit.first)
        return hits

    def _copies(self, hits: RecordLocations, everywhere: RecordLocations) -> RecordLocations:
        """All places of the rows that go where their keys are stored, and the rows that are left out."""
        left_out = hits.take(hits.labels >= self._step.slices)
        return RecordLocations.joined([everywhere.without(left_out.rows), left_out])

    def _with_moved(
        self,
        hits: RecordLocations,
        slices: Sequence[FileSlice],
        keys: pa.Array[Any],
        codes: Positions,
        first: int,
    ) -> RecordLocations:
        index = self._context.index
        if index is None or index.scope is not Scope.TABLE or not slices:
            return hits
        updates = hits.labels < self._step.slices
        there = hits.take(updates)
        places = there.labels - first
        return replace(hits, moved=find_moved(self._context, slices, self._codes, there, places, keys, codes))

    def _updates(
        self,
        found: Positions,
        stored: Positions,
        known: Bools | None,
        places: npt.NDArray[Any],
        codes: Positions,
        first: int,
    ) -> RecordLocations:
        """One hit a row: where it goes, of several places the youngest, or that it is left out."""
        labels = np.where(found == NOWHERE, NOWHERE, found + first)[places].astype(np.int32)
        if not self._context.tags:
            labels = np.full_like(labels, NOWHERE)
        if known is not None:
            left_out = known[places]
            labels[left_out] = self._step.slices + codes[left_out]
        rows = np.flatnonzero(labels != NOWHERE).astype(np.int32)
        return RecordLocations(rows, labels[rows], stored[places[rows]])

    def _known(
        self,
        index: Index,
        slices: Sequence[FileSlice],
        names: pa.Array[Any],
        found: Positions,
        keys: pa.Array[Any],
        places: npt.NDArray[Any],
    ) -> Bools | None:
        """Which of the distinct keys `names` the table has and the write leaves out; None: no such policy.
        Raises DuplicateKey.
        """
        policy = self._context.duplicates.known
        if policy is Known.NONE:
            return None
        known = known_keys(self._context.slices, self._storage, slices, names, found)
        if policy is Known.FAIL:
            partition = "" if index.scope is Scope.TABLE or not slices else slices[0].partition
            check_no_known_keys(keys, known[places], partition)
        return known if policy is Known.DROP else None


@dataclass(frozen=True)
class MergeLocations:
    """One row of hits for each blob of the input, and a summary: rows by label, and rows with any; those that
    were found in another partition than their own by label and number of their partition (`moved`).

    A row goes to each slice with its key (`record_locations`); beyond the first one it is counted in `again`,
    which has the same by label, and by label and number of the partition.
    """

    everywhere: bool
    copies: Copies

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        counts = _Counts()
        rows = size = 0
        for _, messages in itertools.groupby(_rows(batches), key=lambda row: row["task"]):
            merged: dict[tuple[int, str], list[dict[str, Any]]] = {}
            for row in messages:
                if row["kind"] == ERROR:
                    yield pa.RecordBatch.from_pylist([row], schema=STAGED_SCHEMA)
                else:
                    merged.setdefault((row["number"], row["digest"]), []).append(row)
            for group in merged.values():
                hits = RecordLocations.joined([RecordLocations.from_bytes(row["payload"]) for row in group])
                hits = hits.by_label() if self.everywhere else self.copies.shown(hits.in_order())
                rows += len(np.unique(hits.rows))
                counts.add(hits, copies=not self.everywhere)
                payload = hits.to_bytes()
                size += len(payload)
                yield pa.RecordBatch.from_pylist([{**group[0], "payload": payload}], schema=STAGED_SCHEMA)
        summary = {**counts.summary(), "rows": rows, "bytes": size}
        yield message(SUMMARY, summary, STAGED_SCHEMA)


class _Counts:
    """Rows by label, and those found in another partition than their own, and there, by label and number of
    their own, in one number; of both those that are counted already.
    """

    def __init__(self) -> None:
        self._labels, self._labels_again = Counter[int](), Counter[int]()
        self._moved, self._moved_again = Counter[int](), Counter[int]()

    def add(self, hits: RecordLocations, *, copies: bool) -> None:
        """`copies`: the hits are in order, and a row may have several."""
        away = np.zeros(len(hits.rows), dtype=np.bool_)
        codes = np.zeros(0, dtype=np.int64)
        if hits.moved is not None:
            live = hits.moved.filter(array(~gone(hits.moved)))
            every = paired(numbers(hits.moved, "row"), numbers(hits.moved, "label"))
            there = paired(numbers(live, "row"), numbers(live, "label"))
            absent = np.setdiff1d(every, there)
            hits = hits.take(~np.isin(hits.pairs, absent))
            away = np.isin(hits.pairs, there)
            codes = numbers(live, "code")[np.searchsorted(there, hits.pairs[away])].astype(np.int64)
        _tally(self._labels, hits.labels[~away])
        moved = hits.labels[away].astype(np.int64) * _CODES + codes
        _tally(self._moved, moved)
        if copies and hits.followed.any():
            labels_again, moved_again = again(hits, away)
            _tally(self._labels_again, hits.labels[labels_again])
            _tally(self._moved_again, moved[moved_again[away]])

    def summary(self) -> dict[str, Any]:
        return {
            "labels": list(self._labels.items()),
            "moved": _by_code(self._moved),
            "again": [*self._labels_again.items()],
            "moved_again": _by_code(self._moved_again),
        }


def _by_code(counts: Counter[int]) -> list[list[int]]:
    return [[*divmod(place, _CODES), count] for place, count in counts.items()]


def _tally(counts: Counter[int], values: Positions | Ints) -> None:
    found, times = np.unique(values, return_counts=True)
    counts.update(dict(zip(found.tolist(), times.tolist(), strict=True)))


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


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


def _everywhere(locations: Locations, places: npt.NDArray[Any], keys: int, first: int) -> RecordLocations:
    """Every row once for each slice with its key."""
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=keys)
    starts = np.cumsum(counts) - counts
    repeats = counts[locations.keys]
    within = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return RecordLocations(
        order[np.repeat(starts[locations.keys], repeats) + within].astype(np.int32),
        (np.repeat(locations.slices, repeats) + first).astype(np.int32),
        np.repeat(locations.rows, repeats),
    )
