"""BUCKET with CONSISTENT_HASHING: rows go where the ring of their partition says; overwrites renew it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, TableError, TableMismatch, ValidationFailed
from hoodie.format.names import new_file_id
from hoodie.index.hashed_values import ring_hashes
from hoodie.index.locations import KeySearch
from hoodie.table.handle import Table
from hoodie.table.hash_ring import FIRST, Ring, Rings
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but
from tests.unit.write.test_bucket_index import OPTIONS, TYPE, forget, keyed

RINGED: dict[str, Any] = {
    **OPTIONS,
    TYPE: "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": 4,
    "hoodie.datasource.write.precombine.field": "ts",
}
FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"
COMPACT = {"hoodie.compact.inline.max.delta.commits": 1}


def put(table: Path, incoming: pa.Table, operation: Any = "upsert", **more: Any) -> Any:
    return hoodie.write_table(incoming, str(table), operation=operation, options={**RINGED, **more})


def stored(table: Path, partition: str = "d0") -> list[str]:
    """Instants of the files with the partition's rings."""
    return sorted(path.name.partition(".")[0] for path in (table / FOLDER / partition).glob("*.hashing_meta"))


def ring(table: Path, partition: str = "d0") -> Ring:
    opened = Table.open(str(table))
    found = Rings(opened.ref, opened.view).of(partition)
    assert found is not None
    return found


def assert_placed(table: Path, expected: pa.Table) -> None:
    """The rows, each in the file group of its key's range."""
    rows = hoodie.read_table(str(table), meta=True)
    assert_same_rows(rows.select(expected.column_names), expected)
    for day in set(rows.column("day").to_pylist()):
        mine = rows.filter(pa.array([value == day for value in rows.column("day").to_pylist()]))
        now = ring(table, day)
        hashes = ring_hashes(mine.column("_hoodie_record_key").combine_chunks(), ("id",))
        groups = [now.nodes[number].file_id for number in now.place(hashes).tolist()]
        assert [name.partition("_")[0] for name in mine.column("_hoodie_file_name").to_pylist()] == groups
    ids = [(group["partition"], group["file_id"]) for group in hoodie.file_groups(str(table))]
    assert len(ids) == len(set(ids))


def test_every_operation_puts_rows_into_their_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeySearch, "look", pytest.fail)
    table = tmp_path / "t"
    put(table, keyed(*range(100)), "bulk_insert")
    assert (stored(table), ring(table)) == ([FIRST], Ring.first("d0", 4))
    assert_placed(table, keyed(*range(100)))
    put(table, pa.concat_tables([keyed(*range(50, 150), ts=2), keyed(1, day="d1")]))
    put(table, keyed(*range(200, 220)), "insert")
    put(table, keyed(*range(40), 999), "delete")
    now = [keyed(*range(40, 50)), keyed(*range(50, 150), ts=2), keyed(1, day="d1"), keyed(*range(200, 220))]
    assert_placed(table, pa.concat_tables(now))
    hoodie.compact_table(str(table), options=COMPACT)
    assert_placed(table, pa.concat_tables(now))
    assert stored(table) == [FIRST]


def test_an_overwrite_and_a_delete_of_the_partition_renew_its_ring(tmp_path: Path) -> None:
    """Else rows would go to file groups that were replaced, into which nobody looks."""
    table = tmp_path / "t"
    put(table, pa.concat_tables([keyed(*range(40)), keyed(1, day="d1")]))
    first = put(table, keyed(*range(20, 60), ts=2), "insert_overwrite").instant
    assert (stored(table), stored(table, "d1")) == ([FIRST, first], [FIRST])
    assert_placed(table, pa.concat_tables([keyed(*range(20, 60), ts=2), keyed(1, day="d1")]))
    put(table, keyed(*range(50, 90), ts=3))
    assert_placed(
        table,
        pa.concat_tables([keyed(*range(20, 50), ts=2), keyed(*range(50, 90), ts=3), keyed(1, day="d1")]),
    )
    second = hoodie.delete_partitions(str(table), ["d0"]).instant
    assert stored(table) == [FIRST, first, second]
    put(table, keyed(*range(5)))
    assert_placed(table, pa.concat_tables([keyed(*range(5)), keyed(1, day="d1")]))
    third = put(table, keyed(7, 8, day="d2"), "insert_overwrite_table").instant
    assert_placed(table, keyed(7, 8, day="d2"))
    assert stored(table)[-1] == stored(table, "d1")[-1] == stored(table, "d2")[-1] == third
    put(table, keyed(*range(30), ts=4, day="d1"))
    assert_placed(table, pa.concat_tables([keyed(7, 8, day="d2"), keyed(*range(30), ts=4, day="d1")]))


