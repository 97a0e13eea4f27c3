"""Tables of the BUCKET index of Apache Hudi: continued with it, refused with another one, as rows would go to
groups where Hudi never looks.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.format.names import BaseFileName
from hoodie.index.bucket import BucketIndex
from hoodie.index.hashed_values import ring_hashes
from hoodie.index.locations import KeySearch
from hoodie.table.handle import Table
from hoodie.table.hash_ring import Rings
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

BUCKETED = {"idx_bucket": 4, "mor_bucket": 4, "mor_bucket_compacted": 2}
WRITES = ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"]


@pytest.fixture
def table(golden_tables: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copytree(golden_tables / "0.15.0-v6" / request.param / "table", tmp_path / "table"))


def files(table: Path) -> list[str]:
    return sorted(str(path) for path in table.rglob("*") if "/metadata/" not in str(path))


def options(buckets: int) -> dict[str, object]:
    return {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": buckets}


@pytest.mark.parametrize("table", BUCKETED, indirect=True)
def test_every_key_is_in_the_bucket_of_its_hash(table: Path, request: pytest.FixtureRequest) -> None:
    buckets = BUCKETED[request.node.callspec.params["table"]]
    rows = hoodie.read_table(str(table), meta=True)
    placed = BucketIndex(buckets, ("id",)).place("", rows.column("_hoodie_record_key").combine_chunks())
    names = [name[:8] for name in rows.column("_hoodie_file_name").to_pylist()]
    assert names == [f"{number:08d}" for number in placed.tolist()]
    assert set(placed.tolist()) == set(range(buckets))


@pytest.mark.parametrize("table", full_but({"mor_bucket_compacted"}, BUCKETED), indirect=True)
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_rows_go_to_the_buckets_that_are_there(
    table: Path, operation: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates and new rows; no key is looked up."""
    monkeypatch.setattr(KeySearch, "look", pytest.fail)
    buckets = BUCKETED[request.node.callspec.params["table"]]
    before = hoodie.read_table(str(table), meta=False)
    groups = {(group["partition"], group["file_id"]) for group in hoodie.file_groups(str(table))}
    assert len(groups) == 3 * buckets
    texts = pc.cast(pc.indices_nonzero(pc.is_valid(before.column("id"))), pa.string())
    new = before.set_column(
        before.schema.get_field_index("id"), "id", pc.binary_join_element_wise("n", texts, "")
    )
    place = before.schema.get_field_index("name")
    changed = before.set_column(place, "name", pa.array(["changed"] * before.num_rows))
    incoming = new if operation == "bulk_insert" else pa.concat_tables([new, changed])
    policy = {"hoodie.merge.allow.duplicate.on.inserts": False} if operation == "insert" else {}
    hoodie.write_table(incoming, str(table), operation=operation, options={**options(buckets), **policy})
    kept = before if operation == "bulk_insert" else changed
    assert_same_rows(hoodie.read_table(str(table)), pa.concat_tables([new, kept]))
    after = {(group["partition"], group["file_id"]) for group in hoodie.file_groups(str(table))}
    assert after == groups


@pytest.mark.parametrize("table", full_but({"idx_bucket", "mor_bucket_compacted"}, BUCKETED), indirect=True)
def test_overwrite_delete_and_compact(table: Path, request: pytest.FixtureRequest) -> None:
    buckets = BUCKETED[request.node.callspec.params["table"]]
    before = hoodie.read_table(str(table), meta=False)
    eu = before.filter(pc.is_in(before.column("region"), value_set=pa.array(["eu"])))
    hoodie.write_table(eu, str(table), operation="insert_overwrite", options=options(buckets))
    assert_same_rows(hoodie.read_table(str(table)), before)
    gone = before.slice(0, 30)
    hoodie.write_table(gone, str(table), operation="delete", options=options(buckets))
    expected = before.filter(pc.invert(pc.is_in(before.column("id"), value_set=gone.column("id"))))
    assert_same_rows(hoodie.read_table(str(table)), expected)
    hoodie.write_table(gone, str(table), options=options(buckets))
    if list(table.glob("*/.0*.log.*")):
        compacted = {"hoodie.compact.inline.max.delta.commits": 1}
        assert hoodie.compact_table(str(table), options={**options(buckets), **compacted}).compacted
        assert_same_rows(hoodie.read_table(str(table), query="read_optimized"), before)
    assert_same_rows(hoodie.read_table(str(table)), before)
    ids = [(group["partition"], group["file_id"][:8]) for group in hoodie.file_groups(str(table))]
    assert len(ids) == len(set(ids)) == 3 * buckets


@pytest.mark.parametrize("table", full_but({"idx_bucket", "mor_bucket_compacted"}, BUCKETED), indirect=True)
@pytest.mark.parametrize("factor", full_but({0.5, 2}, [0.5, 2, 3]))
def test_another_number_of_buckets_is_refused(
    table: Path, factor: float, request: pytest.FixtureRequest
) -> None:
    buckets, before = BUCKETED[request.node.callspec.params["table"]], files(table)
    rows = hoodie.read_table(str(table), meta=False)
    elsewhere = rows.set_column(
        rows.schema.get_field_index("region"), "region", pa.array(["new"] * rows.num_rows)
    )
    for incoming in (rows, elsewhere):
        with pytest.raises(
            ConfigError, match=rf"made with other settings.*; they fit .*num.buckets={buckets}$"
        ):
            hoodie.write_table(incoming, str(table), options=options(int(buckets * factor)))
    assert files(table) == before


