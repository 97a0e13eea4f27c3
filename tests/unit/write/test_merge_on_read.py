"""Delta commits: updates and deletes in logs, new keys in base files, and what the commit says about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import TableError, TableMismatch
from hoodie.format.log_block import BlockType, HeaderKey
from hoodie.format.names import LogFileName
from hoodie.format.schema import from_avro
from hoodie.table import properties
from hoodie.timeline.active import Timeline
from tests.support.arrow import arrow_schema
from tests.support.oracle import Mode
from tests.support.rows import assert_same_rows
from tests.support.storages import wrapped
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, full_rows, small_rows, without
from tests.support.tiers import crossed_but
from tests.unit.write.merge_on_read import (
    BLOCK_FORMAT,
    BLOCK_SIZE,
    GROUPS,
    LOG_SIZE,
    MOR,
    NO_PACKING,
    PLAIN_MOR,
    STORAGE,
    TYPE,
    MorPair,
    blocks,
    drop,
    log_paths,
    logged_deletes,
    logged_rows,
    parsed,
    put,
    stats,
)
from tests.unit.write.support import (
    BUDGET,
    KEY,
    NULL_FOR_MISSING,
    ORDERING,
    PARTITION,
    PAYLOAD,
    PLAIN_SCHEMA,
    SMALL_FILE,
    data_files,
    plain,
    values,
)

WITHOUT_PARTITION = {name: value for name, value in MOR.items() if name != PARTITION}


@pytest.mark.table_version(6)
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_a_new_table(tmp_path: Path, operation: str) -> None:
    """Base files under a delta commit; the properties as Apache Hudi has them."""
    pair = MorPair(tmp_path / "t", MOR)
    result = pair.write(small_rows(range(30), 1), operation)
    assert result.action == "deltacommit"
    assert [entry["action"] for entry in hoodie.instants(str(pair.path))] == ["deltacommit"]
    assert all("logVersion" not in stat for stat in stats(pair.path, result.instant))
    assert not any(log_paths(pair.path, region) for region in ("eu", "us", "apac"))
    props = properties.load(STORAGE, str(pair.path))
    assert props[properties.TYPE] == "MERGE_ON_READ"
    assert props[properties.PAYLOAD_CLASS] == "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    assert props[properties.MERGER_STRATEGY] == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"


@pytest.mark.parametrize(
    ("form", "index", "options"),
    crossed_but(
        {"avro-SIMPLE-partitions", "parquet-BLOOM-no partitions"},
        {"avro": "avro", "parquet": "parquet"},
        {"SIMPLE": "SIMPLE", "BLOOM": "BLOOM"},
        {"partitions": MOR, "no partitions": WITHOUT_PARTITION},
    ),
)
def test_writes_one_after_the_other(tmp_path: Path, options: dict[str, Any], index: str, form: str) -> None:
    """Packing, updates, late updates, deletes, late deletes, deletes of new keys, keys written again."""
    more = {BLOCK_FORMAT: form, "hoodie.index.type": index}
    partition = ("region",) if PARTITION in options else ()
    pair = MorPair(tmp_path / "t", {**options, **more}, partition=partition)
    pair.write(small_rows(range(60), 1), "bulk_insert")
    pair.write(small_rows(range(40, 90), 2))
    pair.write(small_rows(range(10), 3) + small_rows(range(95, 100), 3, deleted=True))
    pair.write(small_rows(range(20, 30), 4, deleted=True) + small_rows(range(100, 120), 4))
    pair.write(small_rows(range(5), 1) + small_rows(range(5, 10), 2, ts=5, deleted=True))
    pair.write(small_rows(range(24, 40), 5))
    pair.write(small_rows(range(120), 6))


def test_every_type_in_a_log(tmp_path: Path) -> None:
    pair = MorPair(tmp_path / "t", {**MOR, **NO_PACKING}, FULL_SCHEMA)
    pair.hudi_rs = False  # readers.HUDI_RS_GAPS["nested log timestamp"]
    stored = pa.schema(
        [pa.field("c_ntz", pa.timestamp("us", tz="UTC")) if f.name == "c_ntz" else f for f in FULL_SCHEMA]
    )
    for form in ("avro", "parquet"):
        for version, ids in ((1, range(20)), (2, range(0, 20, 2)), (3, range(0, 20, 3))):
            rows = full_rows(ids, version)
            table = pa.Table.from_pylist(rows, schema=FULL_SCHEMA)
            options = {**pair.options, BLOCK_FORMAT: form}
            hoodie.write_table(table, str(pair.path), options=options)
            pair.model.upsert(rows)
            expected = pair.model.table(FULL_SCHEMA).cast(stored)
            assert_same_rows(hoodie.read_table(str(pair.path)), expected, what=f"{form} {version}")


@pytest.mark.table_version(6)
def test_a_log_record(tmp_path: Path) -> None:
    """Meta columns as Apache Hudi fills them in logs, headers, the schema with meta columns."""
    path = tmp_path / "t"
    first = put(path, ("a", 1, "x"), ("b", 1, "y"), ("c", 1, "z"))
    (base,) = data_files(path)
    second = put(path, ("a", 2, "x2"), ("c", 2, "z2"))
    (log,) = log_paths(path)
    name = LogFileName.parse(log.name)
    assert name is not None
    assert (name.file_id, name.instant, name.version) == (base.name.split("_")[0], first.instant, 1)
    rows = logged_rows(log)
    assert (
        rows.column_names
        == [
            "_hoodie_" + meta
            for meta in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
        ]
        + PLAIN_SCHEMA.names
    )
    assert rows.select(PLAIN_SCHEMA.names).to_pylist() == plain(("a", 2, "x2"), ("c", 2, "z2")).to_pylist()
    assert rows.column("_hoodie_record_key").to_pylist() == ["a", "c"]
    assert set(rows.column("_hoodie_commit_time").to_pylist()) == {second.instant}
    assert set(rows.column("_hoodie_partition_path").to_pylist()) == {""}
    assert set(rows.column("_hoodie_file_name").to_pylist()) == {name.file_id}
    numbers: list[Any] = rows.column("_hoodie_commit_seqno").to_pylist()
    assert len(set(numbers)) == 2
    assert all(number.startswith(f"{second.instant}_") for number in numbers)
    (block,) = blocks(log)
    assert set(block.headers) == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}
    assert block.instant == second.instant
    assert from_avro(str(block.schema_text)).names == rows.column_names


@pytest.mark.table_version(6)
def test_write_statistics_of_a_log(tmp_path: Path) -> None:
    """As Apache Hudi 0.15.0 writes them (format.md 3.1), the slice's logs newest first, then the new one."""
    path = tmp_path / "t"
    first = put(path, ("a", 1, "x"), ("b", 1, "y"), ("c", 1, "z"))
    put(path, ("a", 2, "x2"))
    put(path, ("a", 3, "x3"))
    result = drop(path, ("b", 4), ("c", 4))
    (base,), logs = data_files(path), log_paths(path)
    assert [parsed(log).version for log in logs] == [1, 2, 3]
    (stat,) = stats(path, result.instant)
    size = logs[2].stat().st_size
    names = [log.name for log in logs]
    assert stat == {
        "fileId": parsed(logs[2]).file_id,
        "path": names[2],
        "cdcStats": None,
        "prevCommit": first.instant,
        "numWrites": 0,
        "numDeletes": 2,
        "numUpdateWrites": 0,
        "numInserts": 0,
        "totalWriteBytes": size,
        "totalWriteErrors": 0,
        "tempPath": None,
        "partitionPath": "",
        "totalLogRecords": 0,
        "totalLogFilesCompacted": 0,
        "totalLogSizeCompacted": 0,
        "totalUpdatedRecordsCompacted": 0,
        "totalLogBlocks": 0,
        "totalCorruptLogBlock": 0,
        "totalRollbackBlocks": 0,
        "fileSizeInBytes": size,
        "minEventTime": None,
        "maxEventTime": None,
        "runtimeStats": None,
        "logVersion": 3,
        "logOffset": 0,
        "baseFile": base.name,
        "logFiles": [names[1], names[0], names[2]],
        "recordsStats": {"val": None},
    }
    assert list(stat)[-5:] == ["logVersion", "logOffset", "baseFile", "logFiles", "recordsStats"]
    assert (result.num_deletes, result.num_updates, result.num_inserts, result.num_files) == (2, 0, 0, 1)


