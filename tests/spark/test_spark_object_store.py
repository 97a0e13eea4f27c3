"""Tables on an object store on Spark: the settings reach executors; no file system of Hadoop is needed, and
where there is none, errors name it (where there is one: tests/interop/test_object_store.py).
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.storage import storage_for
from tests.spark.answers import Servers
from tests.support.s3_store import KEY, SECRET, environment, served

pytestmark = [pytest.mark.spark, pytest.mark.full]

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": "200",
}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table(tmp_path: Path, servers: Servers, kind: str) -> None:
    files = []
    for version, count in ((1, 300), (2, 100), (3, 20)):
        rows = pa.table(
            {
                "id": [f"{number:03}" for number in range(count)],
                "region": [("eu", "us")[number % 2] for number in range(count)],
                "ts": pa.array([version] * count, pa.int64()),
            }
        )
        files.append(str(tmp_path / f"{version}.parquet"))
        pq.write_table(rows, files[-1])
    expected = [[f"{number:03}", 3 if number < 20 else 2 if number < 100 else 1] for number in range(300)]
    options = {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    with served() as store:
        for name in environment(""):
            os.environ.pop(name)  # the test puts it back
        storage = {
            "hoodie.storage.s3.endpoint": store.endpoint,
            "hoodie.storage.s3.access.key": KEY,
            "hoodie.storage.s3.secret.key": SECRET,
        }
        for name in ("1.parquet", "rows.csv"):
            target = storage_for(f"s3://lake/in/{name}", storage)
            data = (tmp_path / name).read_bytes() if name.endswith("parquet") else b"id\n1\n"
            target.write(f"s3://lake/in/{name}", data)
        found = servers.ask("object_store", "classic", f"s3a://lake/{kind}", files, options, storage)
        assert [result["num_updates"] for result in found["results"]] == [0, 100, 20]
        assert found["before"] == found["after"] == [expected, 100]
        for refused in ("sql", "own", "csv"):
            assert "no file system for s3a://" in found[refused]
            assert "org.apache.hadoop:hadoop-aws" in found[refused]
        assert found["source"] == 300
        if kind == "MERGE_ON_READ":
            assert found["compaction"] == "compacted"
        here = hoodie.read_table(f"s3://lake/{kind}", columns=["id", "ts"], options=storage)
        assert sorted(map(list, zip(here["id"].to_pylist(), here["ts"].to_pylist(), strict=True))) == expected
        kept = b"".join(item.data for item in store.objects.values())
    assert SECRET.encode() not in kept
    assert KEY.encode() not in kept
