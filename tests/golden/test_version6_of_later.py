"""Tables of version 6 that Apache Hudi 1.2.0 wrote: their properties have newer names, and some say more."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, HoodieError
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.doctor import check_table
from hoodie.table.features import UnknownProperty
from hoodie.table.properties import TableProperties
from tests.unit.write.support import listing

COMPACT_NOW = {"hoodie.compact.inline.max.delta.commits": 1}
Copy = Callable[[str], str]


@pytest.fixture
def copy(version6_tables: Path, tmp_path: Path) -> Copy:
    def make(name: str) -> str:
        shutil.copytree(version6_tables / name, tmp_path / name)
        return str(tmp_path / name)

    return make


@pytest.fixture
def answers(version6_tables: Path) -> Callable[[str], list[tuple[Any, ...]]]:
    """The rows that Apache Hudi 1.2.0 itself reads."""
    known = json.loads((version6_tables / "answers.json").read_text())
    return lambda name: [tuple(row) for row in known[name]["rows"]]


def rows(path: str, *names: str, **how: Any) -> list[tuple[Any, ...]]:
    found = hoodie.read_table(path, meta=any(name.startswith("_") for name in names), **how)
    chosen = names or tuple(found.column_names)
    return sorted(tuple(row[name] for name in chosen) for row in found.to_pylist())


def with_properties(path: str, **texts: str | None) -> str:
    """The table with other properties; underscores of the names are dots."""
    file = Path(path, ".hoodie/hoodie.properties")
    changes = {name.replace("_", "."): text for name, text in texts.items()}
    kept = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in changes]
    given = [f"{name}={text}" for name, text in changes.items() if text is not None]
    file.write_text("\n".join([*kept, *given]) + "\n")
    return path


def test_late_rows_lose(copy: Copy, answers: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """By the ordering column, whose property has another name: in logs, in an upsert, in a compaction."""
    logs, files = copy("late_mor"), copy("late_cow")
    assert rows(logs) == answers("late_mor")
    late = pa.table({"k": pa.array([1], pa.int32()), "ts": [5], "v": ["late"]})
    hoodie.write_table(late, files)
    assert rows(files) == answers("late_cow")
    hoodie.compact_table(logs, options=COMPACT_NOW)
    assert rows(logs, query="read_optimized") == answers("late_mor")


def test_a_partial_update_takes_the_newer_values(
    copy: Copy, answers: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    assert rows(copy("pay_mor")) == answers("pay_mor")


@pytest.mark.parametrize(
    ("name", "day", "expected"),
    [
        ("tk", 1720631224939, [("1", "2024/07/10", 5, "upd"), ("2", "2024/07/11", 1, "y")]),
        ("tkstr", "2024-07-10", [("1", "202407", 5, "upd"), ("2", "202408", 1, "y")]),
    ],
)
def test_the_key_generator_by_its_type(
    copy: Copy, name: str, day: object, expected: list[tuple[Any, ...]]
) -> None:
    """An upsert finds the row in the partition that the timestamp key generator gives it."""
    path = copy(name)
    given = pa.table({"k": pa.array([1], pa.int32()), "ts": [5], "day": [day], "v": ["upd"]})
    hoodie.write_table(given, path)
    assert rows(path, "_hoodie_record_key", "_hoodie_partition_path", "ts", "v") == expected


def test_a_custom_key_generator_without_its_types_is_refused(copy: Copy) -> None:
    """Apache Hudi 1.2.0 has them in the options of its writers only; with these the write goes on."""
    path = copy("custom")
    given = pa.table(
        {"k": pa.array([1], pa.int32()), "ts": [5], "day": [1720631224939], "c": ["eu"], "v": ["upd"]}
    )
    before = listing(Path(path))
    with pytest.raises(HoodieError, match=r"hoodie\.datasource\.write\.partitionpath\.field"):
        hoodie.write_table(given, path)
    assert listing(Path(path)) == before
    options = {
        "hoodie.datasource.write.partitionpath.field": "c:SIMPLE,day:TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    hoodie.write_table(given, path, options=options)
    expected = [("1", "eu/2024-07-10", 5, "upd"), ("2", "us/2024-07-11", 1, "y")]
    assert rows(path, "_hoodie_record_key", "_hoodie_partition_path", "ts", "v") == expected


def test_statistics_of_floats(copy: Copy) -> None:
    """Those of a file with a NaN are zero and zero: apache/hudi#18754."""
    path = copy("nan_stats")
    for where, expected in (("f = 5.0", [(2,)]), ("f < 0", [(3,)]), ("f = 100", [(11,)])):
        assert rows(path, "k", where=where) == expected
        assert rows(path, "k", where=where, begin="earliest") == expected


