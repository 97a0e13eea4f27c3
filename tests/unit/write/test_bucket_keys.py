"""Keys that Apache Hudi 0.15.0 and 1.x put into different buckets: a stored key stays where it is.

Apache Hudi's own writes are in `tests/interop/test_bucket_keys.py`; here we write as it does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import pipeline, service_api
from hoodie.engine.streams import Stream
from hoodie.errors import ConfigError, TableError
from hoodie.index.bucket import BucketIndex
from hoodie.index.hashed_values import Hashing, HashRule, ring_hashes
from hoodie.index.locations import KeySearch
from hoodie.table.handle import Table
from hoodie.table.hash_ring import Rings
from hoodie.table.properties import INITIAL_VERSION
from hoodie.write.operation import Operation, WriteRequest
from tests.support.at_once import OPTIMISTIC
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but
from tests.unit.write.test_bucket_index import BUCKET, TYPE, TYPES, forget
from tests.unit.write.test_retries import Faster, Held

BUCKETS = 4
RING = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING", TYPE: "MERGE_ON_READ"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "copy_on_write": {TYPE: TYPES[0]},
    "merge_on_read": {TYPE: TYPES[1]},
    "ring": RING,
}
#: of `id`; each rule has its own bucket for most of them
ODD = [f"2014-10-22 13:{minute:02d}" for minute in range(10, 40)]
PLAIN = [f"k{number}" for number in range(20)]
COMPACT = {"hoodie.compact.inline.max.delta.commits": 1}


def keyed(keys: list[str], ts: int = 1) -> pa.Table:
    count = len(keys)
    return pa.table({"id": keys, "day": ["d0"] * count, "ts": [ts] * count, "val": [ts] * count})


@contextlib.contextmanager
def as_written_by(rule: HashRule) -> Iterator[None]:
    """Keys are hashed as an Apache Hudi does, which looks for no other place of theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hashing, "of", lambda _: Hashing(rule))
        yield


def put(table: Path, incoming: pa.Table, layout: str, operation: Any = "upsert", **more: Any) -> Any:
    options = {**BUCKET, **LAYOUTS[layout], **more}
    return hoodie.write_table(incoming, str(table), operation=operation, options=options)