@pytest.mark.table_version(6)
def test_rows_then_deletes_in_one_log(tmp_path: Path) -> None:
    path = tmp_path / "t"
    put(path, *((key, 1, "x") for key in "abcd"))
    mixed = plain(("a", 2, "x"), ("b", 7, None), ("c", 2, "y"), ("d", 9, None))
    mixed = mixed.append_column("_hoodie_is_deleted", pa.array([None, True, False, True]))
    result = hoodie.write_table(mixed, str(path), options=PLAIN_MOR)
    (log,) = log_paths(path)
    assert [block.type for block in blocks(log)] == [BlockType.AVRO_DATA, BlockType.DELETE]
    (deletes,) = logged_deletes(log)
    assert deletes.keys.to_pylist() == ["b", "d"]
    assert deletes.partitions.to_pylist() == ["", ""]
    assert deletes.ordering is not None
    assert deletes.ordering.to_pylist() == [7, 9]
    (stat,) = stats(path, result.instant)
    assert (stat["numWrites"], stat["numUpdateWrites"], stat["numDeletes"]) == (2, 2, 2)
    assert values(path, "id", "ts") == [("a", 2), ("c", 2)]


def test_deletes_without_ordering_value(tmp_path: Path) -> None:
    """Without an ordering column, or where it plays no part against the table, a delete wins."""
    for name, more in (("none", {ORDERING: ""}), ("commit time", {PAYLOAD: "commit_time"})):
        path = tmp_path / name
        put(path, ("a", 5, "x"), ("b", 5, "y"), **{k.replace(".", "__"): v for k, v in more.items()})
        drop(path, ("a", 1), **{k.replace(".", "__"): v for k, v in more.items()})
        (deletes,) = logged_deletes(log_paths(path)[-1])
        assert deletes.ordering is None, name
        assert values(path, "id") == ["b"]