def test_the_metadata_table_is_continued(copy: Copy) -> None:
    """Records of 1.2.0 have more types of values than ours: both are read, and compacted."""
    path = copy("nan_stats")
    folder = Path(path, ".hoodie/metadata/.hoodie")
    compacted = len(list(folder.glob("*.commit")))
    every = hoodie.read_table(path, meta=False)
    for number in range(4):
        hoodie.write_table(
            every.slice(number, 1), path, options={"hoodie.metadata.compact.max.delta.commits": "3"}
        )
        for where in ("f = 5.0", "f < 0", "f = 100", "k > 3", "f IS NULL"):
            known = rows(path, "k", where=where, options={"hoodie.metadata.enable": "false"})
            assert rows(path, "k", where=where) == known
    assert len(list(folder.glob("*.commit"))) > compacted


REFUSED: list[dict[str, str | None]] = [
    {"hoodie_table_ordering_fields": "ts,k"},
    {"hoodie_table_ordering_fields": "ts", "hoodie_table_precombine_field": "k"},
    {"hoodie_table_partial_update_mode": "IGNORE_DEFAULTS"},
    {"hoodie_record_merge_property_hoodie_payload_delete_field": "v"},
    {"hoodie_record_merge_mode": "CUSTOM", "hoodie_compaction_payload_class": None},
    {"hoodie_record_merge_mode": "COMMIT_TIME_ORDERING"},
    {"hoodie_record_merge_mode": "NEWEST_FIRST"},
    {"hoodie_record_merge_strategy_id": "1897ef5f-18bc-4557-939c-9d6a8afd1519"},
    {"hoodie_compaction_record_merger_strategy": "00112233-4455-6677-8899-aabbccddeeff"},
    {"hoodie_table_legacy_payload_class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"},
]


@pytest.mark.parametrize("texts", REFUSED, ids=lambda texts: next(iter(texts)))
def test_what_can_not_be_followed_is_refused(copy: Copy, texts: dict[str, str | None]) -> None:
    """By writes, services and reads that merge; reads of what is merged already go on."""
    logs, files = with_properties(copy("late_mor"), **texts), with_properties(copy("late_cow"), **texts)
    name = next(iter(texts)).replace("_", ".")
    before = [listing(Path(path)) for path in (logs, files)]
    late = pa.table({"k": pa.array([1], pa.int32()), "ts": [5], "v": ["late"]})
    for path in (logs, files):
        with pytest.raises(ConfigError, match=f"has {name}"):
            hoodie.write_table(late, path)
    with pytest.raises(ConfigError, match=f"has {name}"):
        hoodie.compact_table(logs, options=COMPACT_NOW)
    with pytest.raises(ConfigError, match=f"has {name}"):
        hoodie.read_table(logs)
    assert [listing(Path(path)) for path in (logs, files)] == before
    assert len(rows(files)) == len(rows(logs, query="read_optimized")) == 2
    assert any(name in str(finding) for finding in check_table(files))


UNKNOWN: list[dict[str, str | None]] = [
    {"hoodie_table_rows_are_secret": "yes"},
    {"hoodie_table_format": "iceberg"},
    {"hoodie_table_multiple_base_file_formats_enable": "true"},
    {"hoodie_table_keygenerator_type": "USER_PROVIDED"},
    {"hoodie_table_keygenerator_type": "OF_2031"},
]


