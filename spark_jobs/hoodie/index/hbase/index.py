"""HBASE: candidates from a table in HBase, then an exact look into the files that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import array
from hoodie.config.key import Config
from hoodie.index import Index, Scope
from hoodie.index.hbase.client import Server
from hoodie.index.hbase.follow import COLUMNS, Following, as_bytes, behind, entry_of, shown_in_logs
from hoodie.index.locations import LOOK_UP, NOWHERE, KeySearch, Locations, Positions
from hoodie.index.settings import HBASE_MOVES, HBASE_ROLLBACK_SYNC
from hoodie.table.handle import Table, TableRef
from hoodie.table.participant import CommitParticipant
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline


@dataclass(frozen=True)
class HBaseIndex(Index):
    """An entry of HBase that is no longer true, as its commit failed or the record has gone since, is found
    out by the look into the file; one that is missing is not, see `follow`.
    """

    scope = Scope.TABLE
    sees_logs = True
    server: Server
    update_partition_path: bool
    rollback_sync: bool

    @classmethod
    def make(cls, config: Config) -> HBaseIndex:
        return cls(Server.of(config), config[HBASE_MOVES], config[HBASE_ROLLBACK_SYNC])

    @property
    def updates_partition_path(self) -> bool:
        return self.update_partition_path

    def behind(self, table: Table, timeline: Timeline) -> bool:
        with self.server.connect() as client:
            return behind(client, timeline, table.storage)

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        now, before = self._candidates(slices, keys)
        search = _Search(table, slices, keys)
        search.look(now)
        search.look(np.where(search.found, NOWHERE, before))
        return search.locations()

    def participant(self, table: Table) -> CommitParticipant:
        return Following(self.server, rollback_sync=self.rollback_sync)

    def _candidates(self, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> tuple[Positions, Positions]:
        """The slice of each key, and the one that has it should the former not; NOWHERE for none."""
        numbers = {(slice_.partition, slice_.file_id): number for number, slice_ in enumerate(slices)}
        names = as_bytes(keys)
        places = {name: number for number, name in enumerate(names)}
        found: Positions = np.full((2, len(names)), NOWHERE, dtype=np.int32)
        with self.server.connect() as client:
            for name, cells in client.rows(names, COLUMNS):
                for way, place in enumerate(entry_of(cells)):
                    if place is not None:
                        found[way, places[name]] = numbers.get(place.group, NOWHERE)
        return found[0], found[1]


class _Search:
    """The exact look for keys, each in one slice at a time."""

    def __init__(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> None:
        self.found = np.zeros(len(keys), dtype=np.bool_)
        self._table = Table(table)
        self._storage = self._table.storage
        self._slices = slices
        self._keys = keys
        self._pieces: list[tuple[int, Positions, Positions]] = []

    def look(self, candidates: Positions) -> None:
        """Look for each key in the slice of this number; NOWHERE: in none."""
        order = np.argsort(candidates, kind="stable").astype(np.int32)
        numbers, starts = np.unique(candidates[order], return_index=True)
        for number, mine in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            if number == NOWHERE or not len(mine):
                continue
            rows = self._rows(self._slices[number], self._keys.take(array(mine)))
            there = rows != NOWHERE
            self.found[mine[there]] = True
            self._pieces.append((number, mine[there], rows[there]))

    def locations(self) -> Locations:
        return Locations.of(self._pieces)

    def _rows(self, slice_: FileSlice, keys: pa.Array[Any]) -> Positions:
        """The row of each key in the slice's base file; LOOK_UP for one that only a log has."""
        rows: Positions = np.full(len(keys), NOWHERE, dtype=np.int32)
        if slice_.base is not None:
            search = KeySearch(keys)
            with open_base(self._storage, slice_.base, None) as reader:
                search.look(reader, 0)
            hits = search.locations()
            rows[hits.keys] = hits.rows
        lacking = np.flatnonzero(rows == NOWHERE)
        if slice_.logs and len(lacking):
            shown = shown_in_logs(self._storage, slice_, self._table.view, keys.take(array(lacking)))
            rows[lacking[shown]] = LOOK_UP
        return rows
