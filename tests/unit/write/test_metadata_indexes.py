"""Statistics of columns and bloom filters in the metadata table of a table that we write."""

from __future__ import annotations

import copy
import random
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.metadata.partitions.column_stats import ColumnStats, column_stats
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.metadata.table import MetadataTable
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from tests.support.metadata import INDEXED, KEPT, disagreements
from tests.support.predicates import SCHEMA, predicate, rows
from tests.support.requests import counted
from tests.support.tiers import full_but
from tests.unit.services.undo_support import COMPACT, COPY_ON_WRITE, MERGE_ON_READ, TYPES, History, changed
from tests.unit.write.support import Templates

STORAGE = LocalStorage()
WHOLE = ("bloom_filters", "column_stats", "files")
CLEAN = {"hoodie.cleaner.commits.retained": "1", "hoodie.clean.max.commits": "0", **KEPT}
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "2"}
WITHOUT = {"hoodie.metadata.enable": "false"}
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.table.services.enabled": "false",
    **INDEXED,
}


def made(path: Path, kind: str, versions: int = 3, options: dict[str, Any] = INDEXED) -> History:
    return changed(path, kind, versions, options)


@pytest.fixture(params=TYPES)
def history(request: pytest.FixtureRequest, tmp_path: Path, templates: Templates) -> History:
    return templates.copy(tmp_path / "t", made, request.param)


#: what is kept of a table with logs, too, shows what is kept of one without
MOSTLY = pytest.mark.parametrize("history", full_but({MERGE_ON_READ}, TYPES), indirect=True)


def partitions(history: History) -> tuple[str, ...]:
    return properties.load(STORAGE, str(history.path)).metadata_partitions


def agrees(history: History, whole: tuple[str, ...] = WHOLE) -> None:
    """Versions 8 and 9 have statistics of partitions beside those of columns."""
    if "column_stats" in whole and hoodie.Table(history.path).version > 6:
        whole = (*whole, "partition_stats")
    assert partitions(history) == whole
    assert disagreements(history.path) == []


def stats_of(path: str | Path, column: str) -> dict[str, ColumnStats]:
    """Of the files of the table that have any."""
    table = Table.open(str(path))
    metadata = MetadataTable.open(table)
    assert metadata is not None
    listing = table.listing()
    files = [(name, item.name) for name in listing.partitions() for item in listing.files(name)]
    found = column_stats(metadata, [column], files)
    return {file[1]: stats for (file, _), (stats,) in found.items()}


@MOSTLY
def test_a_new_table_has_them(history: History) -> None:
    agrees(history)
    found = stats_of(history.path, "id")
    names = {path.name for path in history.path.rglob("*.parquet") if ".hoodie" not in path.parts}
    logs = {path.name for path in history.path.rglob(".*.log.*") if ".hoodie" not in path.parts}
    assert found.keys() == names | logs
    assert all(stats.true for stats in found.values())
    assert bool(logs) == (history.kind == MERGE_ON_READ)


@pytest.mark.table_version(6)
def test_a_table_that_is_there_gets_them(tmp_path: Path) -> None:
    """Also one whose metadata table has the list of files alone. Its log files have no statistics."""
    history = made(tmp_path / "t", MERGE_ON_READ, 3, KEPT)
    history.options = {**history.options, **INDEXED}
    last = history.commits()[-1]
    history.change(4)
    agrees(history)
    times = {instant.time for instant in Timeline.load(f"{history.path}/.hoodie/metadata", STORAGE)}
    assert {f"{last}010", f"{last}011"} & times
    history.check()


@pytest.mark.table_version(6)
@MOSTLY
def test_unset_they_are_kept_and_false_drops_one(history: History) -> None:
    history.options = {name: text for name, text in history.options.items() if "index" not in name} | KEPT
    history.change(4)
    agrees(history)
    history.options = {**history.options, "hoodie.metadata.index.column.stats.enable": "false"}
    history.change(5)
    agrees(history, ("bloom_filters", "files"))
    assert not (history.path / ".hoodie/metadata/column_stats").exists()
    history.options = {**history.options, **INDEXED}
    history.change(6)
    agrees(history)


def test_an_index_without_the_metadata_table_is_refused(tmp_path: Path) -> None:
    off = {**INDEXED, "hoodie.metadata.enable": "false"}
    with pytest.raises(ConfigError, match="is a part of the metadata table"):
        made(tmp_path / "t", COPY_ON_WRITE, 1, off)