def test_keys_that_are_not_there_are_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    put(path, ("a", 1, "x"))
    result = drop(path, ("z", 5))
    assert (result.num_deletes, result.num_files) == (0, 0)
    assert log_paths(path) == []


@pytest.mark.table_version(6)
@pytest.mark.parametrize(("form", "file_size"), [("avro", 40_000), ("parquet", 9_000)])
def test_blocks_and_files_of_limited_size(tmp_path: Path, form: str, file_size: int) -> None:
    """A block is flushed at its size, a file ends after the block that fills it; each has its statistics."""
    pair = MorPair(tmp_path / "t", {**WITHOUT_PARTITION, **NO_PACKING, BLOCK_FORMAT: form}, partition=())
    pair.write(small_rows(range(400), 1))
    limits: dict[str, Any] = {LOG_SIZE.replace(".", "__"): file_size, BLOCK_SIZE.replace(".", "__"): 15_000}
    rows = small_rows(range(300), 2) + small_rows(range(300, 400), 2, deleted=True)
    result = pair.write(rows, **limits)
    logs = log_paths(pair.path)
    assert len(logs) >= 2
    assert [parsed(log).version for log in logs] == list(range(1, len(logs) + 1))
    found = stats(pair.path, result.instant)
    assert [stat["path"] for stat in found] == [log.name for log in logs]
    assert [stat["fileSizeInBytes"] for stat in found] == [log.stat().st_size for log in logs]
    assert [len(stat["logFiles"]) for stat in found] == list(range(1, len(logs) + 1))
    assert (sum(stat["numUpdateWrites"] for stat in found), sum(stat["numDeletes"] for stat in found)) == (
        300,
        100,
    )
    sizes = [block.content_length for log in logs for block in blocks(log)]
    assert max(sizes) < 17_000
    assert len(sizes) >= 4
    kinds = [block.type for log in logs for block in blocks(log)]
    assert sorted(kinds, key=lambda kind: kind is BlockType.DELETE) == kinds
    for log in logs[:-1]:
        assert log.stat().st_size >= file_size > log.stat().st_size - blocks(log)[-1].length
    pair.write(small_rows(range(0, 400, 3), 3))
    assert parsed(log_paths(pair.path)[-1]).version == len(logs) + 1


def test_more_rows_than_the_memory_budget(tmp_path: Path) -> None:
    pair = MorPair(tmp_path / "t", {**WITHOUT_PARTITION, **NO_PACKING}, partition=())
    pair.write(small_rows(range(1200), 1))
    budget: dict[str, Any] = {BUDGET.replace(".", "__"): 1 << 16}
    result = pair.write(small_rows(range(1200), 2) + small_rows(range(200), 3, deleted=True), **budget)
    assert (result.num_updates, result.num_deletes) == (1000, 200)
    assert all(block.content_length < 1 << 15 for log in log_paths(pair.path) for block in blocks(log))


