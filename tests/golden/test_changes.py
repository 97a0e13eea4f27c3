"""Change data of tables that Apache Hudi 0.15.0 wrote: as it answered, in every form of the change log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import HoodieError, StateUnavailable, TableError
from hoodie.format.cdc import LOGGING_MODE, LoggingMode, record_schema
from hoodie.format.log_block import BlockType, HeaderKey
from hoodie.format.log_data import read_data_block
from hoodie.format.log_file import LogFileReader
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.table.table_schema import TableSchema
from hoodie.timeline.time import InstantTime
from tests.support.changes import ask, changes, images, keeps_changes, replayed, write_change_log
from tests.support.golden import COPY_ON_WRITE, MERGE_ON_READ
from tests.support.tiers import full_but

STORAGE = LocalStorage()
#: tables of which not all changes can be told, and why
NOT_TOLD = {
    **dict.fromkeys(["cow_archived", "mor_archived"], "are archived"),
    **dict.fromkeys(
        ["all_instants", "cow_clean_commits", "cow_clean_versions", "cow_savepoint", "mor_clean_commits"],
        "can't be told any more",
    ),
    "cow_nometafields": "keeps no meta columns",
}
#: Apache Hudi merged arrays of other rows to nulls (see tests/data/golden/README.md)
MERGED_WRONGLY = {"cow_bulk_insert_row", "cow_clustered"}
#: logs below a pending and a done compaction; columns that were renamed, that no file holds
REPLAYED = {"cow_droppartcol", "cow_schema_on_read", "mor_bucket_compacted", "mor_pending_compaction"}


def _folder(golden_tables: Path, name: str) -> Path:
    return golden_tables / "0.15.0-v6" / name


def _copy(golden_tables: Path, tmp_path: Path, name: str = "cow_cdc") -> str:
    shutil.copytree(_folder(golden_tables, name) / "table", tmp_path / "table")
    return str(tmp_path / "table")


@pytest.mark.parametrize("name", ["cow_cdc", "mor_cdc"])
def test_changes_equal_what_apache_hudi_answers(golden_tables: Path, name: str) -> None:
    folder = _folder(golden_tables, name)
    expected = changes(pq.read_table(folder / "expected" / "cdc_000.parquet"))
    path = str(folder / "table")
    got = ask(path)
    assert got.schema.names == ["op", "ts_ms", "before", "after"]
    times = [str(time) for time in got["ts_ms"].to_pylist()]
    assert times == sorted(times)
    assert changes(got) == expected
    first, second, third = sorted({row[1] for row in expected})
    assert changes(ask(path, first, second)) == [row for row in expected if row[1] == second]
    assert changes(ask(path, second)) == [row for row in expected if row[1] == third]
    assert ask(path, third).num_rows == 0


@pytest.mark.parametrize("name", full_but(REPLAYED, [*COPY_ON_WRITE, *MERGE_ON_READ]))
def test_changes_lead_to_what_the_table_holds(golden_tables: Path, tmp_path: Path, name: str) -> None:
    """Of tables without a change log, too: their files are compared."""
    path = _copy(golden_tables, tmp_path, name)
    keeps_changes(Path(path))
    if name in NOT_TOLD:
        with pytest.raises(HoodieError, match=NOT_TOLD[name]):
            ask(path)
        return
    props = Table.open(path).properties
    *_, (_, last) = replayed(changes(ask(path)), [*props.record_key_fields, *props.partition_fields])
    if name not in MERGED_WRONGLY:
        assert last == images(hoodie.read_table(path, meta=False))


def test_changes_of_version_9_equal_what_apache_hudi_answers(later_tables: Path) -> None:
    folder = later_tables / "1.2.0-v9/mor_cdc"
    expected = changes(pq.read_table(folder / "expected/cdc_000.parquet"))
    path = str(folder / "table")
    assert changes(ask(path)) == expected
    done = sorted(str(item.completion) for item in Table.open(path).timeline.commits())
    parts = [changes(ask(path, begin, end)) for begin, end in zip(["earliest", *done], done, strict=False)]
    assert sorted((row for part in parts for row in part), key=str) == sorted(expected, key=str)
    assert all(parts)


@pytest.mark.parametrize(
    "name",
    full_but(
        {"1.2.0-v9/mor_logs", "1.2.0-v9/cow_delete_partition"},
        [
            "1.2.0-v8/mor_rollback",
            "1.2.0-v9/cow_clustered_intdecimal",
            "1.2.0-v9/cow_delete_partition",
            "1.2.0-v9/idx_gbloom",
            "1.2.0-v9/mor_compacted",
            "1.2.0-v9/mor_late_event",
            "1.2.0-v9/mor_late_overwrite",
            "1.2.0-v9/mor_logs",
            "1.2.0-v9/mor_pending_compaction",
        ],
    ),
)
def test_changes_of_versions_8_and_9_lead_to_what_the_table_holds(
    later_tables: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(later_tables / name / "table", tmp_path / "table")
    path = str(tmp_path / "table")
    keeps_changes(Path(path))
    props = Table.open(path).properties
    *_, (_, last) = replayed(changes(ask(path)), [*props.record_key_fields, *props.partition_fields])
    assert last == images(hoodie.read_table(path, meta=False))


@pytest.mark.parametrize("name", ["nbcc_out_of_order", "nbcc_compaction_between"])
def test_changes_of_writers_that_overlap_come_as_they_were_completed(
    later_more: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(later_more / "more" / name / "table", tmp_path / "table")
    path = str(tmp_path / "table")
    keeps_changes(Path(path))
    timeline = Table.open(path).timeline
    order = [item.time for item in timeline.by_completion()]
    assert order != sorted(order, key=str)
    ordered = [
        (op, str(order.index(InstantTime(time))).zfill(3), before, after)
        for op, time, before, after in changes(ask(path))
    ]
    *_, (_, last) = replayed(ordered, ["id", "region"])
    assert last == images(hoodie.read_table(path, meta=False))


def test_columns_and_predicates(golden_tables: Path) -> None:
    path = str(_folder(golden_tables, "cow_cdc") / "table")
    where = "op = 'd' AND json_extract_string(before, '$.region') = 'apac'"
    got = ask(path, columns=["before", "op"], where=where)
    assert got.schema.names == ["before", "op"]
    image = '{"id": "k00002", "ts": 1000, "region": "apac", "val": 630224, "name": "n2-v1"}'
    assert got.to_pylist() == [{"before": image, "op": "d"}]


def test_the_schema_of_records_is_apache_hudis(golden_tables: Path) -> None:
    for name, mode in (("cow_cdc", LoggingMode.DATA_BEFORE_AFTER), ("mor_cdc", LoggingMode.OP_KEY_ONLY)):
        table = Table.open(str(_folder(golden_tables, name) / "table"))
        assert LoggingMode.of(table.properties.get(LOGGING_MODE)) is mode
        schema = TableSchema.load(table.timeline, table.storage, table.properties).avro
        assert schema is not None
        for path in _logs(table.base_path):
            with LogFileReader(STORAGE, str(path)) as reader:
                for block in reader.blocks():
                    assert block.headers[HeaderKey.SCHEMA] == record_schema(mode, schema)


@pytest.mark.parametrize("mode", [LoggingMode.DATA_BEFORE, LoggingMode.OP_KEY_ONLY])
def test_images_that_the_change_log_lacks_are_those_of_the_files(
    golden_tables: Path, tmp_path: Path, mode: LoggingMode
) -> None:
    path = _copy(golden_tables, tmp_path)
    expected = changes(ask(path))
    schema = TableSchema.load((table := Table.open(path)).timeline, STORAGE, table.properties).avro
    for log in _logs(path):
        _write_as(log, mode, record_schema(mode, schema or ""))
    properties.update(STORAGE, path, {LOGGING_MODE: mode.value.lower()})
    assert changes(ask(path)) == expected


def test_an_image_that_no_file_has_is_an_error(golden_tables: Path, tmp_path: Path) -> None:
    path = _copy(golden_tables, tmp_path)
    properties.update(STORAGE, path, {LOGGING_MODE: "OP_KEY_ONLY"})
    schema = record_schema(LoggingMode.OP_KEY_ONLY, "")
    for log in _logs(path):
        _write_as(log, LoggingMode.OP_KEY_ONLY, schema, unknown="nobody")
    with pytest.raises(TableError, match="names the key 'nobody', which the file lacks"):
        ask(path)


def test_what_is_gone_is_an_error(golden_tables: Path, tmp_path: Path) -> None:
    path = _copy(golden_tables, tmp_path)
    second, third = sorted({row[1] for row in changes(ask(path))})[1:]
    next(log for log in _logs(path) if second in log.name).unlink()
    with pytest.raises(StateUnavailable, match=rf"commit {second} can't be told .*\.cdc is gone"):
        ask(path)
    assert {row[0] for row in changes(ask(path, second))} == {"d"}
    properties.update(STORAGE, path, {LOGGING_MODE: "OP_KEY_ONLY"})
    for base in Path(path).glob(f"*/*_{second}.parquet"):
        base.unlink()
    with pytest.raises(StateUnavailable, match=f"commit {third} can't be told"):
        ask(path, second)


def _logs(path: str) -> list[Path]:
    return sorted(Path(path).glob("*/.*.cdc"))


def _write_as(log: Path, mode: LoggingMode, schema: str, unknown: str | None = None) -> None:
    """The change log in another form; with `unknown`, of a key that no file has."""
    with LogFileReader(STORAGE, str(log)) as reader:
        (block,) = reader.blocks()
        rows, instant = read_data_block(block, reader.content(block)), block.instant
    assert block.type is BlockType.CDC_DATA
    assert instant is not None
    keys = [unknown or (row["after"] or row["before"])["id"] for row in rows.to_pylist()]
    rows = rows.append_column("record_key", pa.array(keys)).select(list(mode.columns))
    write_change_log(log, rows, schema, instant)