def test_bloom_filters_are_of_the_record_key(tmp_path: Path) -> None:
    named = {**INDEXED, "hoodie.metadata.index.bloom.filter.column.list": "id"}
    with pytest.raises(ConfigError, match="record key"):
        made(tmp_path / "t", COPY_ON_WRITE, 1, named)


def test_cleaned_files_have_none(tmp_path: Path) -> None:
    history = made(tmp_path / "t", COPY_ON_WRITE)
    before = set(stats_of(history.path, "id"))
    assert hoodie.clean_table(str(history.path), options=CLEAN).num_files > 0
    agrees(history)
    assert set(stats_of(history.path, "id")) < before


def test_a_compaction_and_a_clustering(tmp_path: Path, templates: Templates) -> None:
    history = templates.copy(tmp_path / "t", made, MERGE_ON_READ)
    hoodie.compact_table(str(history.path), options={**COMPACT, **KEPT})
    agrees(history)
    history.change(4)
    hoodie.cluster_table(str(history.path), options=KEPT)
    agrees(history)
    history.check()


@pytest.mark.table_version(6)
@pytest.mark.parametrize("compacted", full_but({True}, [False, True]))
def test_a_rollback(tmp_path: Path, compacted: bool) -> None:
    """The next log file has the name of one that was rolled back, and statistics of its own."""
    history = made(tmp_path / "t", MERGE_ON_READ, 3, {**INDEXED, **OFTEN})
    last = history.commits()[-1]
    if compacted:
        history.write([])
        last = history.change(5)
        assert list((history.path / ".hoodie/metadata/.hoodie").glob("*001.commit"))
    hoodie.rollback_table(str(history.path), last, options=KEPT)
    agrees(history)
    history.model = copy.deepcopy(history.states[history.commits()[-1]])
    for version in (6, 7):
        history.change(version)
        agrees(history)
    history.check()


@pytest.mark.table_version(6)
@MOSTLY
def test_its_own_compaction(history: History) -> None:
    history.options = {**history.options, **OFTEN}
    for version in (4, 5):
        history.change(version)
        agrees(history)
    folder = history.path / ".hoodie/metadata"
    for name in WHOLE:
        assert list((folder / name).glob("*001.hfile"))
    assert all(stats.true for stats in stats_of(history.path, "id").values())


def test_each_footer_is_read_once(tmp_path: Path) -> None:
    """For both indexes."""
    found = list[int]()
    for options in (KEPT, INDEXED):
        history = made(tmp_path / str(len(found)), COPY_ON_WRITE, 1, options)
        with counted(str(history.path)) as requests:
            instant = history.change(2)
        names = [path for name, path, _ in requests.calls if name == "open_input"]
        found.append(sum(path.endswith(f"{instant}.parquet") for path in names))
    new = len(list(history.path.rglob(f"*{instant}.parquet")))
    assert new > 1
    assert found[1] - found[0] == new


@pytest.mark.table_version(6)
def test_a_file_without_bounds_of_a_column_has_no_statistics(tmp_path: Path) -> None:
    """Apache Hudi would take the column for one of nulls."""
    path = str(tmp_path / "t")

    def write(start: int, number: int) -> None:
        numbers = pa.array([Decimal(number)], pa.decimal128(38, 0))
        given = pa.table({"id": [f"k{start}"], "part": ["p"], "ts": [1], "c": numbers})
        hoodie.write_table(given, path, operation="insert", options=OPTIONS)

    write(0, 10**37)
    write(1, 7)
    assert disagreements(path) == []
    assert len(stats_of(path, "c")) == len(stats_of(path, "id")) == 1
    for where in ("c = 7", f"c = CAST('{10**37}' AS DECIMAL(38, 0)) AND id = 'k0'"):
        assert hoodie.read_table(path, where=where).num_rows == 1