@pytest.mark.table_version(6)
def test_inserts_are_packed_into_the_smallest_file_without_logs(tmp_path: Path) -> None:
    """Written anew under the delta commit, its updates merged in; a slice with logs takes none."""
    pair = MorPair(tmp_path / "t", WITHOUT_PARTITION, partition=())
    pair.write(small_rows(range(30), 1), hoodie__parquet__small__file__limit=0)
    pair.write(small_rows(range(100, 120), 1), hoodie__parquet__small__file__limit=0)
    large, small = sorted(data_files(pair.path), key=lambda file: -file.stat().st_size)
    both = small_rows([0, 1, 100, 101], 2) + small_rows(range(200, 205), 2)
    result = pair.write(both)
    found = {stat["fileId"]: stat for stat in stats(pair.path, result.instant)}
    packed = found[small.name.split("_")[0]]
    assert packed["path"].endswith(f"_{result.instant}.parquet")
    assert (packed["numUpdateWrites"], packed["numInserts"], packed["numWrites"]) == (2, 5, 25)
    assert found[large.name.split("_")[0]]["logVersion"] == 1
    assert len(found) == 2
    # both have logs or are of no use now: the packed one takes the next, then none is left
    result = pair.write(small_rows([200, *range(210, 215)], 3))
    (stat,) = stats(pair.path, result.instant)
    assert (stat["fileId"], stat["numInserts"]) == (small.name.split("_")[0], 5)
    pair.write(small_rows([200], 4))
    result = pair.write(small_rows(range(300, 305), 5))
    (stat,) = stats(pair.path, result.instant)
    assert stat["prevCommit"] == "null"


def test_insert_packs_too_and_looks_at_no_key(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {**PLAIN_MOR, SMALL_FILE: 10**8}
    for number in range(2):
        hoodie.write_table(plain(("a", number, "x")), str(path), operation="insert", options=options)
    assert values(path, "id") == ["a", "a"]
    assert (len(data_files(path)), log_paths(path)) == (1, [])
    put(path, ("a", 5, "y"))
    hoodie.write_table(plain(("b", 1, "x")), str(path), operation="insert", options=options)
    assert values(path, "id", "ts") == [("a", 5), ("a", 5), ("b", 1)]
    assert len(data_files(path)) == 2
    more = {**options, GROUPS: 0}
    hoodie.write_table(plain(("c", 1, "x")), str(path), operation="insert", options=more)
    assert len(data_files(path)) == 3


def test_new_columns_and_wider_types_above_older_logs(tmp_path: Path) -> None:
    path = tmp_path / "t"
    narrow = arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("n", pa.int32())])

    def write(rows: list[dict[str, Any]], schema: pa.Schema, **more: Any) -> None:
        table = pa.Table.from_pylist(rows, schema=schema)
        hoodie.write_table(table, str(path), options={**PLAIN_MOR, **more})

    write([{"id": key, "ts": 1, "n": 1} for key in "abcd"], narrow)
    write([{"id": "a", "ts": 2, "n": 2}], narrow)
    wide = arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("n", pa.float64()), ("new", pa.string())])
    write([{"id": "b", "ts": 3, "n": 3.5, "new": "x"}], wide)
    write([{"id": "c", "ts": 4, "n": 4}], narrow, **{NULL_FOR_MISSING: True})
    expected = [("a", 2.0, None), ("b", 3.5, "x"), ("c", 4.0, None), ("d", 1.0, None)]
    assert values(path, "id", "n", "new") == expected
    schemas = [from_avro(str(blocks(log)[0].schema_text)).field("n").type for log in log_paths(path)]
    assert schemas == [pa.int32(), pa.float64(), pa.float64()]
    rows = plain(
        ("a", 1, None),
        ("b", 9, None),
        ("d", 9, None),
        schema=arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())]),
    )
    flags = rows.set_column(2, "_hoodie_is_deleted", pa.array([True, True, True]))
    hoodie.write_table(flags, str(path), options={**PLAIN_MOR, NULL_FOR_MISSING: True})
    assert values(path, "id") == ["a", "c"]


