"""Tables on HDFS in turns with Apache Hudi 0.15.0, and its lock file there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.lock import lock_for
from hoodie.storage import storage_for
from hoodie.table.handle import Table, TableRef
from tests.support.hdfs.server import Hdfs
from tests.support.hudi_client import HudiServer
from tests.support.oracle import Model
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": "200",
}
#: Apache Hudi appends to log files in HDFS, for which a client wants three data nodes
ONE_DATA_NODE = {
    "dfs.replication": "1",
    "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
}


@pytest.fixture
def folder(hdfs: Hdfs, hudi_015: HudiServer) -> Iterator[str]:
    with hdfs.new_folder() as folder, hudi_015.hadoop(ONE_DATA_NODE):
        yield folder


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_in_turns(folder: str, hudi_015: HudiServer, kind: str) -> None:
    path, model = f"{folder}/t", Model(["id"], ["region"], "ts")
    options = {**OPTIONS, "hoodie.table.name": "t", "hoodie.datasource.write.table.type": kind}

    def check() -> None:
        expected = model.table(SMALL_SCHEMA)
        assert_same_rows(hoodie.read_table(path), expected, what="ours")
        assert_same_rows(hudi_015.read(path), expected, what="Apache Hudi")

    for version, (ids, ours) in enumerate(
        ((range(60), True), (range(30, 90), False), (range(50, 100), True), (range(10), False)), 1
    ):
        rows = small_rows(ids, version)
        model.upsert(rows)
        if ours:
            hoodie.write_table(as_table(rows, SMALL_SCHEMA), path, operation="upsert", options=options)
        else:
            # its HBase is of Hadoop 2 and can't read HFiles, so metadata tables, from an HDFS of Hadoop 3
            alone = {**options, "hoodie.metadata.enable": "false"}
            hudi_015.write(path, as_table(rows, SMALL_SCHEMA), alone)
        check()
    if kind == "MERGE_ON_READ":
        eager = {"hoodie.compact.inline.max.delta.commits": "1"}
        assert hoodie.compact_table(path, options=eager).status == "compacted"
        check()
    assert not hoodie.run_services(path).failed
    check()


def test_a_table_of_apache_hudi(folder: str, hudi_015: HudiServer) -> None:
    path, model = f"{folder}/t", Model(["id"], ["region"], "ts")
    options = {**OPTIONS, "hoodie.table.name": "t", "hoodie.metadata.enable": "true"}
    rows = small_rows(range(60), 1)
    model.upsert(rows)
    hudi_015.write(path, as_table(rows, SMALL_SCHEMA), options, mode="overwrite")
    rows = small_rows(range(20, 80), 2)
    model.upsert(rows)
    hoodie.write_table(as_table(rows, SMALL_SCHEMA), path, operation="upsert", options=OPTIONS)
    expected = model.table(SMALL_SCHEMA)
    assert_same_rows(hoodie.read_table(path), expected, what="ours")
    assert_same_rows(hudi_015.read(path), expected, what="Apache Hudi")


def test_its_lock_file_excludes_ours_and_back(folder: str, hudi_015: HudiServer) -> None:
    path = f"{folder}/t"
    rows = as_table(small_rows(range(4), 1), SMALL_SCHEMA)
    hoodie.write_table(rows, path, options={**OPTIONS, "hoodie.table.name": "t"})
    config = Config.of({"hoodie.write.lock.provider": "filesystem"})
    ours = lock_for(Table(TableRef.of(path, config)), config)
    assert ours is not None
    lease = ours.acquire(0)
    taken, _ = hudi_015.try_lock(path)
    assert not taken
    assert lease.held
    lease.release()
    assert hudi_015.try_lock(path)[0]
    assert ours.try_acquire() is None
    hudi_015.unlock(path)
    hudi_015.close_lock(path)
    ours.acquire(5).release()
    assert not storage_for(path).exists(f"{path}/.hoodie/lock")
