"""Stored rows and incoming rows with the same key: found, and merged batch by batch.

Writes merge what they were given with a base file; reads, compaction and clustering merge log records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from hoodie.format.meta_fields import RECORD_KEY
from hoodie.merge import Merger

Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: bytes of a short text
_SHORT = 64


@dataclass
class Part:
    """Incoming rows, one a key, then keys to delete whatever is stored; no key is in both.

    `used` marks those that matched a stored row, rows first. `stored_deletes` has the stored rows of
    `deletes` where they are known.
    """

    rows: pa.Table
    used: Bools
    deletes: pa.Array[Any] | None = None
    stored_deletes: npt.NDArray[np.int32] | None = None

    @classmethod
    def of(
        cls,
        rows: pa.Table,
        deletes: pa.Array[Any] | None = None,
        stored_deletes: npt.NDArray[np.int32] | None = None,
    ) -> Part:
        count = rows.num_rows + (0 if deletes is None else len(deletes))
        return cls(rows, np.zeros(count, dtype=np.bool_), deletes, stored_deletes)

    @property
    def keys(self) -> pa.ChunkedArray[Any]:
        """Of the rows, then those to delete."""
        keys = self.rows.column(RECORD_KEY)
        if self.deletes is None or not len(self.deletes):
            return keys
        return pa.chunked_array([*keys.chunks, self.deletes], pa.string())

    def unmatched(self) -> pa.Table:
        """Rows that matched none."""
        left = ~self.used[: self.rows.num_rows]
        return self.rows if left.all() else self.rows.filter(pa.array(left))


@dataclass(frozen=True)
class Match:
    """Pairs of one part: rows of a stored batch, ascending, and rows of the part."""

    part: int
    stored: Ints
    incoming: Ints


@dataclass(frozen=True)
class Places:
    """For every stored row the part, or -1, and the row of it that has the same key; 6 bytes a stored row."""

    part: npt.NDArray[np.int16]
    row: npt.NDArray[np.int32]
    parts: int

    @classmethod
    def of_rows(cls, stored_rows: Sequence[npt.NDArray[Any]], stored: int) -> Places:
        """`stored_rows` has the stored row of every row of each part, negative for none."""
        places = cls._empty(len(stored_rows), stored)
        for number, rows in enumerate(stored_rows):
            known = np.flatnonzero(rows >= 0)
            places.part[rows[known]] = number
            places.row[rows[known]] = known
        return places

    @classmethod
    def looked_up(cls, keys: Iterable[Any], stored: int, parts: Sequence[Part]) -> Places:
        """`keys` are those of the stored rows, in pieces; a repeated one matches every time."""
        places = cls._empty(len(parts), stored)
        start = 0
        for piece in keys:
            for number, part in enumerate(parts):
                hits = pc.index_in(piece, value_set=part.keys).fill_null(-1)
                found = np.asarray(hits).astype(np.int32)
                here = np.flatnonzero(found >= 0)
                places.part[start + here] = number
                places.row[start + here] = found[here]
            start += len(piece)
        return places

    @property
    def complete(self) -> bool:
        """Every stored row matches one."""
        return bool((self.part >= 0).all())

    @classmethod
    def _empty(cls, parts: int, stored: int) -> Places:
        return cls(np.full(stored, -1, dtype=np.int16), np.zeros(stored, dtype=np.int32), parts)

    def between(self, start: int, stop: int) -> Iterator[Match]:
        """What matches the stored rows from `start` to before `stop`, counted from `start`."""
        owner = self.part[start:stop]
        for number in range(self.parts):
            here = np.flatnonzero(owner == number)
            if len(here):
                yield Match(number, here, self.row[start + here].astype(np.int64))


@dataclass(frozen=True)
class Merged:
    """A stored batch after the merge; `fresh` marks rows that were replaced, `gone` those of the stored batch
    that are not there any more.
    """

    rows: pa.Table
    fresh: Bools
    gone: Bools

    @property
    def deletes(self) -> int:
        return int(self.gone.sum())

    @property
    def updates(self) -> int:
        return int(self.fresh.sum())


def looked_at(
    merger: Merger, schema: pa.Schema, parts: Sequence[Part] = (), wanted: Sequence[str] = ()
) -> list[str]:
    """Columns of `schema` that `merge_batch` needs for these parts, of whose rows those are wanted."""
    names = merger.columns(schema)
    if names is None:
        return list(schema.names)
    if not merger.fills_always and not any(merger.fills(part.rows) for part in parts):
        return list(names)
    filled = {*names, *wanted}
    return [name for name in schema.names if name in filled]


def merge_batch(
    merger: Merger, names: list[str], stored: pa.Table, matches: Iterable[Match], parts: Sequence[Part]
) -> Merged:
    """The stored rows merged with what matches them; `names` are the columns that the merger looks at, of
    stored rows those of them that they have.

    Columns of `stored` that the parts lack stay as they were. Marks what was used in the parts.
    """
    fresh = np.zeros(stored.num_rows, dtype=np.bool_)
    gone = np.zeros(stored.num_rows, dtype=np.bool_)
    places: list[Ints] = []
    sources: list[pa.Table] = []
    for outcome in _outcomes(merger, names, stored, matches, parts):
        gone[outcome.gone] = True
        fresh[outcome.replaced] = True
        if len(outcome.replaced):
            places.append(outcome.replaced)
            sources.append(outcome.rows)
    if places:
        stored = _replace(stored, *_in_order(places, sources))
    if gone.any():
        return Merged(stored.filter(pa.array(~gone)), fresh[~gone], gone)
    return Merged(stored, fresh, gone)


@dataclass(frozen=True)
class Apart:
    """A stored batch after the merge, in no order: the stored rows that stay as they were, and those that
    others were replaced by, with all columns of the parts. `deletes` counts those that are gone.
    """

    left: pa.Table
    fresh: list[pa.Table]
    deletes: int

    @property
    def updates(self) -> int:
        return sum(rows.num_rows for rows in self.fresh)


def merge_apart(
    merger: Merger, names: list[str], stored: pa.Table, matches: Iterable[Match], parts: Sequence[Part]
) -> Apart:
    """As `merge_batch`, for rows whose order does not matter; it copies fewer bytes. The parts have all
    columns of `stored`.
    """
    left = np.ones(stored.num_rows, dtype=np.bool_)
    fresh: list[pa.Table] = []
    deletes = 0
    for outcome in _outcomes(merger, names, stored, matches, parts):
        left[outcome.gone] = False
        left[outcome.replaced] = False
        deletes += len(outcome.gone)
        if len(outcome.replaced):
            fresh.append(outcome.rows)
    return Apart(stored if left.all() else stored.filter(pa.array(left)), fresh, deletes)


def tally(
    merger: Merger, names: list[str], stored: pa.Table, matches: Iterable[Match], parts: Sequence[Part]
) -> tuple[int, int]:
    """How many stored rows a merge replaces, and how many it takes away. `names` are the columns by which the
    merger decides; `stored` has those of them that the file has, or is without columns.
    """
    outcomes = list(_outcomes(merger, names, stored, matches, parts))
    return sum(len(each.replaced) for each in outcomes), sum(len(each.gone) for each in outcomes)


def replacement(
    merger: Merger, names: list[str], stored: pa.Table, matches: Iterable[Match], parts: Sequence[Part]
) -> Merged | None:
    """As `merge_batch` where no stored row stays as it was, with all columns of the parts; else None.

    `stored` needs no columns but `names`.
    """
    outcomes = list(_outcomes(merger, names, stored, matches, parts))
    gone = np.zeros(stored.num_rows, dtype=np.bool_)
    for outcome in outcomes:
        gone[outcome.gone] = True
    if gone.sum() + sum(len(outcome.replaced) for outcome in outcomes) < stored.num_rows:
        return None
    changed = [outcome for outcome in outcomes if len(outcome.replaced)]
    if not changed:
        return None
    _, rows = _in_order([outcome.replaced for outcome in changed], [outcome.rows for outcome in changed])
    return Merged(rows, np.ones(rows.num_rows, dtype=np.bool_), gone)


@dataclass(frozen=True)
class _Outcome:
    """Of stored rows that match one part: which are gone, which are replaced, and by what."""

    gone: Ints
    replaced: Ints
    rows: pa.Table


def _outcomes(
    merger: Merger, names: list[str], stored: pa.Table, matches: Iterable[Match], parts: Sequence[Part]
) -> Iterator[_Outcome]:
    there = frozenset(stored.column_names)
    # a table without columns forgets how many rows it has when rows are taken from it
    known = [name for name in names if name in there]
    for match in matches:
        part = parts[match.part]
        part.used[match.incoming] = True
        deleted = match.incoming >= part.rows.num_rows
        here, ours = match.stored[~deleted], match.incoming[~deleted]
        if not len(here):
            yield _Outcome(match.stored, here, part.rows.slice(0, 0))
            continue
        incoming = part.rows.take(ours)
        marks = [name for name in merger.marks if name in incoming.column_names]
        after = incoming.select([*names, *marks])
        before = stored.select(known).take(here) if known else after
        outcome = merger.merge(before, after)
        replaced = outcome.take & ~outcome.delete
        rows = incoming if outcome.rows is None else with_columns(incoming, outcome.rows)
        if not replaced.all():
            rows = rows.filter(pa.array(replaced))
        yield _Outcome(np.concatenate([match.stored[deleted], here[outcome.delete]]), here[replaced], rows)


def live(merger: Merger, rows: pa.Table) -> pa.Table:
    """Rows without those that delete their key."""
    deleted = merger.deleted(rows)
    return rows.filter(pa.array(~deleted)) if deleted.any() else rows


def with_columns(rows: pa.Table, columns: pa.Table) -> pa.Table:
    """The rows with these columns in the place of theirs."""
    names = rows.column_names
    merged = {name: columns.column(name) for name in columns.column_names}
    return pa.table([merged.get(name, rows.column(name)) for name in names], names=names)


def _in_order(places: list[Ints], sources: list[pa.Table]) -> tuple[Ints, pa.Table]:
    """The places of several parts, ascending, and the rows for them."""
    if len(places) == 1:
        return places[0], sources[0]
    every = np.concatenate(places)
    order = np.argsort(every)
    return every[order], pa.concat_tables(sources).take(order)


def _is_taken(values: pa.Array[Any]) -> bool:
    """No kernel replaces nested values, and short texts are taken faster than they are replaced."""
    kind = values.type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return bool(pa.types.is_nested(kind))
    return values.nbytes <= _SHORT * len(values)


def _replace(stored: pa.Table, rows: Ints, incoming: pa.Table) -> pa.Table:
    """`stored` with `rows` (ascending) taken from `incoming`, row by row, in the columns that both have."""
    count = stored.num_rows
    mask = np.zeros(count, dtype=np.bool_)
    mask[rows] = True
    arrow_mask = pa.array(mask)
    order: Ints | None = None
    columns: list[Any] = []
    given = frozenset(incoming.column_names) - {RECORD_KEY}
    for name in stored.column_names:
        if name not in given:
            columns.append(stored.column(name))
            continue
        old, new = stored.column(name).combine_chunks(), incoming.column(name).combine_chunks()
        if _is_taken(old):
            if order is None:
                order = np.arange(count, dtype=np.int64)
                order[rows] = count + np.arange(len(rows))
            columns.append(pa.concat_arrays([old, new]).take(order))
        else:
            columns.append(pc.replace_with_mask(old, arrow_mask, new))
    return pa.Table.from_arrays(columns, schema=stored.schema)
