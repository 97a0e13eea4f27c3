"""Tables of the BUCKET index: what makes a table one, writing them, and what is refused."""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, TableError, TableMismatch
from hoodie.format import names
from hoodie.index.bucket import BucketIndex
from hoodie.index.locations import KeySearch
from hoodie.timeline.active import Timeline
from tests.support.rows import assert_same_rows
from tests.support.stores import timeline_at
from tests.support.tiers import full_but

OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
}
BUCKET: dict[str, Any] = {
    **OPTIONS,
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": 4,
    "hoodie.datasource.write.precombine.field": "ts",
}
TYPE = "hoodie.datasource.write.table.type"
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def rows(*days: str) -> pa.Table:
    return pa.table({"id": [f"k{number}" for number in range(len(days))], "day": list(days)})


def rename(table: Path, file: Path, old: str, new: str) -> None:
    """A file and what its commit says of it; lengths in commits stay as they are."""
    assert len(old) == len(new)
    file.rename(file.with_name(file.name.replace(old, new)))
    for commit in timeline_at(table).glob("*.commit"):
        commit.write_bytes(commit.read_bytes().replace(old.encode(), new.encode()))


def renumbered(table: Path, *prefixes: str) -> None:
    """File ids that begin with these digits, one a file: as Apache Hudi may have drawn, or counted, them."""
    for path, prefix in zip(sorted(table.glob("*/*.parquet")), prefixes, strict=True):
        old = path.name.partition("_")[0]
        new = prefix + old[8:]
        rename(table, path, old, new)


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
        rename(table, path, old, new)
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


def test_a_bucket_index_that_a_table_without_buckets_names_is_refused(tmp_path: Path) -> None:
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


def keyed(*keys: int, day: str = "d0", ts: int = 1) -> pa.Table:
    values = {"id": [f"k{key}" for key in keys], "day": [day] * len(keys), "ts": [ts] * len(keys)}
    return pa.table({**values, "val": [key * ts for key in keys]})


def put(table: Path, incoming: pa.Table, operation: Any = "upsert", **more: Any) -> Any:
    return hoodie.write_table(incoming, str(table), operation=operation, options={**BUCKET, **more})


def numbers(table: Path) -> dict[str, list[str]]:
    """The numbers of the file groups that are read, by partition."""
    found: dict[str, list[str]] = {}
    for group in hoodie.file_groups(str(table)):
        found.setdefault(group["partition"], []).append(group["file_id"][:8])
    return found


def assert_placed(table: Path, expected: pa.Table, buckets: int = 4) -> None:
    """The rows, each in the file group of its key's hash, of which there is one."""
    rows = hoodie.read_table(str(table), meta=True)
    assert_same_rows(rows.select(expected.column_names), expected)
    placed = BucketIndex(buckets, ("id",)).place("", rows.column("_hoodie_record_key").combine_chunks())
    files = [name[:8] for name in rows.column("_hoodie_file_name").to_pylist()]
    assert files == [f"{number:08d}" for number in placed.tolist()]
    assert all(len(found) == len(set(found)) for found in numbers(table).values())


