"""Apache Hudi finds the keys of our base files by their bloom filters, which are sized by the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.format.base_file import BaseFileReader
from hoodie.format.settings import BloomType
from hoodie.storage.local import LocalStorage
from tests.support.hudi_client import HudiServer
from tests.support.metadata import disagreements
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.datasource.write.precombine.field"
VERSION = "hoodie.write.table.version"
FILTER_TYPE = "hoodie.bloom.index.filter.type"
INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
FEW, MANY = range(3), range(100, 3_100)


def rows(few: range, many: range, ts: int) -> pa.Table:
    """Of two partitions. Keys that a file lacks are in the range of its keys, so that its filter decides."""
    numbers = [*few, *many]
    return pa.table(
        {
            "id": [f"k{number:05d}" for number in numbers],
            "part": ["few"] * len(few) + ["many"] * len(many),
            "ts": pa.array([ts] * len(numbers), pa.int64()),
        }
    )


@pytest.mark.parametrize("filter_type", list(BloomType), ids=lambda kind: kind.value)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_apache_hudi_upserts_by_filters_sized_by_their_files(
    tmp_path: Path, version: int, filter_type: BloomType, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    path = tmp_path / "t"
    options: dict[str, Any] = {
        KEY: "id",
        PARTITION: "part",
        ORDERING: "ts",
        VERSION: version,
        FILTER_TYPE: filter_type.value,
        **INDEXED,
    }
    hoodie.write_table(rows(FEW, MANY, 1), str(path), operation="bulk_insert", options=options)
    assert sorted(_entries(path)) == [100, 3_375]
    theirs = {
        **{name: str(value) for name, value in options.items()},
        "hoodie.table.name": "t",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.index.type": "BLOOM",
    }
    expected = dict.fromkeys((*FEW, *MANY), 1)
    servers = [hudi_015, hudi_12] if version == 6 else [hudi_12]
    for turn, server in enumerate(servers, start=1):
        ts = 2 * turn
        few, many = range(ts), range(101, 3_100 + 2 * ts, 2)
        server.write(path, rows(few, many, ts), theirs)
        expected |= dict.fromkeys((*few, *many), ts)
        _check(path, expected, server)
        # ours on top: files that Apache Hudi wrote have filters of its size
        few, many = range(1, ts + 1), range(100, 3_100 + 2 * ts, 3)
        hoodie.write_table(rows(few, many, ts + 1), str(path), options={"hoodie.index.type": "BLOOM"})
        expected |= dict.fromkeys((*few, *many), ts + 1)
        _check(path, expected, server)
    if version == 6:
        assert hudi_015.index_differences(path, base_files(path), []) == []
    assert_same_rows(read_hudi_rs(path), hoodie.read_table(str(path)), what="hudi-rs")
    assert [item for item in disagreements(path) if item.startswith("bloom_filters")] == []


def _check(path: Path, expected: dict[int, int], server: HudiServer) -> None:
    found = server.read(path).select(["id", "ts"]).sort_by("id").to_pylist()
    assert found == [{"id": f"k{number:05d}", "ts": ts} for number, ts in sorted(expected.items())]
    assert hoodie.read_table(str(path)).select(["id", "ts"]).sort_by("id").to_pylist() == found


def base_files(path: Path) -> list[tuple[str, str]]:
    return [(file.parent.name, file.name) for file in path.glob("*/*.parquet")]


def _entries(path: Path) -> list[int]:
    """Keys that the filters of the base files are for."""
    found = []
    for partition, name in base_files(path):
        with BaseFileReader(LocalStorage(), f"{path}/{partition}/{name}") as reader:
            bloom = reader.bloom()
        assert bloom is not None
        found.append(bloom.size.entries(1e-9))
    return found
