"""The message of a commit beside what Apache Hudi 0.15.0 writes for the same values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.callbacks.message import message_of
from hoodie.hooks import CommitEvent, WriteEvent
from hoodie.table.handle import Table
from hoodie.timeline.commit import CommitMetadata, RuntimeStats, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.time import InstantTime

#: of HoodieWriteCommitCallbackUtil.convertToJsonString
HUDI = (
    '{"commitTime":"20240101000000000","tableName":"t","basePath":"/b","hoodieWriteStat":[{"fileId":"f1",'
    '"path":"p=1/f1_0-1-2_20240101000000000.parquet","cdcStats":null,"prevCommit":"null","numWrites":3,'
    '"numDeletes":0,"numUpdateWrites":0,"numInserts":3,"totalWriteBytes":10,"totalWriteErrors":0,'
    '"tempPath":null,"partitionPath":"p=1","totalLogRecords":0,"totalLogFilesCompacted":0,'
    '"totalLogSizeCompacted":0,"totalUpdatedRecordsCompacted":0,"totalLogBlocks":0,"totalCorruptLogBlock":0,'
    '"totalRollbackBlocks":0,"fileSizeInBytes":10,"minEventTime":null,"maxEventTime":null,'
    '"runtimeStats":{"totalScanTime":0,"totalUpsertTime":0,"totalCreateTime":5}},{"fileId":"f2",'
    '"path":"p=1/.f2_1.log.1_0-1-2","cdcStats":null,"prevCommit":null,"numWrites":0,"numDeletes":0,'
    '"numUpdateWrites":0,"numInserts":0,"totalWriteBytes":0,"totalWriteErrors":0,"tempPath":null,'
    '"partitionPath":"p=1","totalLogRecords":0,"totalLogFilesCompacted":0,"totalLogSizeCompacted":0,'
    '"totalUpdatedRecordsCompacted":0,"totalLogBlocks":0,"totalCorruptLogBlock":0,"totalRollbackBlocks":0,'
    '"fileSizeInBytes":0,"minEventTime":null,"maxEventTime":null,"runtimeStats":null,"logVersion":1,'
    '"logOffset":0,"baseFile":"b.parquet","logFiles":["x.log"],"columnStats":{"empty":true,"present":false}}],'
    '"commitActionType":{"empty":false,"present":true},"extraMetadata":{"empty":false,"present":true}}'
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path: Path = tmp_path_factory.mktemp("message") / "t"
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"}
    hoodie.write_table(pa.table({"id": ["a"]}), str(path), options=options)
    return Table.open(str(path))


def test_a_write(table: Table) -> None:
    stats = (
        WriteStat(
            file_id="f1",
            path="p=1/f1_0-1-2_20240101000000000.parquet",
            partition_path="p=1",
            num_writes=3,
            num_inserts=3,
            total_write_bytes=10,
            file_size_in_bytes=10,
            runtime_stats=RuntimeStats(total_create_time=5),
        ),
        WriteStat(
            file_id="f2",
            path="p=1/.f2_1.log.1_0-1-2",
            partition_path="p=1",
            prev_commit=None,
            log_version=1,
            log_offset=0,
            base_file="b.parquet",
            log_files=("x.log",),
        ),
    )
    extra = {"schema": '{"type":"record"}'}
    event = WriteEvent(
        table=table,
        instant=Instant(InstantTime("20240101000000000"), Action.COMMIT, State.COMPLETED),
        operation="UPSERT",
        metadata=CommitMetadata(partition_to_write_stats={"p=1": stats}, extra_metadata=extra),
        seconds=1.0,
    )
    message = message_of(event)
    value: dict[str, Any] = json.loads(message)
    assert value["commitActionType"].pop("value") == "commit"
    assert value["extraMetadata"].pop("value") == extra
    value["basePath"] = "/b"
    assert json.dumps(value, separators=(",", ":")) == HUDI
    assert "\n" not in message


def test_an_instant_without_files(table: Table) -> None:
    instant = Instant(InstantTime("20240101000000000"), Action.SAVEPOINT, State.COMPLETED)
    event = CommitEvent(
        table=table,
        instant=instant,
        operation="savepoint",
        metadata=SavepointMetadata(user="me", at_ms=0, comments="", files={}),
        seconds=1.0,
    )
    value = json.loads(message_of(event))
    assert (value["hoodieWriteStat"], value["commitActionType"]["value"]) == ([], "savepoint")
    assert value["extraMetadata"] == {"empty": True, "present": False}
