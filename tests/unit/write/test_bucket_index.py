"""What makes a table one of the BUCKET index, and what only looks like it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.format import names
from hoodie.timeline.active import Timeline

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
}


def rows(*days: str) -> pa.Table:
    return pa.table({"id": [f"k{number}" for number in range(len(days))], "day": list(days)})


def renumbered(table: Path, *prefixes: str) -> None:
    """File ids that begin with these digits, one a file: as Apache Hudi may have drawn, or counted, them."""
    for path, prefix in zip(sorted(table.glob("*/*.parquet")), prefixes, strict=True):
        old = path.name.partition("_")[0]
        new = prefix + old[8:]
        path.rename(path.with_name(path.name.replace(old, new)))
        for commit in (table / ".hoodie").glob("*.commit"):
            commit.write_text(commit.read_text().replace(old, new))


@pytest.mark.parametrize("prefixes", [["31415926"], ["00012345"], ["00000001", "deadbeef", "0badcafe"]])
def test_uuids_that_begin_with_digits_by_chance_are_no_buckets(tmp_path: Path, prefixes: list[str]) -> None:
    table, there = tmp_path / "t", rows(*(f"d{number}" for number in range(len(prefixes))))
    hoodie.write_table(there, str(table), options=OPTIONS)
    renumbered(table, *prefixes)
    assert hoodie.write_table(there, str(table)).num_updates == len(prefixes)
    for operation in ("insert", "bulk_insert", "insert_overwrite"):
        hoodie.write_table(rows("d0", "new"), str(table), operation=operation)


def test_files_of_one_bulk_insert_share_their_uuid_and_are_no_buckets(tmp_path: Path) -> None:
    """As Apache Hudi names them, in one partition or several."""
    table, there = tmp_path / "t", rows("d0", "d1", "d2")
    hoodie.write_table(there, str(table), options=OPTIONS)
    for number, path in enumerate(sorted(table.glob("*/*.parquet"))):
        old, new = path.name.partition("_")[0], f"07687416-a6f3-49fd-878a-59e289647448-{number}"
        path.rename(path.with_name(path.name.replace(old, new)))
        for commit in (table / ".hoodie").glob("*.commit"):
            commit.write_text(commit.read_text().replace(old, new))
    assert hoodie.write_table(there, str(table)).num_updates == 3


@pytest.mark.parametrize("prefixes", [["00000000"], ["00000255"], ["00000003", "00000001"], ["12345678"] * 4])
def test_bucket_numbers_are_told_from_chance(tmp_path: Path, prefixes: list[str]) -> None:
    table, there = tmp_path / "t", rows(*(f"d{number}" for number in range(len(prefixes))))
    hoodie.write_table(there, str(table), options=OPTIONS)
    renumbered(table, *prefixes)
    for operation in ("upsert", "insert", "bulk_insert"):
        with pytest.raises(ConfigError, match="BUCKET index"):
            hoodie.write_table(rows("new"), str(table), operation=operation)


def test_a_hash_ring_tells_a_consistent_bucket_index(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(rows("d0"), str(table), options=OPTIONS)
    ring = table / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata"
    ring.mkdir(parents=True)
    hoodie.write_table(rows("d0"), str(table))
    (ring / "d0").mkdir()
    with pytest.raises(ConfigError, match="hash ring"):
        hoodie.write_table(rows("d0"), str(table))
    hoodie.write_table(rows("d0"), str(table), operation="delete")


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
def test_a_bucket_index_that_is_asked_for_is_refused(tmp_path: Path, operation: str) -> None:
    options = {**OPTIONS, "hoodie.index.type": "BUCKET"}
    with pytest.raises(ConfigError, match="type=BUCKET"):
        hoodie.write_table(rows("d0"), str(tmp_path / "t"), operation=operation, options=options)
    assert not (tmp_path / "t").exists()


def test_a_bucket_index_that_the_table_names_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(rows("d0"), str(table), options=OPTIONS)
    with (table / ".hoodie" / "hoodie.properties").open("a") as file:
        file.write("hoodie.index.type=BUCKET\n")
    with pytest.raises(ConfigError, match="BUCKET index"):
        hoodie.write_table(rows("d0"), str(table), operation="insert")


def test_our_file_ids_never_begin_like_bucket_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([uuid.UUID(int=0x31415926 << 96), uuid.UUID(int=0xA1415926 << 96)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(drawn))
    assert names.new_file_id().startswith("a1415926-")


def test_looking_for_buckets_lists_no_other_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t"
    hoodie.write_table(rows("d0", "d1"), str(table), options=OPTIONS)
    monkeypatch.setattr("hoodie.table.listing.StorageListing.partitions", pytest.fail)
    hoodie.write_table(rows("d0"), str(table))
    assert Timeline.load(str(table)).holds("hoodie.properties")