def places(table: Path) -> dict[str, str]:
    """The file group of each key, which is there once."""
    rows = hoodie.read_table(str(table), meta=True).to_pylist()
    found = {row["id"]: row["_hoodie_file_name"].partition("_")[0] for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def expected(table: Path, layout: str, rule: HashRule, keys: list[str]) -> dict[str, str]:
    """The file group of each key by a rule; of numbered buckets the number."""
    if layout == "ring":
        opened = Table.open(str(table))
        ring = Rings(opened.ref, opened.view).of("d0")
        assert ring is not None
        numbers = ring.place(ring_hashes(pa.array(keys), ("id",), rule))
        return dict(zip(keys, [ring.nodes[number].file_id for number in numbers.tolist()], strict=True))
    index = BucketIndex(BUCKETS, ("id",), Hashing(rule))
    placed = index.place("d0", pa.array(keys)).tolist()
    return dict(zip(keys, [f"{number:08d}-" for number in placed], strict=True))


def assert_by(table: Path, layout: str, rule: HashRule, found: dict[str, str]) -> None:
    assert found
    groups = expected(table, layout, rule, [*found])
    assert {key: group for key, group in found.items() if not group.startswith(groups[key])} == {}


def kept(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """The places of keys that came later; the others have stayed."""
    assert {key for key, group in before.items() if after.get(key, group) != group} == set()
    return {key: group for key, group in after.items() if key not in before}


@pytest.mark.table_version(6)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_version_6_has_keys_of_either(tmp_path: Path, layout: str) -> None:
    """Rows that Apache Hudi 1.x has put by its hash are updated and deleted there; new ones go where 0.15.0
    looks for them.
    """
    table = tmp_path / "t"
    with as_written_by(HashRule.SINCE_1):
        put(table, keyed([*ODD[:20], *PLAIN]), layout)
        put(table, keyed(ODD[:5], 2), layout)
    forget(table)
    theirs = places(table)
    assert_by(table, layout, HashRule.SINCE_1, theirs)
    put(table, keyed([*ODD[10:], "k1", "new"], 3), layout)
    put(table, keyed(ODD[:3], 4), layout, "delete")
    assert_by(table, layout, HashRule.BEFORE_1, kept(theirs, places(table)))
    now = [keyed(ODD[3:5], 2), keyed([*ODD[5:10], *(key for key in PLAIN if key != "k1")])]
    rows = pa.concat_tables([*now, keyed([*ODD[10:], "k1", "new"], 3)])
    assert_same_rows(hoodie.read_table(str(table)), rows)
    if layout != "copy_on_write":
        hoodie.compact_table(str(table), options=COMPACT)
        put(table, keyed(ODD[5:], 5), layout)
        assert kept(theirs, places(table)).keys() == {*ODD[20:], "new"}


@pytest.mark.table_version(6)
@pytest.mark.parametrize("layout", full_but({"copy_on_write"}, LAYOUTS))
def test_a_key_that_both_buckets_contain_is_refused_by_name(tmp_path: Path, layout: str) -> None:
    """Until its partition is written anew."""
    table = tmp_path / "t"
    with as_written_by(HashRule.SINCE_1):
        put(table, keyed(ODD[:3]), layout)
    with as_written_by(HashRule.BEFORE_1):
        put(table, keyed(ODD[2:9]), layout)
    put(table, keyed([*ODD[:2], *ODD[3:12]], 2), layout)
    for operation in ("upsert", "delete"):
        with pytest.raises(
            TableError, match=rf"key '{ODD[2]}' of partition 'd0' is in bucket \d and in bucket"
        ):
            put(table, keyed(ODD[:9], 3), layout, operation)
    put(table, keyed(ODD[:9], 4), layout, "insert_overwrite")
    put(table, keyed(ODD, 5), layout)
    assert_by(table, layout, HashRule.BEFORE_1, places(table))


@pytest.mark.parametrize("layout", full_but({"merge_on_read"}, LAYOUTS))
@pytest.mark.parametrize("keys", [PLAIN, [f"id:{key},day:x" for key in ODD]])
def test_only_keys_of_two_buckets_are_looked_up(
    tmp_path: Path, layout: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others cost nothing, though these have a colon; nor does a table that was made with version 9."""
    table, later = tmp_path / "t", tmp_path / "later"
    with monkeypatch.context() as patch:
        patch.setattr(KeySearch, "look", pytest.fail)
        put(table, keyed(keys), layout)
        put(table, keyed(keys, 2), layout)
        put(later, keyed(ODD), layout, **{"hoodie.write.table.version": 9})
        put(later, keyed(ODD, 2), layout)
        assert_by(later, layout, HashRule.SINCE_1, places(later))
        assert_same_rows(hoodie.read_table(str(later)), keyed(ODD, 2))
    assert_same_rows(hoodie.read_table(str(table)), keyed(keys, 2))


@pytest.mark.table_version(6)
@pytest.mark.parametrize("layout", full_but({"copy_on_write", "ring"}, LAYOUTS))
def test_keys_stay_when_the_version_changes(tmp_path: Path, layout: str) -> None:
    table = tmp_path / "t"
    put(table, keyed(ODD[:10]), layout)
    first = places(table)
    service_api.upgrade_table(str(table), "9")
    assert Table.open(str(table)).properties[INITIAL_VERSION] == "6"
    put(table, keyed(ODD[:20], 2), layout)
    second = places(table)
    assert_by(table, layout, HashRule.SINCE_1, kept(first, second))
    service_api.downgrade_table(str(table), "6")
    put(table, keyed(ODD, 3), layout)
    assert_by(table, layout, HashRule.BEFORE_1, kept(second, places(table)))
    assert_same_rows(hoodie.read_table(str(table)), keyed(ODD, 3))


def test_writers_that_do_not_block_each_other_find_stored_keys(tmp_path: Path) -> None:
    """Both of a key that each of them inserts, too, which gets one bucket."""
    table = tmp_path / "t"
    put(table, keyed(ODD[:10]), "merge_on_read")
    first = places(table)
    service_api.upgrade_table(str(table), "9")
    mode = {**OPTIMISTIC, "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
    engine, incoming = Held(), keyed(ODD, 3)
    frame = engine.frame(Stream(incoming.schema, (lambda: iter(incoming.to_batches()),)))
    request = WriteRequest(str(table), Operation.UPSERT, {**BUCKET, **LAYOUTS["merge_on_read"], **mode})
    other = partial(put, table, keyed(ODD, 2), "merge_on_read", **mode)
    pipeline.write(engine, frame, request, Faster(other))
    assert len(hoodie.instants(str(table))) == 3
    assert_by(table, "merge_on_read", HashRule.SINCE_1, kept(first, places(table)))
    assert_same_rows(hoodie.read_table(str(table)), keyed(ODD, 3))


def test_a_table_that_was_of_version_9_before_is_looked_into_after_its_upgrade(tmp_path: Path) -> None:
    """Whatever Apache Hudi's downgrade has left of its first version."""
    table = tmp_path / "t"
    put(table, keyed(ODD[:10]), "copy_on_write")
    with (table / ".hoodie" / "hoodie.properties").open("a") as file:
        file.write(f"{INITIAL_VERSION}=9\n")
    service_api.upgrade_table(str(table), "9")
    put(table, keyed(ODD, 2), "copy_on_write")
    assert places(table).keys() == {*ODD}


def test_buckets_of_either_are_split_and_merged(tmp_path: Path) -> None:
    """Rows go to the halves where they are looked for."""
    table = tmp_path / "t"
    with as_written_by(HashRule.SINCE_1):
        put(table, keyed([*ODD[:15], *PLAIN]), "ring")
    put(table, keyed(ODD, 2), "ring")
    hoodie.compact_table(str(table), options=COMPACT)
    for limits in (
        {"max.num.buckets": "8", "split.threshold": "0.00000001", "merge.threshold": "0.000000001"},
        {"min.num.buckets": "2"},
    ):
        options = {f"hoodie.bucket.index.{name}": text for name, text in limits.items()}
        assert hoodie.cluster_table(str(table), options={**BUCKET, **RING, **options}).num_outputs
        there = places(table)
        put(table, keyed([*ODD, *PLAIN], 3), "ring")
        assert places(table) == there
    rows = hoodie.read_table(str(table))
    assert_same_rows(rows, keyed([*ODD, *PLAIN], 3))


def test_a_number_of_buckets_is_recognised_by_keys_of_either(tmp_path: Path) -> None:
    table = tmp_path / "t"
    with as_written_by(HashRule.SINCE_1):
        put(table, keyed(ODD), "copy_on_write")
    forget(table)
    with pytest.raises(ConfigError, match=r"they fit .*num.buckets=4$"):
        put(table, keyed(ODD), "copy_on_write", **{"hoodie.bucket.index.num.buckets": 7})


@pytest.mark.table_version(6)
@pytest.mark.parametrize(("keys", "staged"), [(ODD, 2), (PLAIN, 1)], ids=["odd", "plain"])
def test_a_write_that_loses_places_such_keys_again(tmp_path: Path, keys: list[str], staged: int) -> None:
    """Apache Hudi 1.x has inserted them meanwhile. Rows of other keys are staged once."""
    table, incoming = tmp_path / "t", keyed(keys, 3)
    options = {**BUCKET, **OPTIMISTIC, "hoodie.write.num.retries.on.conflict.failures": "2"}
    put(table, keyed(["other"]), "copy_on_write")

    def other() -> None:
        with as_written_by(HashRule.SINCE_1):
            put(table, keyed(keys, 2), "copy_on_write", **OPTIMISTIC)

    engine = Held()
    frame = engine.frame(Stream(incoming.schema, (lambda: iter(incoming.to_batches()),)))
    request = WriteRequest(str(table), Operation.UPSERT, options)
    pipeline.write(engine, frame, request, Faster(other))
    assert places(table).keys() == {*keys, "other"}
    assert set(hoodie.read_table(str(table)).column("ts").to_pylist()) == {1, 3}
    assert len(engine.persisted) == staged