@pytest.mark.parametrize("kind", full_but({"MERGE_ON_READ"}, TYPES))
def test_every_operation_puts_rows_into_their_buckets(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the settings of file sizes, and without a look at stored keys."""
    monkeypatch.setattr(KeySearch, "look", pytest.fail)
    table, sizes = (
        tmp_path / "t",
        {"hoodie.parquet.max.file.size": 1000, "hoodie.parquet.small.file.limit": 0},
    )
    put(table, keyed(*range(100)), "bulk_insert", **{TYPE: kind}, **sizes)
    assert_placed(table, keyed(*range(100)))
    put(table, pa.concat_tables([keyed(*range(50, 150), ts=2), keyed(1, day="d1")]), **sizes)
    now = [keyed(*range(50)), keyed(*range(50, 150), ts=2), keyed(1, day="d1")]
    assert_placed(table, pa.concat_tables(now))
    put(table, keyed(*range(200, 220)), "insert")
    put(table, keyed(*range(300, 320)), "bulk_insert")
    gone = put(table, keyed(*range(40), 999), "delete")
    assert gone.num_missing == (1 if kind == "COPY_ON_WRITE" else 0)
    now = [keyed(*range(40, 50)), *now[1:], keyed(*range(200, 220)), keyed(*range(300, 320))]
    assert_placed(table, pa.concat_tables(now))
    put(table, keyed(*range(500, 700)), "insert_overwrite", **sizes)
    assert_placed(table, pa.concat_tables([keyed(*range(500, 700)), keyed(1, day="d1")]))
    put(table, keyed(*range(600, 610)), "delete")
    put(table, keyed(*range(590, 605), ts=3))
    expected = [keyed(*range(500, 590), *range(610, 700)), keyed(*range(590, 605), ts=3), keyed(1, day="d1")]
    assert_placed(table, pa.concat_tables(expected))
    put(table, keyed(7, 8), "insert_overwrite_table")
    assert_placed(table, keyed(7, 8))


def test_a_table_remembers_its_index(tmp_path: Path) -> None:
    table, plain = tmp_path / "t", {"hoodie.datasource.write.precombine.field": "ts"}
    put(table, keyed(*range(20)))
    hoodie.write_table(keyed(*range(10, 30), ts=2), str(table), options=plain)
    assert_placed(table, pa.concat_tables([keyed(*range(10)), keyed(*range(10, 30), ts=2)]))
    for wrong in (
        {"hoodie.bucket.index.num.buckets": 8},
        {"hoodie.index.type": "SIMPLE"},
        {"hoodie.bucket.index.hash.field": "day"},
    ):
        with pytest.raises(TableMismatch, match=next(iter(wrong))):
            hoodie.write_table(keyed(1), str(table), options=wrong)
    with pytest.raises(ConfigError, match="can't be clustered"):
        hoodie.cluster_table(str(table), mode="run")
    assert len(hoodie.instants(str(table))) == 2


def test_keys_of_several_fields_are_hashed_by_the_named_ones(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = {
        "hoodie.datasource.write.recordkey.field": "id,ts",
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.datasource.write.precombine.field": "val",
    }
    batches = [keyed(*range(40), ts=ts) for ts in range(3)]
    for batch in batches:
        put(table, batch, **options)
    rows = hoodie.read_table(str(table), meta=True).to_pylist()
    assert len(rows) == 120
    files = {(row["id"], row["_hoodie_file_name"][:8]) for row in rows}
    assert len(files) == 40, "the ordering column chooses no bucket"
    with pytest.raises(ConfigError, match=r"hash.field has val, not part of the record key id,ts"):
        put(tmp_path / "u", batches[0], **{**options, "hoodie.bucket.index.hash.field": "id,val"})
    assert not (tmp_path / "u").exists()


def test_deletes_of_unknown_keys_make_no_file_group(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, keyed(1))
    (number,) = numbers(table)["d0"]
    planned = hoodie.write_table(
        keyed(*range(20)), str(table), operation="delete", options=BUCKET, dry_run=True
    )
    assert planned.num_files == 1
    gone = put(table, pa.concat_tables([keyed(*range(2, 20)), keyed(1, day="d9")]), "delete")
    assert (gone.num_deletes, gone.num_missing) == (0, 19)
    assert numbers(table) == {"d0": [number]}
    assert not (table / "d9").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hoodie.bucket.index.num.buckets": 0}, "num.buckets='0': must be from 1 to"),
        ({"hoodie.bucket.index.partition.expressions": "d.*,2"}, "partition.expressions.* is not supported"),
        ({"hoodie.datasource.insert.dup.policy": "fail"}, "BucketIndex looks none up"),
        ({"hoodie.datasource.write.insert.drop.duplicates": "true"}, "BucketIndex looks none up"),
    ],
)
def test_what_the_index_does_not_do_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        put(tmp_path / "t", keyed(1), "insert", **options)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_numbers_of_buckets_by_partition_are_refused_in_each_version(tmp_path: Path, version: int) -> None:
    options = {
        "hoodie.write.table.version": version,
        "hoodie.bucket.index.partition.expressions": "d.*,2",
    }
    with pytest.raises(ConfigError, match="all partitions of a table have one number of buckets here"):
        put(tmp_path / "t", keyed(1), **options)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "operation",
    full_but(
        {"upsert", "bulk_insert", "delete"}, ["upsert", "insert", "bulk_insert", "insert_overwrite", "delete"]
    ),
)
def test_a_table_without_buckets_is_refused(tmp_path: Path, operation: str) -> None:
    """Also where its rows lie in other partitions than those that come."""
    table = tmp_path / "t"
    ordered = {**OPTIONS, "hoodie.datasource.write.precombine.field": "ts"}
    hoodie.write_table(keyed(*range(5)), str(table), options=ordered)
    for incoming in (keyed(1), keyed(1, day="d9")):
        with pytest.raises(ConfigError, match="none of the BUCKET index"):
            put(table, incoming, operation)
    assert len(hoodie.instants(str(table))) == 1


def test_two_file_groups_of_one_bucket_are_refused(tmp_path: Path) -> None:
    """As a bulk insert of Apache Hudi's row writer makes them beside others."""
    table = tmp_path / "t"
    put(table, keyed(1))
    (file,) = table.glob("d0/*.parquet")
    other = file.name.partition("_")[0][:8] + names.new_file_id()[8:]
    shutil.copy(file, file.with_name(other + file.name[len(other) :]))
    with pytest.raises(TableError, match="two file groups of bucket"):
        put(table, keyed(2))


def test_numbers_of_buckets_by_partition_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, keyed(1))
    rules = table / ".hoodie" / ".bucket_index" / "partition_bucket_index_meta" / "configs"
    rules.mkdir(parents=True)
    with pytest.raises(ConfigError, match="numbers of buckets by partition"):
        put(table, keyed(2))