@pytest.mark.parametrize("table", full_but({"idx_bucket", "mor_bucket_compacted"}, BUCKETED), indirect=True)
def test_another_index_is_refused_and_nothing_is_written(table: Path) -> None:
    before = files(table)
    rows = hoodie.read_table(str(table), meta=False)
    place = rows.schema.get_field_index("region")
    elsewhere = rows.set_column(place, "region", pa.array(["new"] * rows.num_rows))
    for operation in WRITES:
        for incoming in (rows, elsewhere):
            with pytest.raises(ConfigError, match=r"BUCKET index.*0000000"):
                hoodie.write_table(incoming, str(table), operation=operation)
    for mode in ("schedule", "run"):
        with pytest.raises(ConfigError, match="BUCKET index"):
            hoodie.cluster_table(str(table), mode=mode)
    assert files(table) == before


@pytest.mark.parametrize("table", ["idx_bucket"], indirect=True)
def test_keys_are_deleted_and_the_groups_stay(table: Path) -> None:
    def ids() -> set[str]:
        names = (BaseFileName.parse(path.name) for path in table.glob("*/*.parquet"))
        return {name.file_id for name in names if name}

    before, groups = hoodie.read_table(str(table), meta=False), ids()
    gone = before.slice(0, 30)
    assert hoodie.write_table(gone, str(table), operation="delete").num_deletes == 30
    expected = before.filter(pc.invert(pc.is_in(before.column("id"), value_set=gone.column("id"))))
    assert_same_rows(hoodie.read_table(str(table)), expected)
    assert ids() == groups


RINGED = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
}
#: each bucket is too small
MERGE = {"hoodie.bucket.index.min.num.buckets": "2"}


def assert_in_their_ranges(table: Path) -> int:
    """Every row is in the file group of its key's hash. Returns the number of buckets."""
    opened = Table.open(str(table))
    rings = Rings(opened.ref, opened.view)
    rows = hoodie.read_table(str(table), meta=True)
    nodes = 0
    for region in ("eu", "us", "apac"):
        ring = rings.of(region)
        assert ring is not None
        mine = rows.filter(pc.is_in(rows.column("region"), value_set=pa.array([region])))
        keys = mine.column("_hoodie_record_key").combine_chunks()
        placed = [ring.nodes[number].file_id for number in ring.place(ring_hashes(keys, ("id",))).tolist()]
        names = mine.column("_hoodie_file_name").to_pylist()
        assert [name.partition("_")[0] for name in names] == placed
        nodes += len(ring.nodes)
    return nodes


@pytest.mark.parametrize("table", ["mor_resized_buckets"], indirect=True)
def test_rings_that_apache_hudi_split_go_on(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buckets = assert_in_their_ranges(table)
    with monkeypatch.context() as patched:
        patched.setattr(KeySearch, "look", pytest.fail)
        before = hoodie.read_table(str(table), meta=False)
        place = before.schema.get_field_index("name")
        changed = before.set_column(place, "name", pa.array(["changed"] * before.num_rows)).slice(0, 50)
        expected = pa.concat_tables([changed, before.slice(50)])
        hoodie.write_table(changed, str(table), options=RINGED)
        assert_same_rows(hoodie.read_table(str(table)), expected)
    assert assert_in_their_ranges(table) == buckets
    hoodie.write_table(expected.slice(0, 20), str(table), operation="delete", options=RINGED)
    assert_same_rows(hoodie.read_table(str(table)), expected.slice(20))
    assert hoodie.cluster_table(str(table), options={**RINGED, **MERGE}).num_outputs
    assert_same_rows(hoodie.read_table(str(table)), expected.slice(20))
    assert assert_in_their_ranges(table) < buckets
    hoodie.write_table(before, str(table), options=RINGED)
    assert_same_rows(hoodie.read_table(str(table)), before)


def test_buckets_of_logs_alone_are_split(later_more: Path, tmp_path: Path) -> None:
    """As Apache Hudi 1.2.0 fills them before the first compaction."""
    path = str(shutil.copytree(later_more / "more/consistent_resize/table", tmp_path / "t"))
    split = {"hoodie.parquet.max.file.size": 1, "hoodie.bucket.index.max.num.buckets": 4}
    second = hoodie.instants(path)[1]["instant"]
    hoodie.restore_table(path, second)
    assert {group["slices"][0]["name"] for group in hoodie.file_groups(path)} == {None}
    before = hoodie.read_table(path)
    done = hoodie.cluster_table(path, options=split)
    assert (done.num_replaced, done.num_outputs) == (2, 4)
    assert_same_rows(hoodie.read_table(path), before)
