"""Tables on an object store in turns with Apache Hudi 0.15.0, which reads and writes it by Hadoop's S3A."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.conftest import require
from tests.support import s3a
from tests.support.hudi_client import HudiServer, missing
from tests.support.moto_server import bucket_on, moto
from tests.support.oracle import Model
from tests.support.rows import assert_same_rows
from tests.support.s3_store import KEY, SECRET
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
TYPE = "hoodie.datasource.write.table.type"
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")


@pytest.fixture(scope="module")
def hudi() -> Iterator[HudiServer]:
    lacking = missing("0.15.0") or s3a.missing()
    require(lacking is None, str(lacking))
    with HudiServer("0.15.0", s3a.jars(), ["obstore"]) as server:
        yield server


@pytest.fixture(scope="module")
def bucket(hudi: HudiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        moto(tmp_path_factory.mktemp("moto")) as endpoint,
        bucket_on(endpoint) as uri,
        hudi.hadoop(s3a.settings(endpoint)),
    ):
        yield uri


def as_hudi_spells_it(path: str) -> str:
    return path.replace("s3://", "s3a://")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ["ours", "hudi"])
def test_in_turns(bucket: str, hudi: HudiServer, kind: str, first: str) -> None:
    path, options = f"{bucket}/{first}-{kind.lower()}", {**OPTIONS, TYPE: kind}
    model = Model(("id",), ("region",), "ts")
    writers = ["ours", "hudi"] if first == "ours" else ["hudi", "ours"]
    for version, writer in enumerate([*writers, *writers], 1):
        ids = range(60) if version == 1 else range(10 * version, 10 * version + 30)
        rows = small_rows(ids, version)
        if writer == "ours":
            hoodie.write_table(as_table(rows, SMALL_SCHEMA), path, options=options)
        else:
            mode = "overwrite" if version == 1 else "append"
            hudi.write(as_hudi_spells_it(path), as_table(rows, SMALL_SCHEMA), options, mode=mode)
        model.upsert(rows)
        expected = model.table(SMALL_SCHEMA)
        assert_same_rows(hoodie.read_table(path), expected, what=f"ours after {version}")
        assert_same_rows(hudi.read(as_hudi_spells_it(path)), expected, what=f"Hudi after {version}")
    if kind == "MERGE_ON_READ":
        rows = small_rows(range(10), 9)  # updates alone make logs
        hoodie.write_table(as_table(rows, SMALL_SCHEMA), path, options=options)
        model.upsert(rows)
        eager = {"hoodie.compact.inline.max.delta.commits": "1"}
        done = hoodie.compact_table(path, options=eager)
        assert done.status == "compacted", done
        found = hudi.read(as_hudi_spells_it(path))
        assert_same_rows(found, model.table(SMALL_SCHEMA), what="Hudi, compacted")
    assert set(hudi.timeline(as_hudi_spells_it(path)).values()) <= {"UPSERT", "COMPACT"}


@pytest.mark.parametrize("kind", KINDS)
def test_spark_reads_base_files_itself(bucket: str, hudi: HudiServer, kind: str) -> None:
    """By the session's S3A; and so do SQL texts, and sources of every format."""
    path, options = f"{bucket}/spark-{kind.lower()}", {**OPTIONS, TYPE: kind}
    rows = pa.table(
        {"id": [f"{n:02}" for n in range(40)], "region": ["eu", "us"] * 20, "ts": pa.array([1] * 40)}
    )
    hoodie.write_table(rows, path, operation="bulk_insert", options=options)
    hoodie.write_table(rows.slice(0, 1).set_column(2, "ts", pa.array([9])), path, options=options)
    storage = {
        "hoodie.storage.s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "hoodie.storage.s3.access.key": KEY,
        "hoodie.storage.s3.secret.key": SECRET,
    }
    found = hudi.program("own_reader", path, f"{bucket}/in-{kind.lower()}", storage)
    expected = [[f"{n:02}", 9 if n == 0 else 1] for n in range(40)]
    for reader in ("spark", "arrow", "auto", "s3a", "sql"):
        assert found[reader] == expected, reader
    assert ("FileScan parquet" in found["plans"]["spark"]) is True
    assert "FileScan parquet" not in found["plans"]["arrow"]
    assert found["plans"]["auto"].count("FileScan parquet") == found["plans"]["spark"].count(
        "FileScan parquet"
    )
    assert found["sources"] == dict.fromkeys(("csv", "json", "parquet", "folders"), 3)
    assert "credentials and endpoint" in found["refused"]
    assert "no file system for gs://" in found["lacking"]


def test_a_table_that_a_path_of_either_scheme_names(bucket: str, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "region": ["eu"], "ts": [1]})
    pq.write_table(rows, tmp_path / "a.parquet")
    hoodie.write_table(rows, f"{as_hudi_spells_it(bucket)}/same", options=OPTIONS)
    assert hoodie.read_table(f"{bucket}/same", meta=False) == rows
