"""Deletes and overwrites between us and Apache Hudi: each goes on where the other replaced files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.timeline.instant import Action
from tests.support.faults import die_at
from tests.support.hudi_client import HudiServer
from tests.support.rows import assert_same_rows
from tests.support.shared_table import KEYS, OFF, PAYLOAD, TYPE, TYPES, Table
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows

pytestmark = pytest.mark.interop

PARTITIONS = "hoodie.datasource.write.partitions.to.delete"
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
KEY_SCHEMA = SMALL_SCHEMA.empty_table().select(["id", "region"]).schema


class Operated(Table):
    """A table that both write with any operation; the model gets the same."""

    def we(self, operation: str, rows: list[Row]) -> Any:
        schema = KEY_SCHEMA if operation == "delete" else SMALL_SCHEMA
        options = {**KEYS, **OFF, TYPE: self.kind}
        result = hoodie.write_table(
            as_table(rows, schema), str(self.path), operation=operation, options=options
        )
        getattr(self.model, operation)(rows)
        return result

    def fail(self, operation: str, rows: list[Row]) -> str:
        """A write of ours that dies when its files are there; its instant."""
        options = {**KEYS, **OFF, TYPE: self.kind}
        die_at(
            self.path,
            lambda path: hoodie.write_table(
                as_table(rows, SMALL_SCHEMA), path, operation=operation, options=options
            ),
            lambda change: change.name == "create" and change.path.endswith(".replacecommit"),
        )
        (pending,) = self.timeline().pending()
        return str(pending.time)

    def they(self, server: HudiServer, operation: str, rows: list[Row], **more: str) -> None:
        settings = {
            **KEYS,
            **OFF,
            TYPE: self.kind,
            "hoodie.table.name": self.path.name,
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.payload.class": PAYLOAD,
            "hoodie.metadata.enable": "false",
            "hoodie.combine.before.insert": "false",
            **more,
        }
        texts = {name: str(value) for name, value in settings.items()}
        server.write(self.path, as_table(rows, SMALL_SCHEMA), texts, operation=operation)
        if operation != "delete_partition":
            getattr(self.model, operation)(rows)

    def drop(self, *regions: str) -> Any:
        result = hoodie.delete_partitions(str(self.path), regions, options=OFF)
        self.model.delete_partitions({(region,) for region in regions})
        return result


def of_region(rows: list[Row], *regions: str) -> list[Row]:
    return [row for row in rows if row["region"] in regions]


@pytest.mark.full
def test_deletes_in_turns(tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    """Also rows that come after a delete and are older than what it deleted."""
    table, servers = Operated(tmp_path / "deleted", "MERGE_ON_READ"), (hudi_015, hudi_12)
    table.we("upsert", small_rows(range(60), 5))
    table.we("upsert", small_rows(range(0, 60, 2), 6))
    assert table.we("delete", small_rows([*range(30), 500], 1)).num_missing == 1
    table.we("upsert", small_rows(range(10), 2))
    table.check("late rows of ours", servers)
    table.they(hudi_015, "delete", small_rows(range(5, 40), 1))
    table.we("upsert", small_rows(range(20, 45), 3))
    table.check("late rows of ours after their delete", servers)
    table.they(hudi_015, "upsert", small_rows(range(30), 8))
    table.we("delete", small_rows(range(25, 50), 1))
    hoodie.compact_table(str(table.path), options={"hoodie.compact.inline.max.delta.commits": 1})
    table.check("we deleted what they wrote, and compacted", servers)


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_overwrites_in_turns(tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    table, servers = Operated(tmp_path / f"overwritten_{kind.lower()}", kind), (hudi_015, hudi_12)
    table.we("upsert", small_rows(range(60), 5))
    table.we("upsert", small_rows(range(0, 60, 2), 6))
    first = table.we("insert_overwrite", of_region(small_rows(range(100, 160), 1), "eu")).instant
    table.check("we overwrote a partition", servers)
    table.they(hudi_015, "upsert", small_rows(range(90, 130), 7))
    table.we("delete", small_rows(range(110, 120), 1))
    table.they(hudi_015, "insert_overwrite", of_region(small_rows(range(200, 230), 1), "us"))
    table.we("upsert", small_rows(range(190, 220), 8))
    last = table.drop("apac").instant
    table.check("we deleted a partition", servers)
    for begin, end in ((first, last), (min(table.commits()), first)):
        theirs = hudi_015.read_incremental(table.path, begin=begin, end=end)
        ours = hoodie.read_table(str(table.path), begin=begin, end=end)
        assert_same_rows(ours, theirs, meta=True, what=f"{begin} to {end}")
    as_of = hoodie.read_table(str(table.path), as_of=first)
    assert_same_rows(as_of, hudi_015.read_as_of(table.path, first), meta=True)
    table.they(hudi_015, "upsert", small_rows(range(30), 8))
    table.they(hudi_015, "delete_partition", small_rows([], 1), **{PARTITIONS: "u*"})
    table.model.delete_partitions({("us",)})
    table.we("upsert", small_rows(range(0, 40, 3), 9) + small_rows(range(1, 40, 3), 9))
    table.check("they deleted a partition", (hudi_015,))
    table.we("insert_overwrite_table", of_region(small_rows(range(300, 330), 1), "eu", "us"))
    table.they(hudi_015, "upsert", small_rows(range(310, 340), 2))
    table.check("we overwrote all", (hudi_12,))
    table.they(hudi_015, "insert_overwrite_table", small_rows(range(400, 430), 1))
    table.we("upsert", small_rows(range(420, 440), 2))
    table.check("they overwrote all", (hudi_015,))


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_reads_what_a_partition_ttl_left(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    table, servers = Operated(tmp_path / f"expired_{kind.lower()}", kind), (hudi_015, hudi_12)
    table.we("upsert", small_rows(range(60), 5))
    for region in ("eu", "us"):
        (table.path / region / ".hoodie_partition_metadata").write_text(
            "#partition metadata\ncommitTime=20200101000000000\npartitionDepth=1\n"
        )
    old = {
        "hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME",
        "hoodie.partition.ttl.strategy.days.retain": "30",
    }
    done = hoodie.expire_partitions(str(table.path), options={**OFF, **old})
    assert done.partitions == ["eu", "us"]
    table.model.delete_partitions({("eu",), ("us",)})
    table.check("partitions over their time", servers)
    assert hudi_015.timeline(table.path)[done.instant] == "DELETE_PARTITION"
    table.they(hudi_015, "upsert", small_rows(range(30), 8))
    table.check("they wrote to one of them again", servers)


@pytest.mark.full
def test_apache_hudi_shows_cleans_and_archives_our_replacecommits(
    tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    table = Operated(tmp_path / "serviced", "COPY_ON_WRITE")
    table.we("upsert", small_rows(range(60), 1))
    replaced = [*(table.path / "eu").glob("*.parquet"), *(table.path / "us").glob("*.parquet")]
    table.drop("us")
    table.we("insert_overwrite", of_region(small_rows(range(60), 2), "eu"))
    for version in range(3, 8):
        table.we("upsert", of_region(small_rows(range(60), version), "apac"))
    failed = table.fail("insert_overwrite", of_region(small_rows(range(60), 9), "apac"))
    table.they(hudi_015, "upsert", of_region(small_rows(range(5), 8), "apac"))
    assert not list(table.path.glob(f".hoodie/{failed}*")), "they rolled our failed overwrite back"
    assert not list(table.path.glob(f"*/*{failed}.parquet"))
    name = table.known_as(hudi_015)
    shown = {row["commit_time"]: row for row in hudi_015.call("show_commits", table=name, limit=50)}
    assert set(shown) == table.commits()
    operations = hudi_015.timeline(table.path)
    assert list(operations.values()).count("DELETE_PARTITION") == 1
    assert list(operations.values()).count("INSERT_OVERWRITE") == 1
    hudi_015.call("run_clean", table=name, retain_commits=1)
    assert not any(file.exists() for file in replaced)
    table.we("upsert", of_region(small_rows(range(60), 8), "apac"))
    hoodie.index_table(str(table.path), "drop")
    settings = {"min_commits": 2, "max_commits": 3, "retain_commits": 1, "enable_metadata": False}
    hudi_015.call("archive_commits", table=name, **settings)
    assert table.timeline().filter([Action.REPLACECOMMIT]) == []
    assert [item.action for item in table.archived() if item.completed].count(Action.REPLACECOMMIT) == 2
    table.we("upsert", small_rows(range(0, 60, 3), 9))
    table.check("serviced and written", (hudi_015, hudi_12))


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_deletes_from_a_table_of_the_bucket_index(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """Without the index rows are refused; the groups that we delete from keep their numbers."""
    table, bucket = Operated(tmp_path / f"bucket_{kind.lower()}", kind), dict(BUCKET)
    table.they(hudi_015, "upsert", small_rows(range(60), 5), **bucket)
    with pytest.raises(ConfigError, match="BUCKET index"):
        table.we("upsert", small_rows([1, 100], 6))
    assert table.we("delete", small_rows([*range(20), 500], 6)).num_missing == 1
    table.check("we deleted", (hudi_015,))
    table.they(hudi_015, "upsert", small_rows(range(10, 80), 7), **bucket)
    table.check("they put some back", (hudi_015,))
