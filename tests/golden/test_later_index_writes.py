"""Indexes of tables of versions 8 and 9 that Apache Hudi 1.2.0 made stay true while the tables are written
and served on here.
"""

from __future__ import annotations

import datetime as dt
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import api, service_api
from hoodie.codec.arrays import pc, whole
from hoodie.errors import ConfigError
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.metadata.index_definitions import index_definitions
from hoodie.metadata.keys import column_key, file_key, partition_key
from hoodie.metadata.partitions.column_stats import STATS, ColumnStats, decoded
from hoodie.metadata.partitions.secondary_index import index_keys, record_keys
from hoodie.metadata.partitions.value_types import restored
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.services.index.doctor import check_metadata_table
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.table.properties import TableType
from hoodie.table.view import FileSlice, merged_slices
from tests.golden.test_later_writes import NO_SERVICES, STEPS, History
from tests.support.record_index import misplaced
from tests.support.secondary_index import mistaken
from tests.support.tiers import full_but

TABLES = [
    "1.2.0-v8/cow_types",
    "1.2.0-v8/mdt_full_cow",
    "1.2.0-v8/mor_types_flat",
    "1.2.0-v9/cow_types",
    "1.2.0-v9/mdt_full_mor",
    "1.2.0-v9/mor_logs",
    "1.2.0-v9/mor_schema_evo",
    "1.2.0-v9/sql_mor_merge",
]
FAST = {"1.2.0-v8/mor_types_flat", "1.2.0-v9/mdt_full_mor"}
WITHOUT = {"hoodie.metadata.enable": "false"}


@pytest.fixture
def copy(later_tables: Path, later_more: Path, tmp_path: Path) -> Callable[[str], str]:
    def copied(name: str) -> str:
        place = later_more if name.startswith("more/") else later_tables
        return str(shutil.copytree(place / name / "table", tmp_path / "t"))

    return copied


@pytest.mark.parametrize("name", full_but(FAST, TABLES))
def test_histories(copy: Callable[[str], str], name: str) -> None:
    """Queries answer the same with the metadata table and without, and statistics bound all values."""
    history = History(copy(name), name)
    ready = Table.open(history.path).properties.metadata_partitions
    for number in range(6):
        history.step(history.chance.choice(STEPS))
        history.check()
        if number % 3 == 2:
            check_queries(history, 8)
            check_statistics(history.path)
    assert set(ready) == set(Table.open(history.path).properties.metadata_partitions)


def check_queries(history: History, count: int) -> None:
    table = api.read_table(history.path)
    names = [
        field.name
        for field in table.schema
        if field.name not in ("_hoodie_commit_seqno", "_hoodie_file_name")
        and not (pa.types.is_nested(field.type) or pa.types.is_binary(field.type))
    ]
    rows = table.to_pylist()
    for _ in range(count):
        row, name = history.chance.choice(rows), history.chance.choice(names)
        sign = history.chance.choice(("=", "=", "<", ">", "<=", ">="))
        where = f"{name} is null" if row[name] is None else f"{name} {sign} {literal(row[name])}"
        found = api.read_table(history.path, where=where).to_pylist()
        assert by_key(found) == by_key(api.read_table(history.path, where=where, options=WITHOUT).to_pylist())


