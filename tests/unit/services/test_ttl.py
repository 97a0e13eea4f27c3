"""Partition TTL: which partitions go, by what their days are counted from, and that nothing else does."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import CommitConflict, ConfigError, TableNotFound
from hoodie.timeline import clock
from hoodie.timeline.time import InstantTime
from hoodie.write.transaction import Transaction
from tests.support.tables import small_rows
from tests.unit.services.clean_support import MANUAL, MOR, REGIONS, one_region
from tests.unit.write.support import Pair, listing

DAYS = "hoodie.partition.ttl.strategy.days.retain"
STRATEGY = "hoodie.partition.ttl.management.strategy.type"
OLD = {DAYS: 30}
At = Callable[[float], None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """Sets the clock of new instants back by days; 0: to now."""

    def set_back(days: float) -> None:
        now = time.time() - days * 86_400
        monkeypatch.setattr(clock, "_last", {})
        monkeypatch.setattr(clock, "time", SimpleNamespace(time=lambda: now))

    return set_back


def aged(path: Path, at: At, options: dict[str, Any]) -> Pair:
    """eu and us are 50 days old, us was written again 10 days ago, when apac was made."""
    pair = Pair(path, options)
    for days, regions in ((50, ("eu",)), (49, ("us",)), (10, ("us",)), (9, ("apac",))):
        at(days)
        for region in regions:
            one_region(pair, region, 60 - days)
    at(0)
    return pair


def expire(pair: Pair, **more: Any) -> Any:
    options = {**MANUAL, **OLD, **more.pop("options", {})}
    return hoodie.expire_partitions(str(pair.path), options=options, **more)


def gone(pair: Pair, *regions: str) -> None:
    pair.model.delete_partitions({(region,) for region in regions})
    pair.check(f"without {regions}")


@pytest.mark.full
@pytest.mark.table_version(6)
def test_by_the_last_write(tmp_path: Path, at: At) -> None:
    """One commit as a delete of the partition by name makes it; the next run finds it."""
    pair = aged(tmp_path / "t", at, MANUAL)
    before = listing(pair.path)
    planned = expire(pair, dry_run=True)
    assert (planned.status, planned.partitions, planned.instant) == ("planned", ["eu"], "")
    assert listing(pair.path) == before
    done = expire(pair)
    assert (done.status, done.partitions, done.left, done.days) == ("deleted", ["eu"], 0, 30)
    assert (done.num_replaced, done.bytes, done.since) == (planned.num_replaced, planned.bytes, planned.since)
    gone(pair, "eu")
    commit = json.loads((pair.path / f".hoodie/{done.instant}.replacecommit").read_text())
    assert commit["operationType"] == "DELETE_PARTITION"
    assert list(commit["partitionToReplaceFileIds"]) == ["eu"]
    again = expire(pair)
    assert (again.status, again.reason) == ("skipped", "no partition is older than 30 days")
    assert (again.instant, again.partitions) == (done.instant, ["eu"])


@pytest.mark.full
def test_by_creation(tmp_path: Path, at: At) -> None:
    pair = aged(tmp_path / "t", at, MANUAL)
    (pair.path / "eu/.hoodie_partition_metadata").write_text("partitionDepth=1\n")
    done = expire(pair, options={STRATEGY: "KEEP_BY_CREATION_TIME"})
    assert done.partitions == ["us"], "eu has no time of creation"
    gone(pair, "us")


def test_rows_in_logs_keep_their_partition(tmp_path: Path, at: At) -> None:
    """Their file slice is as old as its base file."""
    pair = Pair(tmp_path / "t", MOR)
    at(50)
    pair.write(small_rows(range(30), 1))
    at(0)
    one_region(pair, "eu", 2)
    one_region(pair, "us", 2)
    for log in (pair.path / "us").glob(".*.log.*"):
        os.utime(log, (time.time() - 45 * 86_400,) * 2)
    assert expire(pair).partitions == ["apac", "us"]
    gone(pair, "apac", "us")


@pytest.mark.full
def test_some_partitions_and_some_at_once(tmp_path: Path, at: At) -> None:
    pair = aged(tmp_path / "t", at, MANUAL)
    selected = "hoodie.partition.ttl.strategy.partition.selected"
    limit = {DAYS: 5, "hoodie.partition.ttl.strategy.max.delete.partitions": 1}
    only = expire(pair, options={**limit, selected: "apac,us,nowhere"})
    assert (only.partitions, only.left) == (["us"], 1)
    assert expire(pair, options={**limit, selected: "nowhere"}).status == "skipped"
    assert expire(pair, options=limit).partitions == ["eu"]
    gone(pair, "us", "eu")


@pytest.mark.full
def test_a_partition_that_is_written_meanwhile_stays(
    tmp_path: Path, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the choice and the begin of the commit."""
    pair, taken = aged(tmp_path / "t", at, MANUAL), Transaction.take

    def take_late(transaction: Transaction) -> None:
        monkeypatch.setattr(Transaction, "take", taken)
        one_region(pair, "eu", 99)
        taken(transaction)

    monkeypatch.setattr(Transaction, "take", take_late)
    assert expire(pair).status == "skipped"
    pair.check("eu is as young as its last write")


@pytest.mark.full
def test_a_savepoint_keeps_what_was_deleted(tmp_path: Path, at: At) -> None:
    pair = aged(tmp_path / "t", at, MANUAL)
    saved = hoodie.savepoint_table(str(pair.path)).instant
    assert expire(pair).partitions == ["eu"]
    gone(pair, "eu")
    one_region(pair, "apac", 60)
    hoodie.clean_table(str(pair.path), options={"hoodie.cleaner.commits.retained": 1})
    hoodie.restore_table(str(pair.path), InstantTime(saved))
    rows = hoodie.read_table(str(pair.path), meta=False)
    assert set(rows.column("region").to_pylist()) == set(REGIONS)


@pytest.mark.full
def test_what_is_in_the_way(tmp_path: Path, at: At) -> None:
    pair = aged(tmp_path / "t", at, MANUAL)
    by_name = {**MANUAL, "hoodie.clustering.plan.strategy.sort.columns": "name"}
    plan = hoodie.cluster_table(str(pair.path), mode="schedule", options=by_name).scheduled
    before = listing(pair.path)
    for dry_run in (True, False):
        with pytest.raises(CommitConflict, match=f"pending clustering {plan} works on its file group"):
            expire(pair, dry_run=dry_run)
    assert listing(pair.path) == before


def test_what_is_wrong_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with pytest.raises(TableNotFound):
        hoodie.expire_partitions(path, options=OLD)
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.bloom.num_entries": 100}
    hoodie.write_table(pa.table({"id": ["a"]}), path, options=options)
    for given in ({}, {DAYS: 0}):
        with pytest.raises(ConfigError, match=f"{DAYS} is (-1|0); say how many days"):
            hoodie.expire_partitions(path, options=given)
    kind = "org.apache.hudi.table.action.ttl.strategy.KeepByTimeStrategy"
    with pytest.raises(ConfigError, match="name it by hoodie"):
        hoodie.expire_partitions(path, options={**OLD, "hoodie.partition.ttl.strategy.class": kind})
    with pytest.raises(ConfigError, match="run `hoodie expire-partitions` after the writes"):
        hoodie.expire_partitions(path, options={**OLD, "hoodie.partition.ttl.inline": "true"})
    result = hoodie.expire_partitions(path, options=OLD)
    assert (result.status, result.reason) == ("skipped", "the table has no partitions")
