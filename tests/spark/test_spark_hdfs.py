"""Tables on HDFS on Spark: the settings reach executors, and Spark reads base files itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import StorageError
from tests.spark.answers import Servers
from tests.support.hdfs.server import Hdfs

pytestmark = [pytest.mark.spark, pytest.mark.full]

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": "200",
}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table(tmp_path: Path, servers: Servers, hdfs: Hdfs, kind: str) -> None:
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
    with hdfs.new_folder() as folder:
        path = f"{folder}/{kind}"
    storage = {"hoodie.storage.hdfs.http.address": f"127.0.0.1:{hdfs.http}"}
    found = servers.ask("on_hdfs", "classic", path, files, options, storage)
    assert found["updates"] == [0, 100, 20]
    assert [found[reader] for reader in ("spark", "arrow", "auto")] == [expected] * 3
    assert found["sql"] == 100
    if kind == "MERGE_ON_READ":
        assert found["compaction"] == "compacted"
    here = hoodie.read_table(path, columns=["id", "ts"], options=storage)
    assert sorted(map(list, zip(here["id"].to_pylist(), here["ts"].to_pylist(), strict=True))) == expected
    with pytest.raises(StorageError, match="does not answer"):  # the settings alone lead there
        hoodie.read_table(path, options={"hoodie.storage.retry.timeout.ms": "0"})
