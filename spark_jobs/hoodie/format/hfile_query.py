"""What is looked up in sorted cells: keys, or ranges of keys; and which blocks can hold it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from hoodie.codec.arrays import pc

#: from the first key to before the second; None: to the end
Range: TypeAlias = tuple[bytes, bytes | None]


class Query(ABC):
    """Keys that are wanted. Cells come sorted, and are given sorted."""

    @abstractmethod
    def hits(self, firsts: Sequence[bytes], limit: bytes | None) -> Iterator[tuple[int, Query]]:
        """(number of a block, what is wanted of it), in order. Block i holds keys from `firsts[i]` to before
        that of the next one; the last one to before `limit`.
        """

    @abstractmethod
    def pick(self, cells: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The wanted ones of some cells; no empty batches."""


class Keys(Query):
    def __init__(self, keys: Iterable[bytes]) -> None:
        """An iterable, or an array of binary, in any order."""
        given: Any = keys if isinstance(keys, pa.Array) else pa.array(list(keys), pa.binary())
        distinct = pc.unique(given)
        self._keys: Any = distinct.take(pc.sort_indices(distinct))

    @classmethod
    def _of(cls, keys: Any) -> Keys:
        made = cls.__new__(cls)
        made._keys = keys
        return made

    def hits(self, firsts: Sequence[bytes], limit: bytes | None) -> Iterator[tuple[int, Query]]:
        keys = self._keys
        at = _count_before(keys, firsts[0]) if firsts else len(keys)
        while at < len(keys):
            block = bisect_right(firsts, keys[at].as_py()) - 1
            end = end_of(firsts, block, limit)
            stop = len(keys) if end is None else _count_before(keys, end)
            if stop == at:
                return
            yield block, Keys._of(keys[at:stop])
            at = stop

    def pick(self, cells: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        found = cells.filter(pc.is_in(cells.column(0), value_set=self._keys))
        if found.num_rows:
            yield found


class Ranges(Query):
    def __init__(self, ranges: Iterable[Range]) -> None:
        """In any order; where they overlap, cells are given once."""
        self._ranges: list[Range] = []
        for start, stop in sorted(ranges, key=lambda item: item[0]):
            if stop is not None and stop <= start:
                continue
            if self._ranges and _reaches(self._ranges[-1][1], start):
                start, before = self._ranges.pop()
                stop = None if before is None or stop is None else max(before, stop)
            self._ranges.append((start, stop))

    @classmethod
    def of_prefixes(cls, prefixes: Iterable[bytes]) -> Ranges:
        return cls((prefix, _behind(prefix)) for prefix in prefixes)

    def hits(self, firsts: Sequence[bytes], limit: bytes | None) -> Iterator[tuple[int, Query]]:
        last, ranges = -1, list[Range]()
        for start, stop in self._ranges:
            first = max(0, bisect_right(firsts, start) - 1)
            behind = len(firsts) if stop is None else bisect_left(firsts, stop)
            for block in range(first, behind):
                end = end_of(firsts, block, limit)
                if end is not None and start >= end:
                    continue
                if block != last and ranges:
                    yield last, Ranges(ranges)
                    ranges = []
                last = block
                ranges.append((start, stop))
        if ranges:
            yield last, Ranges(ranges)

    def pick(self, cells: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        keys = cells.column(0)
        for start, stop in self._ranges:
            first = _count_before(keys, start)
            behind = cells.num_rows if stop is None else _count_before(keys, stop)
            if behind > first:
                yield cells.slice(first, behind - first)


def end_of(firsts: Sequence[bytes], block: int, limit: bytes | None) -> bytes | None:
    """The first key behind a block; see `Query.hits`."""
    return firsts[block + 1] if block + 1 < len(firsts) else limit


def _reaches(stop: bytes | None, start: bytes) -> bool:
    return stop is None or stop >= start


def _behind(prefix: bytes) -> bytes | None:
    """The least of the keys that are greater than all that begin so; None where there is none."""
    short = prefix.rstrip(b"\xff")
    return short[:-1] + bytes([short[-1] + 1]) if short else None


def _count_before(keys: Any, key: bytes) -> int:
    return bisect_left(range(len(keys)), key, key=lambda place: keys[place].as_py())