def test_texts_that_footers_leave_out_are_bounded(tmp_path: Path) -> None:
    """By a shorter text below and above."""
    path, high = str(tmp_path / "t"), "\U0001f600" * 5000
    texts = ["x" * 5000, None, high, "y"]
    for start in (0, 2):
        given = {"id": [f"k{start}", f"k{start + 1}"], "part": ["p"] * 2, "ts": [1] * 2}
        rows_ = pa.table({**given, "text": pa.array(texts[start : start + 2], pa.string())})
        hoodie.write_table(rows_, path, operation="insert", options=OPTIONS)
    assert disagreements(path) == []
    bounds = sorted((stats.low, stats.high, stats.nulls) for stats in stats_of(path, "text").values())
    assert bounds == [
        ("x" * 1024, "x" * 1023 + "y", 1),
        ("y", "\U0001f600" * 1023 + "\U0001f601", 0),
    ]
    for where, files in (
        (f"text = '{texts[0]}'", 1),
        (f"text = '{high}'", 1),
        ("text = 'z'", 1),
        ("text < 'a'", 2),
    ):
        explained = hoodie.explain_read(path, where=where)
        assert {step.step: step.files for step in explained.steps}["column stats"] == files
        assert hoodie.read_table(path, where=where).num_rows == (
            1 if "'z'" not in where and "<" not in where else 0
        )


def test_some_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    nested = pa.array([{"a": number} for number in range(5)])
    given = pa.table({"id": list("abcde"), "part": ["p"] * 5, "ts": [1] * 5, "s": nested})
    columns = {"hoodie.metadata.index.column.stats.column.list": "ts, s.a"}
    hoodie.write_table(given, path, options={**OPTIONS, **columns})
    assert len(stats_of(path, "ts")) == 1
    assert stats_of(path, "id") == {}
    (stats,) = stats_of(path, "s.a").values()
    assert (stats.low, stats.high) == (0, 4)


@pytest.mark.table_version(6)
def test_logs_of_partial_updates_have_none(tmp_path: Path) -> None:
    """Apache Hudi would not find a row that is put together of values of several files."""
    partial = {"hoodie.datasource.write.payload.class": "PartialUpdateAvroPayload"}
    history = made(tmp_path / "t", MERGE_ON_READ, 2, {**INDEXED, **partial})
    assert disagreements(history.path) == []
    found = stats_of(history.path, "id")
    assert found
    assert all(name.endswith(".parquet") for name in found)


def batch(seed: int, ids: range, ts: int) -> pa.Table:
    made_rows = rows(random.Random(seed), len(ids))
    given = {
        "id": pa.array([f"k{number:04d}" for number in ids]),
        "part": pa.array([f"p{number % 2}" for number in ids]),
        "ts": pa.array([ts] * len(ids), pa.int64()),
    }
    return pa.table({**given, **{name: made_rows.column(name) for name in SCHEMA.names}})


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("kind", TYPES)
def test_answers_with_and_without(tmp_path: Path, kind: str, seed: int) -> None:
    """Random rows of odd values, in many small files and logs, with a compaction of the metadata table."""
    path, pick = str(tmp_path / "t"), random.Random(seed)
    options = {**OPTIONS, **OFTEN, "hoodie.datasource.write.table.type": kind}
    for number in range(4):
        given = batch(seed * 100 + number, range(number * 9, number * 9 + 9), 1)
        hoodie.write_table(given, path, operation="insert", options=options)
    hoodie.write_table(batch(seed * 100 + 9, range(0, 36, 4), 2), path, options=options)
    hoodie.write_table(batch(seed * 100 + 10, range(1, 36, 9), 3), path, operation="delete", options=options)
    assert disagreements(path) == []
    found = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", MetadataTableIgnored)
        for _ in range(12):
            where = predicate(pick)
            with_it, without = (
                sorted(hoodie.read_table(path, where=where, columns=["id"], options=more)["id"].to_pylist())
                for more in ({}, WITHOUT)
            )
            assert with_it == without, where
            found += len(with_it)
    assert found


def test_long_files_are_left_out_by_texts_and_numbers(tmp_path: Path) -> None:
    """What Apache Hudi says of them is not believed, what we say is."""
    path = str(tmp_path / "t")
    for number in range(3):
        names = [f"{number}-{place:05d}" for place in range(500)]
        floats = [float(number * 1000 + place) for place in range(500)]
        given = pa.table({"id": names, "part": ["p"] * 500, "ts": [1] * 500, "text": names, "x": floats})
        hoodie.write_table(given, path, operation="insert", options=OPTIONS)
    for where in ("text = '1-00007'", "x = 1007.0"):
        explained = hoodie.explain_read(path, where=where)
        assert {step.step: step.files for step in explained.steps}["column stats"] == 2
        assert hoodie.read_table(path, where=where).num_rows == 1