def test_what_is_taken_back_takes_its_ring_along(tmp_path: Path) -> None:
    table = tmp_path / "t"
    point = put(table, keyed(*range(40))).instant
    hoodie.savepoint_table(str(table), instant=point)
    last = put(table, keyed(1, 2, ts=2), "insert_overwrite").instant
    hoodie.rollback_table(str(table), last)
    assert stored(table) == [FIRST]
    put(table, keyed(*range(30, 50), ts=3))
    assert_placed(table, pa.concat_tables([keyed(*range(30)), keyed(*range(30, 50), ts=3)]))
    put(table, keyed(1, 2, ts=4), "insert_overwrite")
    hoodie.delete_partitions(str(table), ["d0"])
    hoodie.restore_table(str(table), point)
    assert stored(table) == [FIRST]
    put(table, keyed(*range(30, 50), ts=5))
    assert_placed(table, pa.concat_tables([keyed(*range(30)), keyed(*range(30, 50), ts=5)]))


def test_a_write_that_fails_leaves_no_ring_of_its_own(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, keyed(*range(40)))
    name = "hoodie.precommit.validators"
    refuse = {name: "single", f"{name}.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1"}
    with pytest.raises(ValidationFailed):
        put(table, keyed(1), "insert_overwrite", **refuse)
    assert stored(table) == [FIRST]
    assert_placed(table, keyed(*range(40)))


def test_a_table_remembers_its_engine(tmp_path: Path) -> None:
    table, plain = tmp_path / "t", {"hoodie.datasource.write.precombine.field": "ts"}
    put(table, keyed(*range(20)))
    hoodie.write_table(keyed(*range(10, 30), ts=2), str(table), options=plain)
    assert_placed(table, pa.concat_tables([keyed(*range(10)), keyed(*range(10, 30), ts=2)]))
    for wrong in ({"hoodie.index.bucket.engine": "SIMPLE"}, {"hoodie.index.type": "SIMPLE"}):
        with pytest.raises(TableMismatch, match=next(iter(wrong))):
            hoodie.write_table(keyed(1), str(table), options=wrong)
    numbered = tmp_path / "numbered"
    put(numbered, keyed(1), **{"hoodie.index.bucket.engine": "SIMPLE"})
    with pytest.raises(TableMismatch, match=r"CONSISTENT_HASHING', the table has 'SIMPLE'"):
        put(numbered, keyed(1))


def test_a_table_that_remembers_nothing(tmp_path: Path) -> None:
    """As Apache Hudi's: the rings say how many buckets a partition has, keys what is hashed."""
    table = tmp_path / "t"
    put(table, pa.concat_tables([keyed(*range(40)), keyed(*range(40), day="d1")]))
    forget(table)
    for options in ({}, {"hoodie.index.type": "SIMPLE"}):
        with pytest.raises(ConfigError, match="engine=CONSISTENT_HASHING"):
            hoodie.write_table(keyed(1), str(table), options=options)
    with pytest.raises(ConfigError, match="engine=CONSISTENT_HASHING"):
        put(table, keyed(1), **{"hoodie.index.bucket.engine": "SIMPLE"})
    put(table, pa.concat_tables([keyed(*range(10), ts=2), keyed(*range(9), day="d2")]), **eight())
    assert (len(ring(table).nodes), len(ring(table, "d2").nodes)) == (4, 8)
    now = [
        keyed(*range(10), ts=2),
        keyed(*range(10, 40)),
        keyed(*range(40), day="d1"),
        keyed(*range(9), day="d2"),
    ]
    assert_placed(table, pa.concat_tables(now))


def eight() -> dict[str, Any]:
    return {"hoodie.bucket.index.num.buckets": 8}


def test_another_hash_field_than_the_files_show_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "t"
    fields = {"hoodie.datasource.write.recordkey.field": "id,ts"}
    put(table, keyed(*range(40)), **fields, **{"hoodie.bucket.index.hash.field": "id"})
    forget(table)
    for day in ("d0", "new"):
        with pytest.raises(
            ConfigError, match=r"made with other settings.*set hoodie.bucket.index.hash.field"
        ):
            put(table, keyed(*range(9), day=day), **fields)
    put(table, keyed(*range(9), ts=2), **fields, **{"hoodie.bucket.index.hash.field": "id"})
    assert len(hoodie.instants(str(table))) == 2


