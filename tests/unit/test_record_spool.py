"""Records on their way into file groups of a metadata table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hoodie.format.hfile_records import decode_rows
from hoodie.metadata.keys import file_groups
from hoodie.metadata.partitions import Records
from hoodie.metadata.record_schema import record_schema
from hoodie.metadata.record_spool import RecordSpool
from tests.support.metadata_records import locations


def found(cells: Any) -> dict[str, str]:
    rows = decode_rows([cells], record_schema(), ["key", "recordIndexMetadata"])
    return {row["key"]: row["recordIndexMetadata"]["fileId"] for row in rows.to_pylist()}


@pytest.mark.parametrize("in_memory", [0, 1 << 30], ids=["on disk", "in memory"])
def test_each_file_group_gets_its_records_by_key(in_memory: int) -> None:
    keys = [f"k{number:03d}" for number in range(100)]
    with RecordSpool(3, in_memory=in_memory) as spool:
        for start in range(0, 100, 7):
            spool.add(locations(dict.fromkeys(reversed(keys[start : start + 10]), f"f{start}")))
        spool.close()
        assert spool.filled == [0, 1, 2]
        everything: dict[str, str] = {}
        for number in spool.filled:
            batches = list(spool.cells(number, 600))
            assert len(batches) > 1
            names = [key for cells in batches for key in found(cells)]
            assert names == sorted(set(names))
            assert set(file_groups(pa.array(names), 3).tolist()) == {number}
            for cells in batches:
                everything |= found(cells)
    assert everything == {key: f"f{min(number // 7 * 7, 98)}" for number, key in enumerate(keys)}


def test_deletes_keep_their_turn() -> None:
    nothing = locations({})
    with RecordSpool(1, in_memory=0) as spool:
        spool.add(Records(nothing.rows, pa.array(["a"])))
        spool.add(locations({"b": "1", "a": "1"}, ["c"]))
        spool.add(locations({"c": "2"}))
        spool.add(locations({"b": "2"}))
        spool.close()
        turns = [
            found(turn) if isinstance(turn, pa.RecordBatch) else turn.to_pylist()
            for turn in spool.blocks(0, 1 << 20)
        ]
        assert (spool.count(0), spool.deleted(0)) == (4, 2)
    assert turns == [["a"], {"a": "1", "b": "1"}, ["c"], {"b": "2", "c": "2"}]


def test_none_at_all() -> None:
    with RecordSpool(4) as spool:
        spool.add(locations({}))
        spool.close()
        assert spool.filled == []
        assert list(spool.cells(0, 1)) == []