@pytest.mark.parametrize("texts", UNKNOWN, ids=lambda texts: "=".join(*texts.items()))
def test_what_is_not_known_refuses_writes(copy: Copy, texts: dict[str, str | None]) -> None:
    path = with_properties(copy("late_cow"), **texts)
    name = next(iter(texts)).replace("_", ".")
    late = pa.table({"k": pa.array([1], pa.int32()), "ts": [5], "v": ["late"]})
    before = listing(Path(path))
    with pytest.raises(ConfigError, match=f"has {name}"):
        hoodie.write_table(late, path)
    assert listing(Path(path)) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie_table_format", "iceberg"),
        ("hoodie_table_multiple_base_file_formats_enable", "true"),
        ("hoodie_table_base_file_format", "LANCE"),
    ],
)
def test_files_of_other_formats_are_not_left_out_of_queries(copy: Copy, name: str, value: str) -> None:
    path = with_properties(copy("late_cow"), **{name: value})
    said = rf"has {name.replace('_', '.')}={value}, which is not read here yet; read it with Apache Hudi"
    for query in ({}, {"query": "read_optimized"}, {"begin": "earliest"}):
        with pytest.raises(ConfigError, match=said):
            hoodie.read_table(path, **query)  # type: ignore[arg-type]


def test_an_unknown_property_is_a_warning_of_reads(
    copy: Copy, answers: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    path = with_properties(copy("late_cow"), hoodie_table_rows_are_secret="yes")
    with pytest.warns(UnknownProperty, match="has hoodie.table.rows.are.secret=yes"):
        assert rows(path) == answers("late_cow")


def loaded(**texts: str) -> TableProperties:
    given = {name.replace("_", "."): text for name, text in texts.items()}
    return TableProperties({properties.NAME: "t", **given})


def test_what_has_a_newer_name_is_found_by_the_older_one() -> None:
    """The file keeps its own names: an update changes nothing else."""
    commit, event = (f"org.apache.hudi.common.model.{name}" for name in (
        "OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload"
    ))  # fmt: skip
    assert loaded(hoodie_table_ordering_fields=" ts ").precombine_field == "ts"
    assert loaded(hoodie_table_ordering_fields="a,b").precombine_field is None
    for number in ("ce9acb64-bde0-424c-9b91-f6ebba25356d", "CE9ACB64-bde0-424c-9b91-f6ebba25356d"):
        by_commit = {"hoodie_record_merge_strategy_id": number, "hoodie_table_ordering_fields": "ts"}
        assert loaded(**by_commit).precombine_field is None
    assert loaded(hoodie_record_merge_mode="COMMIT_TIME_ORDERING").payload_class == commit
    assert loaded(hoodie_record_merge_mode="EVENT_TIME_ORDERING").payload_class == event
    for number, name in (("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", event),
                         ("ce9acb64-bde0-424c-9b91-f6ebba25356d", commit)):  # fmt: skip
        assert loaded(hoodie_record_merge_strategy_id=number).payload_class == name
    for kind, name in (("SIMPLE", "keygen.SimpleKeyGenerator"),
                       ("COMPLEX_AVRO", "keygen.ComplexKeyGenerator"),
                       ("NON_PARTITION", "keygen.NonpartitionedKeyGenerator"),
                       ("SPARK_SQL", "command.SqlKeyGenerator")):  # fmt: skip
        assert str(loaded(hoodie_table_keygenerator_type=kind).keygenerator_class).endswith(name)
    assert loaded(hoodie_table_ro_file_format="ORC").base_file_format == "ORC"


def test_an_update_of_the_properties_keeps_their_names(copy: Copy) -> None:
    path = copy("late_cow")
    before = properties.load(LocalStorage(), path).texts
    properties.update(LocalStorage(), path, {"hoodie.table.cdc.enabled": "true"})
    after = properties.load(LocalStorage(), path).texts
    assert dict(after) == {**before, "hoodie.table.cdc.enabled": "true"}
    assert "hoodie.table.precombine.field" not in after
