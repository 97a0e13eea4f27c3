"""Hash rings: as Apache Hudi makes them, split and merged, and what is no ring."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hoodie.errors import TableError
from hoodie.table.handle import TableRef
from hoodie.table.hash_ring import FIRST, MOST, Node, Ring, Rings, ring_instant, ring_path
from hoodie.table.view import TimelineView
from hoodie.timeline.time import InstantTime

#: of a partition "p0" with two buckets, by Apache Hudi 0.15.0
ENDS = [1073741824, 2147483647]


def ends(ring: Ring) -> list[int]:
    return [node.end for node in ring.nodes]


def placed(ring: Ring, *hashes: int) -> list[int]:
    return [int(place) for place in ring.place(np.array(hashes, dtype=np.uint32))]


def test_the_first_ring_follows_from_the_partition_and_the_number() -> None:
    ring = Ring.first("p0", 2)
    assert ends(ring) == ENDS
    assert ring == Ring.first("p0", 2)
    assert {node.prefix for node in ring.nodes}.isdisjoint(node.prefix for node in Ring.first("p1", 2).nodes)
    assert all(uuid.UUID(node.prefix).version == 3 for node in ring.nodes)
    for buckets in (1, 3, 256, 1 << 15):
        many = ends(Ring.first("", buckets))
        assert (len(set(many)), many[-1]) == (buckets, MOST)


def test_a_hash_belongs_to_the_first_range_that_ends_at_it_or_later() -> None:
    ring = Ring.first("p", 4)
    one = ends(ring)[0]
    assert placed(ring, 0, one, one + 1, MOST) == [0, 0, 1, 3]
    assert placed(ring, 2**31, 2**32 - 1) == [0, 3], "the sign is dropped"
    assert placed(ring.changed([Node(MOST, "")], InstantTime("1")), MOST, MOST - 1) == [0, 0], (
        "the circle goes on"
    )


def test_a_split_halves_a_range_and_a_merge_joins_neighbours() -> None:
    ring = Ring.first("p", 4)
    halves = ring.split(2)
    after = ring.changed(halves, InstantTime("20260101000000000"))
    assert (len(after.nodes), after.sequence, after.instant) == (5, 1, "20260101000000000")
    middle = (ends(ring)[1] + ends(ring)[2]) // 2
    assert ends(after) == sorted([*ends(ring), middle])
    kept = {node.prefix for node in ring.nodes} & {node.prefix for node in after.nodes}
    assert len(kept) == 3
    again = after.changed(after.merge([2, 3]), InstantTime("20260101000000001"))
    assert ends(again) == ends(ring)
    assert len({node.prefix for node in again.nodes} & kept) == 3
    around = ring.changed(ring.merge([3, 0]), InstantTime("1"))
    assert ends(around) == ends(ring)[:3]
    assert placed(around, MOST) == [0]
    assert len(Ring.first("p", 1).split(0)) == 2
    narrow = Ring("p", (Node(5, "a"), Node(6, "b")), 2)
    assert narrow.split(1) == []


def test_a_renewed_ring_has_other_file_groups_for_the_same_ranges() -> None:
    ring = Ring.first("p", 4)
    renewed = ring.renewed(InstantTime("20260101000000000"))
    assert ends(renewed) == ends(ring)
    assert renewed.nodes == ring.renewed().nodes, "whoever makes it"
    prefixes = [{node.prefix for node in each.nodes} for each in (ring, renewed, renewed.renewed())]
    assert len(set.union(*prefixes)) == 12


def test_json_and_back() -> None:
    for ring in (Ring.first("a/b", 3), Ring.first("", 1).renewed(InstantTime("20260101000000000"))):
        assert Ring.parse(ring.to_json(), ring.partition, "path") == ring
    record = json.loads(Ring.first("p0", 2).to_json())
    assert {**record, "nodes": []} == {
        "version": 0,
        "partitionPath": "p0",
        "instant": FIRST,
        "numBuckets": 2,
        "seqNo": 0,
        "nodes": [],
    }
    assert [set(node) for node in record["nodes"]] == [{"value", "fileIdPrefix", "tag"}] * 2


GOOD = {"value": 7, "fileIdPrefix": "a", "tag": "NORMAL"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        *(
            json.dumps({"instant": FIRST, "nodes": nodes}).encode()
            for nodes in (
                [],
                7,
                [7],
                [{**GOOD, "value": -1}],
                [{**GOOD, "value": 2**31}],
                [{**GOOD, "value": "7"}],
                [{**GOOD, "fileIdPrefix": "../../x"}],
                [{**GOOD, "fileIdPrefix": None}],
                [{**GOOD, "fileIdPrefix": None, "tag": "DELETE"}],
                [GOOD, {**GOOD, "fileIdPrefix": "b"}],
                [GOOD, {**GOOD, "value": 8}],
            )
        ),
    ],
)
def test_what_is_no_ring_is_refused(content: bytes) -> None:
    with pytest.raises(TableError, match="some/path is no hashing metadata"):
        Ring.parse(content, "p", "some/path")


def test_names_of_files() -> None:
    assert ring_instant("20260101000000000.hashing_meta") == "20260101000000000"
    for name in (".00000000000000.hashing_meta.crc", "1.hashing_meta", "x.hashing_meta", f"{FIRST}.commit"):
        assert ring_instant(name) is None


def view(*committed: str, first: str) -> TimelineView:
    return TimelineView(frozenset(map(InstantTime, committed)), InstantTime(first), None)


def kept(path: Path, ring: Ring) -> None:
    file = Path(ring_path(str(path), ring.partition, ring.instant))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(ring.to_json())


def test_the_newest_ring_whose_commit_is_there_counts(tmp_path: Path) -> None:
    old, new = "20260101000000000", "20260202000000000"
    rings: list[Any] = [Ring.first("p", 2)]
    rings += [rings[0].renewed(old), rings[0].renewed(old).renewed(new)]
    for ring in rings:
        kept(tmp_path, ring)

    def found(snapshot: TimelineView) -> Any:
        return Rings(TableRef.of(str(tmp_path)), snapshot).of("p")

    assert found(view(first=old)) == rings[0]
    assert found(view(old, first=old)) == rings[1]
    assert found(view(old, new, first=old)) == rings[2]
    assert Rings(TableRef.of(str(tmp_path)), view(first=old)).of("other") is None
    # older than the timeline: committed, or rolled back, which the file groups show
    assert found(view(first="20260303000000000")) == rings[0]
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / f"{rings[1].nodes[0].file_id}_0-1-2_{old}.parquet").touch()
    assert found(view(first="20260303000000000")) == rings[1]
    Path(ring_path(str(tmp_path), "p", InstantTime(new))).with_suffix(".commit").touch()
    assert found(view(first="20260303000000000")) == rings[2]