def by_key(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(f"{row['_hoodie_partition_path']} {row['_hoodie_record_key']}" for row in rows)


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"timestamp '{value.replace(tzinfo=None).isoformat(sep=' ')}'"
    return f"date '{value}'" if isinstance(value, dt.date) else str(value)


def check_statistics(path: str) -> None:
    """Of each latest file, and of each partition, where Apache Hudi's queries take them for all values."""
    table = Table.open(path)
    metadata = MetadataTable.open(table)
    assert metadata is not None
    if Partition.COLUMN_STATS not in metadata.partitions:
        return
    files, partitions = stored(metadata, Partition.COLUMN_STATS), {}
    if Partition.PARTITION_STATS in metadata.partitions:
        partitions = stored(metadata, Partition.PARTITION_STATS)
    columns = index_definitions(table)["column_stats"].source_fields
    snapshot = api.read_table(path)
    merge_on_read = table.properties.table_type is TableType.MERGE_ON_READ
    for item in latest(table):
        rows = snapshot.filter(pc.equal(snapshot["_hoodie_partition_path"], item.partition))
        mine = rows.filter(pc.equal(rows["_hoodie_file_name"], item.base.name if item.base else ""))
        for column in set(columns).intersection(snapshot.schema.names):
            kind = snapshot.schema.field(column).type
            if partitions:
                stats = partitions.get(column_key(column) + partition_key(item.partition))
                check_bounds(stats, kind, rows[column].to_pylist())
            if item.base is not None and not merge_on_read:
                stats = files.get(column_key(column) + file_key(item.partition, item.base.name))
                check_bounds(stats, kind, mine[column].to_pylist())


def check_bounds(stats: ColumnStats | None, kind: pa.DataType, values: list[Any]) -> None:
    there = [plain(value) for value in values if value is not None and not is_nan(value)]
    if there:
        assert stats is not None
        low, high = (restored(stats.kind, end, stats.scale, kind)[1] for end in (stats.low, stats.high))
        assert low <= min(there)
        assert is_nan(high) or max(there) <= high


def latest(table: Table) -> Iterator[FileSlice]:
    listing = table.listing()
    for path in listing.partitions():
        yield from merged_slices(table.view, listing.files, path)


def stored(metadata: MetadataTable, index: str) -> dict[str, ColumnStats]:
    found = dict[str, ColumnStats]()
    for item in metadata.slices(index):
        rows = metadata.records(item, lambda reader: reader.scan(), [STATS])
        if not rows.num_rows:
            continue
        keys: Any = whole(rows[KEY_FIELD]).to_pylist()
        for key, (_, _, deleted, stats) in zip(
            keys, decoded(whole(rows[STATS]), [None] * len(keys)), strict=True
        ):
            found[key] = stats
            if deleted:
                del found[key]
    return found


def plain(value: Any) -> Any:
    """As statistics have it."""
    if isinstance(value, dt.datetime):
        return round((value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1))
    return (value - dt.date(1970, 1, 1)).days if isinstance(value, dt.date) else value


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


@pytest.mark.parametrize("version", [8, 9])
def test_records_have_the_form_of_apache_hudi(copy: Callable[[str], str], version: int) -> None:
    """Wrappers, and types of values, of each column as in the records that are there."""
    history = History(copy(f"1.2.0-v{version}/cow_types"), 1)
    before = forms(history.path)
    history.step("upsert")
    assert forms(history.path) == before
    assert any(kind == 10 for *_, kind in before) == (version == 9)


def forms(path: str) -> set[tuple[Any, ...]]:
    metadata = MetadataTable.open(Table.open(path))
    assert metadata is not None
    found = set[tuple[Any, ...]]()
    for index in (Partition.COLUMN_STATS, Partition.PARTITION_STATS):
        for item in metadata.slices(index):
            for row in metadata.records(item, lambda reader: reader.scan(), ["type", STATS]).to_pylist():
                stats = row[STATS]
                wrapper = [name for name, value in (stats["minValue"] or {}).items() if value is not None]
                kind = stats["valueType"] or {"typeOrdinal": 0, "additionalInfo": None}
                found.add(
                    (
                        row["type"],
                        stats["columnName"],
                        *wrapper,
                        stats["isTightBound"],
                        kind["additionalInfo"],
                        kind["typeOrdinal"],
                    )
                )
    return found


@pytest.mark.parametrize(
    "name", full_but({"1.2.0-v9/mdt_full_cow"}, ["1.2.0-v8/mdt_full_cow", "1.2.0-v9/mdt_full_cow"])
)
def test_what_a_clean_takes_is_deleted_by_key(copy: Callable[[str], str], name: str) -> None:
    """As Apache Hudi 1.x does, of filters and of statistics: no block has records of files that are gone."""
    path = copy(name)
    metadata = Path(path, ".hoodie/metadata")
    cleaned = service_api.clean_table(path, options={"hoodie.cleaner.commits.retained": "1"})
    names = {file for files in cleaned.files.values() for file in files}
    assert names
    keys = {file_key(*file.rpartition("/")[::2]) for file in names}
    for index, begin in (("bloom_filters", 0), ("column_stats", len(column_key("")))):
        blocks = log_blocks(metadata / index, cleaned.instant)
        assert {kind for kind, _ in blocks} == {BlockType.DELETE}
        assert {key[begin:] for _, deleted in blocks for key in deleted} == keys


def log_blocks(folder: Path, instant: str) -> list[tuple[BlockType, set[str]]]:
    """The blocks that an instant wrote, with the keys that they delete."""
    found = []
    for file in sorted(folder.glob(f".*_{instant}.log.*")):
        with LogFileReader(LocalStorage(), str(file)) as log:
            for block in log.blocks():
                deleted: Any = []
                if block.type is BlockType.DELETE:
                    deleted = read_delete_block(log.content(block)).keys.to_pylist()
                found.append((block.type, set(deleted)))
    return found


def test_files_without_rows_have_no_part_in_statistics(copy: Callable[[str], str]) -> None:
    """A delete of all rows of a partition leaves them, and the index stays."""
    path = copy("1.2.0-v9/mdt_full_cow")
    before = partitions_of(path)
    assert "partition_stats" in before
    rows = api.read_table(path)
    gone = rows.filter(pc.equal(rows["_hoodie_partition_path"], rows["_hoodie_partition_path"][0]))
    kept = api.read_table(path, meta=False).num_rows - gone.num_rows
    names = [name for name in gone.schema.names if not name.startswith("_hoodie_")]
    for operation, count in (("delete", kept), ("upsert", kept + 1), ("delete", kept)):
        some = gone.select(names) if operation == "delete" else gone.select(names).slice(0, 1)
        done = api.write_table(some, path, operation=operation, options=NO_SERVICES)
        assert done.warnings == []
        assert partitions_of(path) == before
        assert api.read_table(path, meta=False).num_rows == count


SECONDARY = ["1.2.0-v9/mdt_1x_indexes", "more/secondary_index_cow"]
#: tables with logs, and a column of each: partial updates, deletes by a marker, event times
LOGGED = {
    "1.2.0-v8/mor_compacted": "c_int",
    "1.2.0-v9/mor_logs": "c_str",
    "1.2.0-v9/sql_mor_merge": "name",
    "1.2.0-v9/mor_late_overwrite": "name",
    "more/sql_partial_updates2": "name",
}


@pytest.mark.parametrize("name", full_but({"more/secondary_index_cow"}, SECONDARY))
def test_secondary_indexes_have_the_values_of_all_rows(copy: Callable[[str], str], name: str) -> None:
    """As Apache Hudi's index has before; a restore makes them again."""
    history = History(copy(name), 3)
    for step in ("", "upsert", "change", "delete", "overwrite", "cluster", "upsert", "roll back", "upsert"):
        if step == "change":
            history.rows = {key: {**row, "name": f"$\\{row['name']}"} for key, row in history.rows.items()}
            history.step("upsert")
            history.rows = {
                (row["_hoodie_partition_path"], row["_hoodie_record_key"]): {
                    key: value for key, value in row.items() if key[:8] != "_hoodie_"
                }
                for row in api.read_table(history.path).to_pylist()
            }
        elif step:
            history.step(step)
        history.check()
        check_secondary(history.path)


@pytest.mark.parametrize("name", full_but({"1.2.0-v9/mor_logs"}, LOGGED))
def test_secondary_indexes_have_the_values_that_logs_change(copy: Callable[[str], str], name: str) -> None:
    path = copy(name)
    asked = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.enable": "true"}
    service_api.index_table(path, "create", column=LOGGED[name], options=asked)
    check_secondary(path)
    history = History(path, name)
    for _ in range(12):
        history.step(history.chance.choice((*STEPS, "compact")))
        history.check()
        assert mistaken(path) == []
    history.step("upsert")  # which makes it again, after a rollback of what was compacted
    check_secondary(path)
    assert [item.status for item in check_metadata_table(path, True, {})] == ["ok"]


def test_a_secondary_index_of_logs_is_kept(later_indexes: Path, tmp_path: Path) -> None:
    """It has what our writes change. What it lacks of writes of Apache Hudi, a rebuild puts in."""
    path = str(shutil.copytree(later_indexes / "indexes/si_mor/table", tmp_path / "t"))
    there = partitions_of(path)
    assert mistaken(path)
    assert "error" in [item.status for item in check_metadata_table(path, True, {})]
    service_api.index_table(path, "rebuild", ["secondary_index_idx_name", "secondary_index_idx_num"])
    history = History(path, 7)
    for step in ("upsert", "compact", "upsert", "delete"):
        history.step(step)
        history.check()
        assert mistaken(path) == []
    assert partitions_of(path) == there


def check_secondary(path: str) -> None:
    table = Table.open(path)
    metadata = MetadataTable.open(table)
    assert metadata is not None
    (index,) = [name for name in metadata.partitions if name.startswith("secondary_index_")]
    (column,) = index_definitions(table)[index].source_fields
    rows = api.read_table(path)
    wanted = index_keys(pc.cast(rows[column], pa.string()), rows["_hoodie_record_key"])
    found = [metadata.records(item, lambda reader: reader.scan(), []) for item in metadata.slices(index)]
    keys = [key for part in found for key in part[KEY_FIELD].cast(pa.string()).to_pylist()]
    assert sorted(set(map(str, keys))) == sorted(map(str, wanted.to_pylist()))
    by_value = index_definitions(table)[index].version == "V2"
    for value in {value for value in rows[column].to_pylist() if value is not None}:
        there = record_keys(metadata, index, [str(value)], by_value=by_value)
        mine = rows.filter(pc.equal(rows[column], value))["_hoodie_record_key"]
        assert sorted(there) == sorted(map(str, mine.to_pylist()))


def partitions_of(path: str) -> set[str]:
    return set(Table.open(path).properties.metadata_partitions)


def test_indexes_are_made_and_dropped_on_request(copy: Callable[[str], str]) -> None:
    """Logs that are there have statistics, too; what is made of an index goes with it."""
    path = copy("1.2.0-v8/mor_compacted")
    history = History(path, 4)
    history.step("upsert")
    both = {"column_stats", "partition_stats"}
    assert set(service_api.index_table(path, "drop", ["column_stats"]).dropped) == both
    assert partitions_of(path) == {"files"}
    assert not index_definitions(Table.open(path))
    service_api.index_table(path, "create", ["column_stats"])
    with pytest.raises(ConfigError, match="beside writers"):
        service_api.index_table(path, "schedule", ["partition_stats"])
    service_api.index_table(path, "create", ["partition_stats", "record_index", "bloom_filters"])
    definitions = index_definitions(Table.open(path))
    assert definitions.keys() == {"column_stats", "record_index"}
    assert definitions["column_stats"].version == "V1"
    assert {"_hoodie_record_key", "ts"} <= set(definitions["column_stats"].source_fields)
    check_statistics(path)
    check_queries(history, 8)
    for step in ("upsert", "compact", "upsert"):
        history.step(step)
        history.check()
        check_statistics(path)
    service_api.index_table(path, "rebuild")
    check_statistics(path)
    assert partitions_of(path) == {"files", "record_index", "bloom_filters", *both}


def test_a_new_column_is_defined(copy: Callable[[str], str]) -> None:
    path = copy("1.2.0-v9/mdt_full_cow")
    rows = api.read_table(path, meta=False).slice(0, 5)
    before = index_definitions(Table.open(path))["column_stats"].source_fields
    new = rows.append_column("extra", pa.array(range(5), pa.int64()))
    api.write_table(new, path, options=NO_SERVICES)
    assert index_definitions(Table.open(path))["column_stats"].source_fields == (*before, "extra")
    check_statistics(path)
    assert api.read_table(path, where="extra = 3").num_rows == 1


def test_statistics_of_rows_that_are_put_together_go(copy: Callable[[str], str]) -> None:
    """With a warning: no file of such a row has all of its values."""
    path = copy("1.2.0-v9/mor_partial_payload")
    assert "partition_stats" in partitions_of(path)
    rows = api.read_table(path, meta=False).slice(0, 5)
    done = api.write_table(rows, path, options=NO_SERVICES)
    assert partitions_of(path) == {"files"}
    assert not index_definitions(Table.open(path))
    assert any("put together of values of several files" in warning for warning in done.warnings)


def test_indexes_of_sessions_go(copy: Callable[[str], str]) -> None:
    """Those whose results depend on a session: with a warning, their folders and their definitions."""
    path = copy("more/expr_index_cow")
    (index,) = [name for name in partitions_of(path) if name.startswith("expr_index_")]
    done = api.write_table(api.read_table(path, meta=False).slice(0, 5), path, options=NO_SERVICES)
    assert index not in partitions_of(path)
    assert index not in index_definitions(Table.open(path))
    assert not Path(path, ".hoodie/metadata", index).exists()
    assert any(f"the index {index}" in warning for warning in done.warnings)


@pytest.mark.parametrize("index", full_but({"RECORD_LEVEL_INDEX"}, ["RECORD_LEVEL_INDEX", "SIMPLE"]))
def test_a_record_index_of_each_partition_has_all_keys(
    later_indexes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    """Also of a partition that is new, which gets file groups as Apache Hudi's do. The doctor agrees."""
    path = str(shutil.copytree(later_indexes / "indexes/part_rli/table", tmp_path / "t"))
    monkeypatch.setitem(NO_SERVICES, "hoodie.index.type", index)
    definition = index_definitions(Table.open(path))["record_index"]
    history = History(path, index)
    for step in ("upsert", "delete", "upsert", "roll back", "overwrite", "cluster", "upsert", "clean"):
        history.step(step)
        history.check()
        assert misplaced(path) == []
    new = api.read_table(path, meta=False).slice(0, 3)
    places = pa.array(["x_y.z"] * 3)
    new = new.set_column(new.schema.get_field_index("part"), "part", places)
    done = api.write_table(new, path, options=NO_SERVICES)
    assert (done.warnings, done.num_inserts) == ([], 3)
    assert misplaced(path) == []
    folder = Path(path, ".hoodie/metadata/record_index")
    assert len(list(folder.glob(".record-index-x%5Fy%2Ez-*_0-0-0"))) == 1
    assert index_definitions(Table.open(path))["record_index"] == definition
    assert [item.status for item in check_metadata_table(path, True, {})] == ["ok"]


def test_one_of_all_partitions_replaces_that_of_each(later_indexes: Path, tmp_path: Path) -> None:
    """As the setting says."""
    path = str(shutil.copytree(later_indexes / "indexes/part_rli/table", tmp_path / "t"))
    asked = {**NO_SERVICES, "hoodie.metadata.global.record.level.index.enable": "true"}
    api.write_table(api.read_table(path, meta=False).slice(5, 5), path, options=asked)
    assert index_definitions(Table.open(path))["record_index"].options == {"isPartitioned": "false"}
    assert misplaced(path) == []
    found = api.read_table(path, where="id = 'k0022'", options={"hoodie.read.record.index": "true"})
    assert found.num_rows == 1


def test_a_record_index_of_each_partition_without_its_definition_is_not_written(
    later_indexes: Path, tmp_path: Path
) -> None:
    path = str(shutil.copytree(later_indexes / "indexes/part_rli/table", tmp_path / "t"))
    file = Path(path, ".hoodie/.index_defs/index.json")
    file.write_text(file.read_text().replace('"true"', '"false"'))
    rows = api.read_table(path, meta=False).slice(0, 5)
    rows = rows.set_column(0, rows.schema.field(0), pa.array([f"new{number}" for number in range(5)]))
    done = api.write_table(rows, path, options=NO_SERVICES)
    assert any("record index is one of each partition" in warning for warning in done.warnings)
    found = api.read_table(path, where="id = 'k0022'", options={"hoodie.read.record.index": "true"})
    assert found.num_rows == 1
