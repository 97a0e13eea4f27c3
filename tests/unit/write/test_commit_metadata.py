"""What a write leaves on the timeline and says in its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.format.java_properties import parse_properties
from hoodie.timeline.active import Timeline
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import (
    KEYGEN,
    MAX_FILE,
    OPTIONS,
    PLAIN,
    RECORD_SIZE,
    SMALL_FILE,
    data_files,
    plain,
)

pytestmark = pytest.mark.table_version(6)


def _commit(table: Path, instant: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((table / ".hoodie" / f"{instant}.commit").read_text())
    return content


def _write(table: Path, rows: list[dict[str, Any]], **more: Any) -> Any:
    return hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(table), options=OPTIONS, **more)


def test_a_first_commit(tmp_path: Path) -> None:
    table = tmp_path / "t"
    result = _write(table, small_rows(range(9), 1))
    commit = _commit(table, result.instant)
    assert commit["operationType"] == "UPSERT"
    assert not commit["compacted"]
    assert sorted(commit["partitionToWriteStats"]) == ["apac", "eu", "us"]
    for partition, stats in commit["partitionToWriteStats"].items():
        (stat,) = stats
        assert stat["partitionPath"] == partition
        assert stat["prevCommit"] == "null"
        assert (stat["numWrites"], stat["numInserts"], stat["numUpdateWrites"], stat["numDeletes"]) == (
            3,
            3,
            0,
            0,
        )
        assert stat["totalWriteErrors"] == 0
        file = table / stat["path"]
        assert file.stat().st_size == stat["fileSizeInBytes"] == stat["totalWriteBytes"]
        assert file.name.startswith(stat["fileId"] + "_")
        assert file.name.endswith(f"_{result.instant}.parquet")


def test_a_second_commit(tmp_path: Path) -> None:
    table = tmp_path / "t"
    first = _write(table, small_rows(range(30), 1))
    rows = small_rows(range(6), 2) + small_rows(range(6, 12), 2, deleted=True) + small_rows(range(30, 33), 2)
    second = _write(table, rows)
    for stats in _commit(table, second.instant)["partitionToWriteStats"].values():
        (stat,) = stats
        assert stat["prevCommit"] == first.instant
        assert (stat["numWrites"], stat["numInserts"], stat["numUpdateWrites"], stat["numDeletes"]) == (
            9,
            1,
            2,
            2,
        )


def test_the_result_adds_up(tmp_path: Path) -> None:
    table = tmp_path / "t"
    _write(table, small_rows(range(30), 1))
    result = _write(table, small_rows(range(0, 40, 3), 2), extra_metadata={"run": "r1"})
    answer = result.to_dict()
    assert answer.pop("completion") == Timeline.load(str(table)).commits()[-1].incremental_time
    sizes = [file.stat().st_size for file in data_files(table, "eu")]
    assert answer.pop("duration_s") > 0
    assert answer == {
        "status": "committed",
        "table": "t",
        "base_path": str(table),
        "action": "commit",
        "instant": max(entry["instant"] for entry in hoodie.instants(str(table))),
        "operation": "upsert",
        "partitions": ["eu"],
        "num_inserts": 4,
        "num_updates": 10,
        "num_deletes": 0,
        "num_writes": 14,
        "num_files": 1,
        "bytes_written": sum(sizes),
        "warnings": [],
        "rolled_back": [],
        "metadata_table_removed": False,
        "num_missing": 0,
        "num_replaced": 0,
        "num_dropped": 0,
    }
    json.dumps(answer)


def test_extra_metadata_is_kept_beside_the_schema(tmp_path: Path) -> None:
    result = _write(
        tmp_path / "t", small_rows(range(3), 1), extra_metadata={"airflow.run": "x", "ünï": "日本"}
    )
    extra = _commit(tmp_path / "t", result.instant)["extraMetadata"]
    assert {name: extra[name] for name in ("airflow.run", "ünï")} == {"airflow.run": "x", "ünï": "日本"}
    schema = json.loads(extra["schema"])
    assert [field["name"] for field in schema["fields"]] == SMALL_SCHEMA.names
    assert (schema["namespace"], schema["name"]) == ("hoodie.t", "t_record")


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_the_timeline_of_every_operation(tmp_path: Path, operation: str) -> None:
    table = tmp_path / "t"
    results = [_write(table, small_rows(range(9), version), operation=operation) for version in (1, 2)]
    entries = hoodie.instants(str(table))
    assert [(e["instant"], e["action"], e["state"], e["operation"]) for e in entries] == [
        (result.instant, "commit", "completed", operation.upper()) for result in results
    ]
    assert [entry["inserts"] for entry in entries] == [9, 0 if operation == "upsert" else 9]
    names = {path.name for path in (table / ".hoodie").iterdir() if path.is_file()}
    for result in results:
        assert {
            f"{result.instant}.commit.requested",
            f"{result.instant}.inflight",
            f"{result.instant}.commit",
        } <= names


def test_nothing_temporary_is_left(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for version in (1, 2):
        _write(table, small_rows(range(9), version))
    assert list((table / ".hoodie" / ".temp").iterdir()) == []
    assert list((table / ".hoodie" / ".heartbeat").iterdir()) == []
    assert not [path for path in table.rglob("*") if "tmp" in path.name or path.name.endswith(".crc")]


def test_the_inflight_file_holds_the_workload(tmp_path: Path) -> None:
    table = tmp_path / "t"
    _write(table, small_rows(range(9), 1))
    (file,) = data_files(table, "eu")
    result = _write(table, small_rows([0, 3, 30], 2))
    inflight = json.loads((table / ".hoodie" / f"{result.instant}.inflight").read_text())
    assert inflight["operationType"] == "UPSERT"
    new, known = inflight["partitionToWriteStats"]["eu"]
    assert (new["fileId"], new["numInserts"]) == ("", 1)
    assert (known["fileId"], known["numUpdateWrites"]) == (file.name.partition("_")[0], 2)


def test_properties_of_a_new_table(tmp_path: Path) -> None:
    _write(tmp_path / "t", small_rows(range(3), 1))
    props = parse_properties((tmp_path / "t" / ".hoodie" / "hoodie.properties").read_bytes())
    expected = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "region",
        "hoodie.table.precombine.field": "ts",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.populate.meta.fields": "true",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    }
    assert {name: props.get(name) for name in expected} == expected


def test_a_later_write_needs_no_options(tmp_path: Path) -> None:
    options = {**PLAIN, KEYGEN: "nonpartitioned", "hoodie.table.name": "named"}
    hoodie.write_table(plain(("a", 1, "x")), str(tmp_path / "t"), options=options)
    result = hoodie.write_table(plain(("a", 2, "y"), ("b", 1, "z")), str(tmp_path / "t"))
    assert (result.table, result.num_updates, result.num_inserts) == ("named", 1, 1)


def test_files_of_one_write_have_names_of_their_own(tmp_path: Path) -> None:
    options = {**OPTIONS, MAX_FILE: 2000, SMALL_FILE: 0, RECORD_SIZE: 100}
    rows = as_table(small_rows(range(300), 1), SMALL_SCHEMA)
    result = hoodie.write_table(rows, str(tmp_path / "t"), options=options)
    files = data_files(tmp_path / "t")
    assert len({file.name.partition("_")[0] for file in files}) == len(files) == result.num_files > 10


def test_progress_is_told_in_order(tmp_path: Path) -> None:
    steps: list[str] = []
    hoodie.write_table(
        plain(("a", 1, "x")),
        str(tmp_path / "t"),
        options=PLAIN,
        progress=lambda step, text: steps.append(step),
    )
    assert list(dict.fromkeys(steps)) == ["stage", "write", "commit"]