@pytest.mark.parametrize("operation", full_but({"upsert"}, ["upsert", "insert"]))
def test_buckets_are_those_of_a_row_writers_bulk_insert(tmp_path: Path, operation: str) -> None:
    """Its file groups share the rest of their UUID, and end with -0, -1, …: no other index writes to them."""
    table = tmp_path / "t"
    put(table, keyed(*range(20)), "bulk_insert")
    rest = "-a6f3-49fd-878a-59e289647448-"
    for count, path in enumerate(sorted(table.glob("d0/*.parquet"))):
        old = path.name.partition("_")[0]
        rename(table, path, old, f"{old[:8]}{rest}{count}")
    forget(table)
    with pytest.raises(ConfigError, match="table of the BUCKET index"):
        hoodie.write_table(keyed(1), str(table), operation=operation)
    put(table, keyed(*range(10, 30), ts=2), **{"hoodie.write.verify.files": False})
    rows = hoodie.read_table(str(table), options={"hoodie.read.verify.files": False})
    assert_same_rows(rows, pa.concat_tables([keyed(*range(10)), keyed(*range(10, 30), ts=2)]))
    assert numbers(table) == {"d0": [f"0000000{number}" for number in range(4)]}


def forget(table: Path) -> None:
    """Take the index out of the table's properties, as Apache Hudi leaves it."""
    file = table / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if "index" not in line]
    file.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("buckets", full_but({2, 8}, [2, 3, 8]))
def test_another_number_than_the_files_show_is_refused(tmp_path: Path, buckets: int) -> None:
    """In a table that does not remember it; the greater half of the buckets is in one partition only."""
    table = tmp_path / "t"
    index = BucketIndex(4, ("id",))
    low = [key for key in range(60) if index.place("", pa.array([f"k{key}"]))[0] < 2]
    put(table, keyed(*range(60), day="whole"))
    put(table, keyed(*low, day="half"))
    forget(table)
    wrong = {"hoodie.bucket.index.num.buckets": buckets}
    for day in ("half", "new"):
        with pytest.raises(ConfigError, match=r"made with other settings.*they fit .*num.buckets=4$"):
            put(table, keyed(*range(9), day=day), **wrong)
    put(table, keyed(*range(9), day="half", ts=2))
    assert len(hoodie.instants(str(table))) == 3