@pytest.mark.table_version(6)
@pytest.mark.parametrize(
    "operation", full_but({"upsert", "bulk_insert"}, ["upsert", "insert", "bulk_insert", "insert_overwrite"])
)
def test_a_table_of_another_index_is_refused(tmp_path: Path, operation: str) -> None:
    table = tmp_path / "t"
    hoodie.write_table(keyed(*range(5)), str(table), options={**OPTIONS, TYPE: "MERGE_ON_READ"})
    for day in ("d0", "d9"):
        with pytest.raises(ConfigError, match="is not in that partition's hash ring"):
            put(table, keyed(1, day=day), operation)
    assert not (table / ".hoodie" / ".bucket_index").exists()
    assert len(hoodie.instants(str(table))) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({TYPE: "COPY_ON_WRITE"}, "is for tables of hoodie.datasource.write.table.type=MERGE_ON_READ"),
        ({"hoodie.bucket.index.num.buckets": 40_000}, "set it to at most 32768"),
        ({"hoodie.datasource.insert.dup.policy": "fail"}, "ConsistentIndex looks none up"),
    ],
)
def test_what_the_engine_does_not_do_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        put(tmp_path / "t", keyed(1), "insert", **options)
    assert not (tmp_path / "t").exists()


def test_a_ring_that_still_has_replaced_file_groups_is_refused(tmp_path: Path) -> None:
    """As Apache Hudi leaves it when it deletes a partition."""
    table = tmp_path / "t"
    put(table, keyed(*range(40)))
    renewed = hoodie.delete_partitions(str(table), ["d0"]).instant
    (table / FOLDER / "d0" / f"{renewed}.hashing_meta").unlink()
    with pytest.raises(TableError, match=r"was replaced.*insert_overwrite"):
        put(table, keyed(1))
    put(table, keyed(*range(30)), "insert_overwrite")
    put(table, keyed(*range(20, 40), ts=2))
    assert_placed(table, pa.concat_tables([keyed(*range(20)), keyed(*range(20, 40), ts=2)]))


@pytest.mark.table_version(6)
def test_file_groups_that_a_ring_lacks_may_be_overwritten(tmp_path: Path) -> None:
    """As Apache Hudi's insert_overwrite makes them."""
    table = tmp_path / "t"
    put(table, pa.concat_tables([keyed(*range(40)), keyed(1, day="d1")]))
    time = put(table, keyed(*range(30), ts=2), "insert_overwrite").instant
    (table / FOLDER / "d0" / f"{time}.hashing_meta").unlink()
    commit = table / ".hoodie" / f"{time}.replacecommit"
    for path in table.glob(f"d0/*_{time}.parquet"):
        old, new = path.name.partition("_")[0], new_file_id()
        path.rename(path.with_name(path.name.replace(old, new)))
        commit.write_text(commit.read_text().replace(old, new))
    forget(table)
    put(table, keyed(2, day="d1"))
    with pytest.raises(ConfigError, match="has to be overwritten here"):
        put(table, keyed(1))
    put(table, keyed(*range(20), ts=3), "insert_overwrite")
    put(table, keyed(*range(10, 30), ts=4))
    expected = [keyed(*range(10), ts=3), keyed(*range(10, 30), ts=4), keyed(1, 2, day="d1")]
    assert_placed(table, pa.concat_tables(expected))


def test_a_torn_ring_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, keyed(1))
    (file,) = (table / FOLDER / "d0").glob("*.hashing_meta")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(TableError, match="is no hashing metadata"):
        put(table, keyed(2))
    assert len(hoodie.instants(str(table))) == 1
    assert_same_rows(hoodie.read_table(str(table)), keyed(1))


def test_a_ring_that_apache_hudi_made_says_the_number_of_buckets(tmp_path: Path) -> None:
    """A failed first write of Apache Hudi leaves it behind."""
    table = tmp_path / "t"
    put(table, keyed(1, day="d1"))
    folder = table / FOLDER / "d0"
    folder.mkdir()
    record = json.loads(Ring.first("d0", 2).to_json())
    (folder / f"{FIRST}.hashing_meta").write_text(json.dumps(record, indent=2))
    put(table, keyed(*range(40)))
    assert len(ring(table).nodes) == 2
    assert_placed(table, pa.concat_tables([keyed(*range(40)), keyed(1, day="d1")]))


def test_a_table_without_partitions(tmp_path: Path) -> None:
    table, none = tmp_path / "t", {"hoodie.datasource.write.partitionpath.field": ""}
    put(table, keyed(*range(40)), **none)
    put(table, keyed(*range(20, 60), ts=2), **none)
    assert stored(table, "") == [FIRST]
    expected = pa.concat_tables([keyed(*range(20)), keyed(*range(20, 60), ts=2)])
    assert_same_rows(hoodie.read_table(str(table)), expected)
    assert len(hoodie.file_groups(str(table))) == 4
