"""Rows in the order of their keys. What passes the memory budget is sorted in runs on disk, which are merged
range by range: no row is compared in Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import rows_of
from hoodie.read.spill import SpillFolder
from hoodie.services.clustering.order import PLACE, Order, SortKeys

#: sorting needs the rows and a copy of them
_COPIES = 2
#: rows of a batch in a run; a range of the merge may begin anywhere in it
_RUN_BATCH_ROWS = 65536
#: rows of each run whose keys decide where the merge is cut
_SAMPLES = 2000


class SortedRows:
    """Add rows, then `stream` them sorted, once. A context manager, for the runs on disk.

    `sample` returns rows with the distribution of the values of a curve's columns; it is called only when not
    all rows fit and no `keys` are given.
    """

    def __init__(
        self,
        order: Order,
        budget: int,
        spill_path: str,
        sample: Callable[[], pa.Table],
        keys: SortKeys | None = None,
    ) -> None:
        self.rows = 0
        self._order = order
        self._keys = keys
        self._room = max(1, budget // _COPIES)
        self._spill_path = spill_path
        self._sample = sample
        self._held: list[pa.Table] = []
        self._bytes = 0
        self._folder: SpillFolder | None = None
        self._runs: list[pa.Table] = []
        self._run_bytes = 0

    def __enter__(self) -> SortedRows:
        return self

    def __exit__(self, *exc: object) -> None:
        self._runs = []
        if self._folder is not None:
            self._folder.close()

    @property
    def spilled(self) -> bool:
        return self._folder is not None

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        self._held.append(rows)
        self._bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._bytes > self._room:
            self._spill()

    def stream(self, piece_bytes: int) -> Iterator[pa.Table]:
        """The rows in order, in tables of about this size."""
        if self._folder is None:
            held = self._take_held()
            if held is not None:
                keys = self._keys or SortKeys.of(self._order, held)
                yield from _sorted(keys, keys.with_keys(held), piece_bytes)
            return
        self._spill()
        keys = self._spill_keys()
        for part in self._ranges(keys):
            yield from _sorted(keys, part, piece_bytes)

    def _take_held(self) -> pa.Table | None:
        held = self._held
        self._held, self._bytes = [], 0
        return pa.concat_tables(held).combine_chunks() if held else None

    def _spill_keys(self) -> SortKeys:
        if self._keys is None:
            self._keys = SortKeys.of(self._order, self._sample() if self._order.curved else pa.table({}))
        return self._keys

    def _spill(self) -> None:
        """Write the rows in memory as a sorted run."""
        held = self._take_held()
        if held is None:
            return
        if self._folder is None:
            self._folder = SpillFolder(self._spill_path)
        keys = self._spill_keys()
        rows = keys.with_keys(held)
        path = os.path.join(self._folder.path, f"run-{len(self._runs)}.arrow")
        order = keys.indices(rows)
        with pa.ipc.new_file(path, rows.schema) as writer:
            for start in range(0, rows.num_rows, _RUN_BATCH_ROWS):
                writer.write_table(rows.take(order[start : start + _RUN_BATCH_ROWS]))
        self._run_bytes += rows.nbytes
        source: Any = pa.memory_map(path)
        self._runs.append(pa.ipc.open_file(source).read_all())

    def _ranges(self, keys: SortKeys) -> Iterator[pa.Table]:
        """Rows of all runs between two bounds, so few that they fit."""
        count = max(1, -(-self._run_bytes // self._room))
        step = max(1, self.rows // (_SAMPLES * len(self._runs)))
        names = list(keys.names)
        sample = pa.concat_tables(
            [run.select(names).take(np.arange(0, run.num_rows, step)) for run in self._runs]
        )
        cuts = _cuts(keys.quantiles(sample, [number / count for number in range(1, count)]))
        places = [0] * len(self._runs)
        for bound, behind in [*cuts, (None, False)]:
            parts = []
            for number, run in enumerate(self._runs):
                end = run.num_rows
                if bound is not None:
                    end = _first_not_before(keys, run, bound, places[number], behind)
                parts.append(run.slice(places[number], end - places[number]))
                places[number] = end
            # rows with one key may be many, but need no sorting
            yield from parts if behind else [pa.concat_tables(parts).combine_chunks()]


def _cuts(bounds: list[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], bool]]:
    """Where to cut: before each bound, and behind those that are there twice, since many rows have that
    key.
    """
    cuts: list[tuple[tuple[Any, ...], bool]] = []
    for bound in bounds:
        if not cuts or not _equal(cuts[-1][0], bound):
            cuts.append((bound, False))
        elif not cuts[-1][1]:
            cuts.append((bound, True))
    return cuts


def _equal(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return all(a.equals(b) for a, b in zip(left, right, strict=True))


def _sorted(keys: SortKeys, rows: pa.Table, piece_bytes: int) -> Iterator[pa.Table]:
    """The rows in order and without the keys that are not stored."""
    order = keys.indices(rows)
    if PLACE in keys.names:
        rows = rows.drop_columns([PLACE])
    step = rows_of(rows, piece_bytes)
    for start in range(0, rows.num_rows, step):
        yield rows.take(order[start : start + step])


def _first_not_before(keys: SortKeys, run: pa.Table, bound: tuple[Any, ...], start: int, behind: bool) -> int:
    """The first row of a sorted run, from `start` on, that is at or behind `bound`, or only those behind
    it.
    """
    low, high = start, run.num_rows
    while low < high:
        middle = (low + high) // 2
        if keys.at_least(run.slice(middle, 1), bound, behind)[0].as_py():
            high = middle
        else:
            low = middle + 1
    return low