def test_a_row_that_a_deleted_newer_one_would_hide_is_refused(tmp_path: Path) -> None:
    """Merge-on-read: with another index it goes to a new file group, which a bucket can't have."""
    table, event_time = tmp_path / "t", {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    put(table, keyed(1, 2, ts=5), **{TYPE: "MERGE_ON_READ"}, **event_time)
    put(table, keyed(1), "delete")
    with pytest.raises(TableError, match=r"key 'k1' was deleted in the log .* Compact the table"):
        put(table, keyed(1, ts=3))
    assert_placed(table, keyed(2, ts=5))
    hoodie.compact_table(str(table), options={"hoodie.compact.inline.max.delta.commits": 1})
    put(table, keyed(1, ts=3))
    assert_placed(table, pa.concat_tables([keyed(1, ts=3), keyed(2, ts=5)]))


def test_updates_of_slices_under_compaction_stay_in_their_group(tmp_path: Path) -> None:
    """A key that the logs of before the plan have deleted, and that comes again after it."""
    table = tmp_path / "t"
    put(table, keyed(*range(20)), **{TYPE: "MERGE_ON_READ"})
    put(table, keyed(*range(10)), "delete")
    always = {"hoodie.compact.inline.max.delta.commits": 1}
    hoodie.compact_table(str(table), mode="schedule", options=always)
    put(table, keyed(*range(5), *range(50, 60), ts=2))
    now = pa.concat_tables([keyed(*range(5), *range(50, 60), ts=2), keyed(*range(10, 20))])
    assert_same_rows(hoodie.read_table(str(table)), now)
    hoodie.compact_table(str(table), mode="execute", options=always)
    assert_same_rows(hoodie.read_table(str(table)), now)
    hoodie.compact_table(str(table), options=always)
    assert_placed(table, now)
    assert_same_rows(hoodie.read_table(str(table), query="read_optimized"), now)


@pytest.mark.table_version(6)
def test_file_groups_with_logs_only(tmp_path: Path) -> None:
    """As Flink and Java make them: read, updated, deleted from and compacted where they are."""
    table = tmp_path / "t"
    first = put(table, keyed(*range(20)), **{TYPE: "MERGE_ON_READ"}).instant
    put(table, keyed(*range(20), ts=2))
    for file in [*table.glob("d0/*.parquet"), *table.glob(f".hoodie/{first}.*")]:
        file.unlink()
    (commit,) = table.glob(".hoodie/*.deltacommit")
    commit.write_text(re.sub(r'"baseFile" ?: ?"[^"]*"', '"baseFile": ""', commit.read_text()))
    forget(table)
    with pytest.raises(ConfigError, match=r"they fit .*num.buckets=4$"):
        put(table, keyed(1), **{"hoodie.bucket.index.num.buckets": 8})
    put(table, keyed(*range(10, 30), ts=3))
    put(table, keyed(*range(5)), "delete")
    now = pa.concat_tables([keyed(*range(5, 10), ts=2), keyed(*range(10, 30), ts=3)])
    assert_same_rows(hoodie.read_table(str(table)), now)
    assert len({path.name.partition("_")[0] for path in table.glob("d0/.0*.log.*")}) == 4
    assert hoodie.compact_table(str(table), options={"hoodie.compact.inline.max.delta.commits": 1}).compacted
    assert_placed(table, now)


def test_the_cost_of_the_index_is_explained(tmp_path: Path) -> None:
    table, other = tmp_path / "t", tmp_path / "u"
    put(table, keyed(*range(20)))
    found = hoodie.explain(keyed(*range(30)), str(table), options=BUCKET)
    assert (found.index, found.indexes, found.advice.index) == ("BUCKET", [], "BUCKET")
    hoodie.write_table(keyed(1), str(other), options=OPTIONS)
    costs = {cost.index: cost for cost in hoodie.explain(keyed(1), str(other), options=OPTIONS).indexes}
    assert "made with it" in costs["BUCKET"].reason
