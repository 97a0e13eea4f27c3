"""Apache Hudi 1.2.0 takes a table of ours, with everything that we write to a timeline, to version 9."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.codec.avro import JAVA_STRING
from hoodie.errors import HalfUpgraded, UnsupportedVersion
from hoodie.format.log_block import HeaderKey, encode_block
from hoodie.format.log_file import LogFileReader
from hoodie.timeline.archive.log_archive import LogArchive
from hoodie.timeline.instant import COMMIT_ACTIONS, Action
from tests.interop.test_services import failed
from tests.support.archives import archive_folder
from tests.support.hudi_client import HudiError, HudiServer
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.shared_table import KEYS, OFF, STORAGE, TYPE, TYPES, Table
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = pytest.mark.interop

CLEAN: dict[str, Any] = {"hoodie.cleaner.commits.retained": 1, "hoodie.clean.max.commits": 0}
ARCHIVE: dict[str, Any] = {
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
}
CLUSTER: dict[str, Any] = {
    "hoodie.clustering.inline.max.commits": 1,
    "hoodie.clustering.plan.strategy.sort.columns": "id",
}
UPGRADE = {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"}


def written(table: Table) -> None:
    """Every action that we know, so often that the archiver takes some of each."""
    path = str(table.path)
    for first in (0, 4, 8):
        table.ours(first, OFF)
        for version in (first + 1, first + 2):
            failed(table, 30)
            table.ours(version, OFF)
            if table.kind == "MERGE_ON_READ":
                hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": 1})
            hoodie.clean_table(path, options=CLEAN)
        overwritten(table, first + 3)
        assert hoodie.cluster_table(path, options=CLUSTER).clustered
    hoodie.savepoint_table(path)
    for version in (12, 13, 14):
        table.ours(version, OFF)
    hoodie.archive_table(path, options=ARCHIVE)
    archived = {item.action for item in table.archived() if item.completed}
    assert archived >= {Action.COMMIT, Action.REPLACECOMMIT, Action.CLEAN, Action.ROLLBACK}


def overwritten(table: Table, version: int) -> None:
    """All rows of a partition replaced: a replacecommit."""
    rows = [row for row in small_rows(range(60, 90), version) if row["region"] == "eu"]
    hoodie.write_table(
        as_table(rows, SMALL_SCHEMA),
        str(table.path),
        operation="insert_overwrite",
        options={**KEYS, **OFF, TYPE: table.kind},
    )
    table.model.insert_overwrite(rows)


@contextmanager
def upgrading(server: HudiServer) -> Iterator[None]:
    """The session as it is by default, not kept at version 6."""
    kept = {row["key"]: row["value"] for row in server.sql("set") if row["key"] in UPGRADE}
    for name in kept:
        server.sql(f"reset {name}")
    try:
        yield
    finally:
        for name, value in kept.items():
            server.sql(f"set {name}={value}")


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_upgrades_a_table_with_all_that_we_write(
    tmp_path: Path, kind: str, hudi_12: HudiServer
) -> None:
    table = Table(tmp_path / f"upgraded_{kind.lower()}", kind)
    written(table)
    archived = shown(hudi_12, table)
    done = [item for item in table.archived() if item.completed]
    assert archived == {item.time for item in done if item.action in COMMIT_ACTIONS}
    with upgrading(hudi_12):
        table.theirs(hudi_12, 15, {**OFF, **UPGRADE})
        assert shown(hudi_12, table) == archived
        table.theirs(hudi_12, 16, {**OFF, **UPGRADE})
    with pytest.raises(UnsupportedVersion) as raised:
        hoodie.clean_table(str(table.path))
    assert raised.value.values["version"] == 9
    expected = table.model.table(SMALL_SCHEMA)
    assert_same_rows(hoodie.read_table(str(table.path)), expected, what="this package")
    assert_same_rows(hudi_12.read(table.path), expected, what="Hudi 1.2.0")
    assert_same_rows(read_hudi_rs(table.path), expected, what="hudi-rs")


@pytest.mark.full
def test_an_upgrade_that_failed_half_way_is_named_and_finished(tmp_path: Path, hudi_12: HudiServer) -> None:
    """Over an archive without the property of Java's strings."""
    table = Table(tmp_path / "half_upgraded", "COPY_ON_WRITE")
    written(table)
    sound = _unloadable(table.path)
    with upgrading(hudi_12):
        with pytest.raises(HudiError, match="Failed to upgrade to LSM timeline"):
            table.theirs(hudi_12, 15, {**OFF, **UPGRADE})
        with pytest.raises(HalfUpgraded, match=r"finish the upgrade"):
            hoodie.read_table(str(table.path))
        for path, data in sound.items():
            STORAGE.write(path, data)
        table.theirs(hudi_12, 15, {**OFF, **UPGRADE})
    assert_same_rows(hudi_12.read(table.path), table.model.table(SMALL_SCHEMA), what="Hudi 1.2.0")


def shown(server: HudiServer, table: Table) -> set[str]:
    """The archived commits that Apache Hudi loads."""
    years = {"start_ts": "20200101000000000", "end_ts": "20990101000000000"}
    rows = server.call("show_archived_commits", table=table.known_as(server), limit=100, **years)
    return {str(row["commit_time"]) for row in rows}


def _without_property(schema: Any) -> Any:
    """A schema as JSON values without the property of Java's strings."""
    if isinstance(schema, list):
        return [_without_property(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _without_property(item) for name, item in schema.items() if name != JAVA_STRING}


def _unloadable(table: Path) -> dict[str, bytes]:
    """Make all archive files of a table such that Apache Hudi 1.x can't load them; as they were, by path."""
    files = LogArchive(STORAGE, archive_folder(str(table))).files()
    before = {item.path: STORAGE.read(item.path) for item in files}
    for item in files:
        pieces: list[bytes] = []
        with LogFileReader(STORAGE, item.path) as reader:
            for block in reader.blocks():
                schema = _without_property(json.loads(block.schema_text or ""))
                headers = {**block.headers, HeaderKey.SCHEMA: json.dumps(schema, separators=(",", ":"))}
                pieces += map(bytes, encode_block(block.type, headers, reader.content(block)))
        STORAGE.write(item.path, b"".join(pieces))
    return before
