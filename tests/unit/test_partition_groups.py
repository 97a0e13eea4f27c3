"""The file groups of a record index of each partition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hoodie.errors import TableError
from hoodie.format.names import LogFileName
from hoodie.metadata.keys import file_groups
from hoodie.metadata.partition_groups import NOWHERE, PartitionGroups, is_named, partition_of
from hoodie.metadata.partitions.record_index import Place, of_deleted, of_places
from hoodie.metadata.record_spool import RecordSpool

#: paths, and how Apache Hudi 1.2.0 has them in file ids; it fails at dots
PATHS = {
    "": "",
    "eu": "eu",
    "2024-01-01": "2024%2D01%2D01",
    "a_b": "a%5Fb",
    "part=x y": "part%3Dx y",
    "c.d/e": "c%2Ed%2Fe",
    "100%": "100%25",
    "é日": "é日",
}


def texts(*values: str) -> Any:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(("path", "name"), PATHS.items())
def test_a_file_id_has_the_path(path: str, name: str) -> None:
    groups = PartitionGroups()
    groups.add(path, 2)
    assert groups.ids == [f"record-index-{name}-0000-0", f"record-index-{name}-0001-0"]
    assert [partition_of(file_id) for file_id in groups.ids] == [path, path]
    log = LogFileName.parse(f".{groups.ids[0]}_20240101000000000.log.1_0-0-0")
    assert log is not None
    assert log.file_id == groups.ids[0]


def test_the_hash_counts_among_those_of_the_partition() -> None:
    groups = PartitionGroups(["record-index-eu-0000-0", "record-index-us-0000-0", "record-index-us-0001-0"])
    keys = texts(*(f"k{number}" for number in range(40)))
    eu, us, none = (pa.array([path] * 40) for path in ("eu", "us", "asia"))
    assert set(groups.numbers(keys, eu).tolist()) == {0}
    assert groups.numbers(keys, us).tolist() == [1 + number for number in file_groups(keys, 2).tolist()]
    assert set(groups.numbers(keys, none).tolist()) == {NOWHERE}


def test_a_partition_gets_file_groups_once() -> None:
    groups = PartitionGroups(["record-index-eu-0000-0"])
    groups.add("eu", 5)
    groups.add("us", 1)
    groups.add("us", 5)
    assert groups.ids == ["record-index-eu-0000-0", "record-index-us-0000-0"]


@pytest.mark.parametrize("file_id", ["record-index-0000-0", "files-0000-0", "record-index-a-b-0000-0"])
def test_other_file_groups_are_refused(file_id: str) -> None:
    with pytest.raises(TableError, match=r"is not known here|file groups of all partitions"):
        PartitionGroups([file_id])


def test_a_path_that_names_can_not_have() -> None:
    assert is_named("x" * 180)
    assert not is_named("x" * 181)
    assert not is_named("-" * 61)


def keys(spool: RecordSpool, number: int) -> list[str]:
    found: list[Any] = [key for cells in spool.cells(number, 1 << 20) for key in cells.column(0).to_pylist()]
    return [key.decode() for key in found]


def test_a_key_in_several_partitions() -> None:
    """The last place of each counts, and a delete takes that of its partition."""
    with RecordSpool(PartitionGroups()) as spool:
        first = of_places([(texts("a", "b"), Place("eu", "x", 1)), (texts("a"), Place("us", "y", 1))], True)
        spool.add(of_deleted(texts("gone"), texts("nowhere")))
        spool.add(type(first)(first.rows, rows_in=first.rows_in, new={"eu": 1, "us": 1}))
        spool.add(of_places([(texts("b"), Place("eu", "z", 2))], True))
        spool.add(of_deleted(texts("a", "a"), texts("us", "nowhere")))
        spool.close()
        found = {file_id: keys(spool, number) for number, file_id in enumerate(spool.ids)}
    assert found == {"record-index-eu-0000-0": ["a", "b"], "record-index-us-0000-0": []}


def test_records_of_the_other_kind() -> None:
    place = Place("eu", "x", 1)
    with (
        RecordSpool(PartitionGroups()) as spool,
        pytest.raises(TableError, match="one of each partition, which its definition"),
    ):
        spool.add(of_places([(texts("a"), place)]))
    with (
        RecordSpool(PartitionGroups()) as spool,
        pytest.raises(TableError, match="no file groups of a partition"),
    ):
        spool.add(of_places([(texts("a"), place)], True))
    records = of_places([(texts("a"), place)], True)
    with RecordSpool(2) as spool, pytest.raises(TableError, match="one of all partitions"):
        spool.add(type(records)(records.rows, rows_in=records.rows_in, new={"eu": 1}))
