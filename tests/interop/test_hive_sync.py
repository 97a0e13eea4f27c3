"""Entries in Hive's metastore beside those of Apache Hudi's HiveSyncTool; Spark reads both by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.metastore.connection import connected
from scripts import environment
from tests.conftest import require
from tests.support.hudi_client import NOT_INHERITED, bundle_jar, missing

if TYPE_CHECKING:
    from tests.support.metastore.server import Metastore

pytestmark = pytest.mark.full

PROGRAM = Path(__file__).parents[1] / "support" / "metastore" / "spark_program.py"
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "100",
}
BY_DAY = {
    "partition_fields": "day",
    "partition_extractor_class": "org.apache.hudi.hive.HiveStylePartitionValueExtractor",
}
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
TIMES = ("createTime", "transient_lastDdlTime", "dbName")


def rows(version: int) -> pa.Table:
    moment = pa.array([datetime(2026, 1, 1)] * 2, pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "id": ["a", "b"],
            "v": pa.array([version] * 2, pa.int32()),
            "big": pa.array([1, 2], pa.int64()),
            "f": pa.array([1.0, 2.0], pa.float32()),
            "d": [1.5, 2.5],
            "ok": [True, None],
            "bin": [b"x", None],
            "dt": [date(2026, 1, 1)] * 2,
            "ts": moment,
            "dec": pa.array([Decimal("1.25")] * 2, pa.decimal128(10, 2)),
            "tags": [["x"], ["y"]],
            "m": pa.array([[("k", 1)]] * 2, pa.map_(pa.string(), pa.int32())),
            "St": [{"A": 1, "b": [{"c": "z"}]}] * 2,
            "day": ["2026-01-01", "2026-01-02"],
        }
    )


def test_entries_are_those_of_hudis_tool(tmp_path: Path, hivemetastore: Metastore) -> None:
    """All but times, arrays that may hold nulls, and the scheme of a path."""
    lacking = missing("0.15.0")
    require(lacking is None, str(lacking))
    uri = f"thrift://127.0.0.1:{hivemetastore.port}"
    paths = {name: str(tmp_path / name) for name in KINDS}
    for name, kind in KINDS.items():
        for version in (1, 2):
            options = {**OPTIONS, "hoodie.datasource.write.table.type": kind}
            hoodie.write_table(rows(version), paths[name], options=options)
        assert hoodie.sync_table(paths[name], uri, "ours").status == "synced"
    read = by_spark(tmp_path, uri, paths, "0.15.0", BY_DAY, "id, v, day, tags")
    assert read["ours"] == read["theirs"]
    newest = {name: found[0].startswith("Row(id='a', v=2,") for name, found in read["ours"].items()}
    assert newest == {"cow": True, "mor": True, "mor_ro": False, "mor_rt": True}
    for name in read["ours"]:
        assert entry(hivemetastore, "ours", name) == entry(hivemetastore, "theirs", name)
    assert hoodie.sync_table(paths["cow"], uri, "theirs").entries[0]["properties"] == [
        "spark.sql.sources.schema.part.0"
    ]


def by_spark(
    folder: Path,
    uri: str,
    paths: dict[str, str],
    release: str,
    settings: dict[str, str],
    columns: str,
    suffix: str = "",
) -> dict[str, dict[str, list[str]]]:
    """Syncs the tables into the database `theirs`, and reads these columns there and in `ours`."""
    variables = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    variables.update(environment.spark_environment(environment.HUDI))
    python = str(environment.interpreter(environment.HUDI))
    given = [json.dumps(paths), json.dumps(settings), columns, f"ours{suffix},theirs{suffix}"]
    command = [python, str(PROGRAM), uri, str(bundle_jar(release)), *given]
    done = subprocess.run(
        command, env=variables, cwd=folder, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return found


#: tables of versions 8 and 9 that Apache Hudi 1.2.0 wrote
LATER = {
    "cow8": "1.2.0-v8/cow_archived",
    "mor9": "1.2.0-v9/mor_compacted",
    "dropped9": "1.2.0-v9/cow_delete_partition",
}
BY_REGION = {
    "partition_fields": "region",
    "partition_extractor_class": "org.apache.hudi.hive.SinglePartPartitionValueExtractor",
}


def test_entries_of_later_versions_are_those_of_hudis_tool(
    tmp_path: Path, later_tables: Path, hivemetastore: Metastore
) -> None:
    """All but times, arrays that may hold nulls, the scheme of a path, the release that synced."""
    lacking = missing("1.2.0")
    require(lacking is None, str(lacking))
    uri = f"thrift://127.0.0.1:{hivemetastore.port}"
    paths = {name: str(tmp_path / name) for name in LATER}
    for name, at in LATER.items():
        shutil.copytree(later_tables / at / "table", paths[name])
    for name, path in paths.items():
        named = {"hoodie.datasource.hive_sync.table": name}
        assert hoodie.sync_table(path, uri, "ours_later", options=named).status == "synced"
    read = by_spark(tmp_path, uri, paths, "1.2.0", BY_REGION, "id, region", "_later")
    assert read["ours_later"] == read["theirs_later"]
    for name in read["ours_later"]:
        ours, theirs = (
            entry(hivemetastore, database, name, "region=eu") for database in ("ours_later", "theirs_later")
        )
        theirs.pop("/0/parameters/hudi_writer_version", None)
        assert ours == theirs
        assert ours["/0/parameters/last_commit_completion_time_sync"]


def entry(server: Metastore, database: str, name: str, partition: str = "day=2026-01-01") -> dict[str, Any]:
    """The fields of an entry and of one of its partitions, by their places."""
    with connected([("127.0.0.1", server.port)], 60_000, "a test") as ask:
        table = ask(lambda client: client.get_table(database, name))
        parts = ask(lambda client: client.get_partitions_by_names(database, name, [partition]))
    found = dict(fields("", [table, *parts]))
    return {
        place: str(value).replace('"containsNull":false', '"containsNull":true').removeprefix("file:")
        for place, value in found.items()
        if not place.endswith(TIMES)
    }


def fields(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    inside = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if inside is None and isinstance(value, list):
        inside = dict(enumerate(value))
    if inside is None:
        yield place, value
        return
    for name, item in inside.items():
        yield from fields(f"{place}/{name}", item)
