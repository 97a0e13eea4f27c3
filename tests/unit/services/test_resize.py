"""Clusterings of tables of consistent hashing: buckets are split and merged, rows stay where they belong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import CommitConflict, ConfigError
from hoodie.services.clustering import resize
from hoodie.table.hash_ring import FIRST, Ring
from hoodie.table.view import BaseFile, FileSlice
from hoodie.timeline.models.clustering import ClusteringGroup
from hoodie.timeline.time import InstantTime
from hoodie.write.participants.hash_rings import RingChange
from tests.unit.write.test_bucket_index import OPTIONS as PLAIN
from tests.unit.write.test_bucket_index import forget, keyed
from tests.unit.write.test_consistent_hashing import assert_placed, put, ring, stored

SORT = "hoodie.clustering.plan.strategy.sort.columns"
SIZE = "hoodie.parquet.max.file.size"
MOST, LEAST = "hoodie.bucket.index.max.num.buckets", "hoodie.bucket.index.min.num.buckets"
#: every bucket of a partition is too large
SPLIT: dict[str, Any] = {
    SIZE: 1,
    MOST: 6,
    "hoodie.clustering.plan.strategy.partition.selected": "d0",
}
#: every bucket is small
MERGE: dict[str, Any] = {LEAST: 2}


def cluster(table: Path, mode: str = "run", **options: Any) -> Any:
    return hoodie.cluster_table(str(table), mode=mode, options=options)


def planned(sizes: list[int], **options: Any) -> list[tuple[list[int], list[tuple[int, bool]]]]:
    """Of a ring of so many buckets as there are sizes (0: no files): the buckets of each group of the plan,
    and the changes, as end in quarters of the circle's parts and whether a bucket ends there afterwards.
    """
    first = Ring.first("p", len(sizes))
    slices = [
        FileSlice(
            "p",
            node.file_id,
            InstantTime("1"),
            BaseFile("p", f"/t/p/{number}", f"{number}", node.file_id, InstantTime("1"), size),
        )
        for number, (node, size) in enumerate(zip(first.nodes, sizes, strict=True))
        if size
    ]
    found = resize.groups(first, slices, Config.of({SIZE: 100, **options}), lambda *_: False)
    return [described(first, group) for group in found]


def described(first: Ring, group: ClusteringGroup) -> tuple[list[int], list[tuple[int, bool]]]:
    change = RingChange.of(group.extra_metadata)
    assert change is not None
    step = first.nodes[0].end / 4
    numbers = [first.number(item.file_id) or 0 for item in group.slices]
    return numbers, [(round(node.end / step), bool(node.prefix)) for node in change.nodes]


@pytest.mark.parametrize(
    ("sizes", "options", "expected"),
    [
        ([500, 50, 50, 500], {}, []),
        ([500, 50, 50, 500], {MOST: 5}, [([0], [(2, True), (4, True)])]),
        ([500, 50, 50, 500], {MOST: 9}, [([0], [(2, True), (4, True)]), ([3], [(14, True), (16, True)])]),
        ([200, 50, 50, 201], {MOST: 9}, [([3], [(14, True), (16, True)])]),
        ([50, 10, 10, 50], {LEAST: 2}, [([1, 2], [(8, False), (12, True)])]),
        ([10, 50, 50, 10], {LEAST: 2}, [([3, 0], [(16, False), (4, True)])]),
        ([10, 10, 10, 10], {LEAST: 3}, [([3, 0], [(16, False), (4, True)])]),
        ([9, 9, 9, 9], {LEAST: 1}, [([2, 3, 0], [(12, False), (16, False), (4, True)])]),
        ([10, 0, 10, 50], {LEAST: 1}, []),
        ([500, 10, 10, 50], {MOST: 5}, [([0], [(2, True), (4, True)]), ([1, 2], [(8, False), (12, True)])]),
        ([50, 50, 0], {SORT: "a"}, [([0], [(4, True)]), ([1], [(8, True)])]),
    ],
)
def test_what_is_split_and_merged(sizes: list[int], options: dict[str, Any], expected: list[Any]) -> None:
    assert planned(sizes, **options) == expected


def test_large_buckets_are_split_and_small_ones_merged(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, pa.concat_tables([keyed(*range(200)), keyed(*range(3), day="d1")]))
    put(table, keyed(*range(100, 250), ts=2))
    now = [keyed(*range(100)), keyed(*range(100, 250), ts=2), keyed(*range(3), day="d1")]
    assert cluster(table).reason.startswith("no bucket of the 2 partitions")
    done = cluster(table, **SPLIT)
    assert (done.num_replaced, done.num_outputs, done.partitions) == (2, 4, ["d0"])
    assert (len(ring(table).nodes), stored(table)) == (6, [FIRST, done.instant])
    assert_placed(table, pa.concat_tables(now))
    put(table, keyed(*range(240, 300), ts=3))
    put(table, keyed(*range(50)), "delete")
    now = [keyed(*range(50, 100)), keyed(*range(100, 240), ts=2), keyed(*range(240, 300), ts=3), now[2]]
    assert_placed(table, pa.concat_tables(now))
    merged = cluster(table, **MERGE)
    assert len(ring(table).nodes) == 2
    assert merged.num_outputs < merged.num_replaced
    assert_placed(table, pa.concat_tables(now))
    put(table, keyed(*range(290, 320), ts=4))
    now[2] = keyed(*range(240, 290), ts=3)
    assert_placed(table, pa.concat_tables([*now, keyed(*range(290, 320), ts=4)]))


def test_rows_are_sorted_in_their_buckets(tmp_path: Path) -> None:
    table = tmp_path / "t"
    rows = keyed(*(number * 7919 % 200 for number in range(200)))
    put(table, rows)
    done = cluster(table, **{SORT: "val"})
    assert done.num_replaced == done.num_outputs == 4
    assert cluster(table, **{SORT: "val"}).status == "skipped", "they are sorted already"
    assert_placed(table, rows)
    for group in hoodie.file_groups(str(table)):
        (file,) = table.glob(f"d0/{group['file_id']}_*{done.instant}.parquet")
        values: list[Any] = pq.read_table(file).column("val").to_pylist()
        assert values == sorted(values)


def test_a_pending_plan_keeps_its_buckets(tmp_path: Path) -> None:
    table = tmp_path / "t"
    put(table, keyed(*range(200)))
    plan = cluster(table, "schedule", **SPLIT).scheduled
    with pytest.raises(CommitConflict, match="pending clustering"):
        put(table, keyed(*range(200), ts=2))
    put(table, keyed(1, day="d1"))
    assert cluster(table, "schedule", **SPLIT).scheduled == "", "a ring changes one clustering at a time"
    hoodie.cancel_plan(str(table), plan)
    put(table, keyed(*range(200), ts=2))
    assert stored(table) == [FIRST]
    done = cluster(table, **SPLIT)
    hoodie.savepoint_table(str(table), done.instant)
    hoodie.delete_savepoint(str(table), done.instant)
    assert stored(table) == [FIRST, done.instant]
    hoodie.rollback_table(str(table), done.instant)
    assert stored(table) == [FIRST]
    put(table, keyed(*range(10), ts=3))
    assert_placed(
        table, pa.concat_tables([keyed(*range(10), ts=3), keyed(*range(10, 200), ts=2), keyed(1, day="d1")])
    )


def test_inline_clusterings_resize(tmp_path: Path) -> None:
    table = tmp_path / "t"
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": 1, **SPLIT}
    result = put(table, keyed(*range(200)), **inline)
    assert [text for text in result.warnings if "cluster" in text] == []
    assert len(ring(table).nodes) == 6
    assert_placed(table, keyed(*range(200)))


def test_another_hash_field_moves_no_row(tmp_path: Path) -> None:
    table = tmp_path / "t"
    fields = {"hoodie.datasource.write.recordkey.field": "id,ts", "hoodie.bucket.index.hash.field": "id"}
    put(table, keyed(*range(100)), **fields)
    forget(table)
    with pytest.raises(ConfigError, match=r"is not in the bucket of its hash; set hoodie.bucket.index.hash"):
        cluster(table, **SPLIT)
    done = cluster(table, "execute", **SPLIT, **{"hoodie.bucket.index.hash.field": "id"})
    assert done.status == "clustered"
    assert hoodie.read_table(str(table)).num_rows == 100
    put(table, keyed(*range(50), ts=1), **fields)
    assert hoodie.read_table(str(table)).num_rows == 100


def test_strategies_of_other_tables_are_refused(tmp_path: Path) -> None:
    table, other = tmp_path / "t", tmp_path / "u"
    put(table, keyed(1))
    hoodie.write_table(keyed(1), str(other), options=PLAIN)
    name = "hoodie.clustering.plan.strategy.class"
    with pytest.raises(ConfigError, match="would put rows where they are not looked for"):
        cluster(table, **{name: "size_based"})
    with pytest.raises(ConfigError, match=r"is for tables of hoodie.index.bucket.engine=CONSISTENT_HASHING"):
        cluster(other, **{name: "SparkConsistentBucketClusteringPlanStrategy"})