@pytest.mark.parametrize("mode", [Mode.COMMIT_TIME, Mode.PARTIAL_UPDATE, Mode.OVERWRITE_NON_DEFAULTS])
def test_other_payloads_are_merged_by_readers(tmp_path: Path, mode: Mode) -> None:
    """Rows are logged as they come; each key is logged once here, since between logs readers differ."""
    schema = without(SMALL_SCHEMA, "_hoodie_is_deleted")
    pair = MorPair(tmp_path / "t", {**MOR, **NO_PACKING, PAYLOAD: mode.value}, schema, mode=mode)
    pair.hudi_rs = mode is Mode.COMMIT_TIME
    pair.write(small_rows(range(40), 2))
    pair.write(small_rows(range(10), 3) + small_rows(range(10, 20), 1))
    pair.write(small_rows(range(20, 30), 3) + small_rows(range(40, 50), 3))


def test_keys_that_a_file_holds_twice(tmp_path: Path) -> None:
    """An update replaces all that are older, a delete must be newer than all."""
    path = tmp_path / "t"
    twice = plain(("a", 1, "x"), ("a", 3, "y"), ("b", 1, "z"), ("c", 1, "p"), ("c", 5, "q"))
    hoodie.write_table(twice, str(path), operation="bulk_insert", options=PLAIN_MOR)
    put(path, ("a", 2, "new"))
    assert values(path, "id", "ts", "val")[:2] == [("a", 2, "new"), ("a", 3, "y")]
    assert drop(path, ("c", 4), ("b", 0)).num_deletes == 0
    assert drop(path, ("c", 5)).num_deletes == 1
    assert values(path, "id") == ["a", "a", "b"]


@pytest.mark.table_version(6)
def test_a_log_file_of_that_name_is_left_alone(tmp_path: Path) -> None:
    """Names of logs do not hold the instant: a writer that was taken for dead may have made one."""
    path = tmp_path / "t"
    put(path, ("a", 1, "x"))
    put(path, ("a", 2, "y"))
    (log,) = log_paths(path)
    name = parsed(log)
    in_the_way = path / log.name.replace(".log.1_", ".log.2_")
    in_the_way.write_bytes(log.read_bytes())

    class Blind(type(STORAGE)):  # type: ignore[misc]
        def list(self, folder: str) -> Any:
            return [item for item in super().list(folder) if item.name != in_the_way.name]

    with wrapped(lambda storage: Blind()):
        put(path, ("a", 3, "z"))
    assert in_the_way.read_bytes() == log.read_bytes()
    assert [parsed(found).version for found in log_paths(path)] == [1, 2, 3]
    assert {parsed(found).file_id for found in log_paths(path)} == {name.file_id}
    assert values(path, "id", "ts") == [("a", 3)]


def test_a_group_without_base_file_is_refused_for_upserts(tmp_path: Path) -> None:
    """As tables of the bucket index have them: their keys are in the log alone."""
    pair = MorPair(tmp_path / "t", {**MOR, **NO_PACKING}, SMALL_SCHEMA)
    pair.write(small_rows(range(30), 1))
    pair.write(small_rows(range(30), 2))
    (base,) = data_files(pair.path, "eu")
    base.unlink()
    options = {**pair.options, "hoodie.write.verify.files": "false"}
    table = pa.Table.from_pylist(small_rows([33], 3), schema=SMALL_SCHEMA)
    before = [str(instant) for instant in Timeline.load(str(pair.path), STORAGE)]
    with pytest.raises(TableError, match="has rows in its log only, such as key 'k000") as refused:
        hoodie.write_table(table, str(pair.path), options=options)
    group = base.name.split("_")[0]
    assert (refused.value.values["partition"], refused.value.values["file_id"]) == ("eu", group)
    assert group in str(refused.value)
    assert [str(instant) for instant in Timeline.load(str(pair.path), STORAGE)] == before
    hoodie.write_table(table.slice(0, 0), str(pair.path), options=options)
    other = pa.Table.from_pylist(small_rows([34], 3), schema=SMALL_SCHEMA)
    hoodie.write_table(other, str(pair.path), options=options)
    hoodie.write_table(table, str(pair.path), operation="insert", options=options)


def test_another_table_type_is_a_contradiction(tmp_path: Path) -> None:
    path = tmp_path / "t"
    put(path, ("a", 1, "x"))
    options = {KEY: "id", TYPE: "COPY_ON_WRITE"}
    with pytest.raises(TableMismatch, match=r"COPY_ON_WRITE.*MERGE_ON_READ"):
        hoodie.write_table(plain(("a", 2, "y")), str(path), options=options)
    result = hoodie.write_table(plain(("a", 2, "y")), str(path))
    assert result.action == "deltacommit"
