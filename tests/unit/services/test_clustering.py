"""Clustering of tables that we wrote, on the local engine: plans, what they make, and what comes between."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.engine.local import LocalEngine
from hoodie.errors import ConfigError, ConflictError, TableError
from hoodie.format.base_file import BaseFileReader, footer_of
from hoodie.services.clustering.run import cluster as run_cluster
from hoodie.services.request import RewriteRequest
from hoodie.services.service_table import ServiceTable
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import Heartbeat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import InstantTime
from hoodie.write.transaction import Transaction
from tests.support.stores import after, store_at
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, as_table, full_rows, small_rows, without
from tests.support.tiers import full_but
from tests.unit.services.clustering_support import (
    GROUP_BYTES,
    LAYOUT,
    METHOD,
    MOR,
    NO_PACKING,
    SMALL,
    SORT,
    STORAGE,
    TARGET,
    check_kept,
    cluster,
    commit_of,
    file_ids,
    litter,
    meta_rows,
    plan_file,
    plan_of,
    stored,
    timeline,
)
from tests.unit.write.support import BUDGET, OPTIONS, PLAIN, Pair, Templates, data_files, listing, plain

ROLL_BACK = "hoodie.clustering.rollback.pending.replacecommit.on.conflict"
UPDATES = "hoodie.clustering.updates.strategy"


def filled(path: Path, options: dict[str, Any]) -> Pair:
    """Three partitions of several files each; in a merge-on-read table with logs."""
    pair = Pair(path, {**options, **NO_PACKING})
    pair.write(small_rows(range(60), 1), "insert")
    pair.write(small_rows(range(60, 90), 2), "insert")
    pair.write(small_rows(range(20, 40), 3) + small_rows(range(90, 100), 3))
    return pair


def of_every_type(path: Path) -> Pair:
    pair = Pair(path, {**MOR, **NO_PACKING}, without(FULL_SCHEMA, "c_ntz"))
    for version in range(3):
        pair.write(full_rows(range(version * 40, version * 40 + 60), version + 1))
    return pair


def of_one_partition(path: Path) -> Pair:
    pair = Pair(path, {**OPTIONS, **NO_PACKING, "hoodie.datasource.write.partitionpath.field": ""})
    for start in range(0, 800, 200):
        pair.write(small_rows(range(start, start + 200), 1), "insert")
    return pair


@pytest.fixture(params=full_but({"MERGE_ON_READ"}, ["COPY_ON_WRITE", "MERGE_ON_READ"]))
def table(request: pytest.FixtureRequest, tmp_path: Path, templates: Templates) -> Pair:
    return templates.copy(tmp_path / "t", filled, OPTIONS if request.param == "COPY_ON_WRITE" else MOR)


# --- what is made ------------------------------------------------------------------------------------------


def test_small_files_become_one_sorted_file_a_partition(table: Pair) -> None:
    before, groups = meta_rows(table.path), file_ids(table.path)
    result = cluster(table.path, options={SORT: "name,id"})
    assert (result.status, result.num_replaced, result.num_files) == ("clustered", 9, 3)
    assert (result.num_writes, result.pending, result.reason) == (100, [], "")
    check_kept(table, before)
    assert file_ids(table.path).isdisjoint(groups)
    for file in data_files(table.path):
        rows = [tuple(row.values()) for row in stored(file, "name", "id").to_pylist()]
        assert rows == sorted(rows, key=lambda row: (row[0] is None, row))
    assert litter(table.path) == []


def test_the_commit_says_what_was_replaced(table: Pair) -> None:
    groups = file_ids(table.path)
    result = cluster(table.path, options={SORT: "id"})
    commit = commit_of(table.path, result.instant)
    assert commit.operation_type == "CLUSTER"
    assert not commit.compacted
    replaced = commit.partition_to_replace_file_ids.items()
    assert {(partition, file_id) for partition, ids in replaced for file_id in ids} == groups
    for stat in commit.write_stats:
        assert stat.path
        assert (table.path / stat.path).stat().st_size == stat.file_size_in_bytes
        assert (stat.prev_commit, stat.num_inserts) == ("null", stat.num_writes)
    assert plan_file(table.path, result.instant).with_suffix(".inflight").read_bytes() == b""


def test_new_files_have_filters_and_key_ranges(table: Pair) -> None:
    cluster(table.path, options={SORT: "val"})
    for file in data_files(table.path):
        keys = stored(file, "_hoodie_record_key").column(0)
        footer = footer_of(STORAGE, str(file))
        ends = footer["hoodie_min_record_key"], footer["hoodie_max_record_key"]
        texts: list[Any] = keys.to_pylist()
        assert ends == (min(texts), max(texts))
        with BaseFileReader(STORAGE, str(file)) as reader:
            bloom = reader.bloom()
            assert bloom is not None
            assert bloom.might_contain(keys).all()


def test_writes_go_on_over_clustered_files(table: Pair) -> None:
    cluster(table.path, options={SORT: "val"})
    table.write(small_rows(range(10, 30), 5) + small_rows(range(100, 110), 5))
    table.write(small_rows(range(40, 45), 6, deleted=True))
    cluster(table.path, options={SORT: "val"})
    table.check("after the second clustering")
    table.write(small_rows(range(5), 7))


def test_incremental_queries_show_no_row_twice(table: Pair) -> None:
    second = timeline(table.path).commits()[1].time
    since = after(table.path, second)
    expected = hoodie.read_table(str(table.path), query="incremental", begin=since, meta=False)
    result = cluster(table.path, options={SORT: "id"})
    for begin, end, rows in (
        (since, None, expected.num_rows),
        ("earliest", since, 90),
        ("earliest", None, 100),
        (after(table.path, result.instant), None, 0),
    ):
        found = hoodie.read_table(str(table.path), query="incremental", begin=begin, end=end)
        assert found.num_rows == len(set(found.column("id").to_pylist())) == rows
    assert hoodie.read_table(str(table.path), query="time_travel", as_of=second).num_rows == 90


@pytest.mark.parametrize("part", full_but({0, 1}, range(3)))
@pytest.mark.parametrize("layout", full_but({"hilbert"}, ["linear", "z-order", "hilbert"]))
@pytest.mark.parametrize(
    ("method", "budget"), full_but({"direct"}, [("direct", 1 << 30), ("sample", 1 << 16)])
)
def test_every_type_can_be_sorted_by(
    tmp_path: Path, templates: Templates, layout: str, method: str, budget: int, part: int
) -> None:
    pair = templates.copy(tmp_path / "t", of_every_type)
    before = meta_rows(pair.path)
    flat = [name for name in pair.schema.names if name.startswith("c_") and not _nested(name)]
    columns = (flat[:6], flat[6:], [*flat[3:5], "id"])[part]
    options = {SORT: ",".join(columns), LAYOUT: layout, METHOD: method, BUDGET: budget}
    result = cluster(pair.path, options=options)
    assert (result.status, result.num_writes) == ("clustered", 140)
    check_kept(pair, before, f"{layout} by {columns}")


def _nested(name: str) -> bool:
    return name.startswith(("c_arr", "c_map", "c_struct"))


@pytest.mark.parametrize("columns", ["", "val,name", "name"])
def test_a_group_is_cut_where_cores_would_be_idle(tmp_path: Path, templates: Templates, columns: str) -> None:
    pair = templates.copy(tmp_path / "t", of_one_partition)
    size = sum(file.stat().st_size for file in data_files(pair.path))
    before, said = meta_rows(pair.path), []
    options = {TARGET: -(-size // 3), **({SORT: columns} if columns else {})}
    result = run_cluster(
        RewriteRequest(
            table=str(pair.path),
            options=options,
            engine=lambda: LocalEngine(3),
            progress=lambda *step: said.append(step),
        )
    )
    assert f"instant {result.instant}: 4 file slices in 1 groups, 3 tasks" in dict(said)["cluster"]
    check_kept(pair, before)
    assert result.num_files == len(data_files(pair.path)) > 2
    if columns:
        first = columns.split(",")[0]
        ends = [
            (min(values), max(values))
            for file in data_files(pair.path)
            if (values := [value for value in stored(file, first).column(0).to_pylist() if value is not None])
        ]
        ends.sort()
        assert all(high <= low for (_, high), (low, _) in itertools.pairwise(ends))


def test_files_end_at_the_target_size(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", {**OPTIONS, **NO_PACKING})
    for start in range(0, 1200, 300):
        pair.write(small_rows(range(start, start + 300), 1), "insert")
    sizes = [file.stat().st_size for file in data_files(pair.path, "eu")]
    cluster(pair.path, options={SORT: "id", TARGET: sum(sizes) // 2 + 1})
    assert len(data_files(pair.path, "eu")) == 2
    rows = [stored(file, "id").num_rows for file in data_files(pair.path, "eu")]
    assert rows == [200, 200]


def test_files_that_grow_by_another_codec_become_more(tmp_path: Path) -> None:
    """Their number is estimated by the sizes before; the size of each is looked at while it is written."""
    chance, options = random.Random(1), {**PLAIN, **NO_PACKING}
    rows = plain(*((f"{number:06d}", 1, chance.randbytes(50).hex()) for number in range(4000)))
    for start in range(0, 4000, 1000):
        hoodie.write_table(rows.slice(start, 1000), str(tmp_path / "t"), operation="insert", options=options)
    sizes = [file.stat().st_size for file in data_files(tmp_path / "t")]
    assert len(sizes) == 4
    stored_plainly = {"hoodie.parquet.compression.codec": "uncompressed"}
    cluster(tmp_path / "t", options={SORT: "id", TARGET: max(sizes) + 1, **stored_plainly})
    assert len(data_files(tmp_path / "t")) > 4


# --- plans -------------------------------------------------------------------------------------------------


def test_a_plan_names_files_and_order(table: Pair) -> None:
    options = {SORT: "val,id", LAYOUT: "hilbert", TARGET: 1000}
    result = cluster(table.path, "schedule", options=options, extra_metadata={"who": "test"})
    assert (result.status, result.num_replaced, result.num_files) == ("scheduled", 9, 0)
    plan = plan_of(table.path, result.instant)
    assert plan.strategy_class
    assert plan.strategy_class.endswith("SparkSortAndSizeExecutionStrategy")
    assert plan.params[SORT] == "val,id"
    assert plan.params[LAYOUT] == "hilbert"
    assert plan.preserve_metadata
    assert [group.outputs > 1 for group in plan.groups] == [True] * 3
    for item in plan.slices:
        assert item.data_file is not None
        assert item.data_file.startswith(f"file:{table.path}/")
        assert (table.path / item.partition_path / str(item.base_name)).exists()
    done = cluster(table.path, "execute", options={})
    assert done.clustered == [result.instant]
    assert done.num_files > 3
    assert commit_of(table.path, result.instant).extra_metadata["who"] == "test"


def test_a_dry_run_writes_nothing(table: Pair) -> None:
    before = listing(table.path)
    result = cluster(table.path, dry_run=True, options={SORT: "id"})
    assert (result.status, result.num_replaced, result.num_outputs) == ("planned", 9, 3)
    assert len(result.files[""]) >= 9
    assert listing(table.path) == before


def test_what_is_clustered_already_is_left_alone(table: Pair) -> None:
    cluster(table.path, options={SORT: "id"})
    before = listing(table.path)
    again = cluster(table.path, options={SORT: "id"})
    assert (again.status, again.reason) == (
        "skipped",
        "rewriting the 3 small file slices would change nothing",
    )
    assert listing(table.path) == before
    assert cluster(table.path, options={SORT: "val"}).status == "clustered"
    assert cluster(table.path, options={}).status == "skipped"


def test_nothing_small_is_nothing_to_do(tmp_path: Path) -> None:
    """Without logs: a slice of logs only is small always."""
    result = cluster(filled(tmp_path / "t", OPTIONS).path, options={SMALL: 10})
    assert result.reason == f"no file is smaller than 10 bytes ({SMALL})"


def test_groups_in_pending_plans_are_left_out(table: Pair) -> None:
    first = cluster(
        table.path, "schedule", options={"hoodie.clustering.plan.strategy.partition.selected": "eu"}
    )
    second = cluster(table.path, "schedule", options={SORT: "id", GROUP_BYTES: 1})
    assert plan_of(table.path, first.instant).partitions == ["eu"]
    assert plan_of(table.path, second.instant).partitions == ["apac", "us"]
    third = cluster(table.path, "schedule")
    assert third.reason == "all 9 small file slices are in pending plans already"
    before = meta_rows(table.path)
    done = cluster(table.path, "execute")
    assert done.clustered == [first.instant, second.instant]
    check_kept(table, before)


def test_a_chosen_plan_alone_is_executed(table: Pair) -> None:
    first = cluster(
        table.path, "schedule", options={"hoodie.clustering.plan.strategy.partition.selected": "eu"}
    )
    second = cluster(table.path, "schedule")
    done = cluster(table.path, "execute", instant=second.instant)
    assert (done.clustered, done.pending) == ([second.instant], [first.instant])
    again = cluster(table.path, "execute", instant=second.instant)
    assert again.reason == f"clustering {second.instant} is completed already"
    with pytest.raises(ConfigError, match=f"no clustering 123 is pending .* pending are {first.instant}"):
        cluster(table.path, "execute", instant="123")
    with pytest.raises(ConfigError, match="is for mode execute"):
        cluster(table.path, "run", instant=first.instant)
    with pytest.raises(ConfigError, match="mode is 'now'"):
        cluster(table.path, "now")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({SORT: "val,nope"}, "names nope, which the table does not have"),
        ({SORT: "val,name,val"}, "names val more than once; name each column once"),
        ({LAYOUT: "spiral"}, "expected one of linear, z-order, hilbert"),
        (
            {"hoodie.clustering.plan.strategy.class": "org.apache.hudi.SparkSizeBasedPlanStrategy"},
            "the nearest is SparkSizeBasedClusteringPlanStrategy",
        ),
        (
            {"hoodie.clustering.execution.strategy.class": "my.Own"},
            "expected one of consistent_hashing, sort_and_size",
        ),
        ({"hoodie.clustering.plan.strategy.partition.regex.pattern": "("}, "is no regular expression"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_written(
    table: Pair, options: dict[str, Any], text: str
) -> None:
    before = listing(table.path)
    with pytest.raises(ConfigError, match=text):
        cluster(table.path, options=options)
    assert listing(table.path) == before


def test_nested_columns_have_no_order(tmp_path: Path) -> None:
    schema = without(FULL_SCHEMA, "c_ntz")
    pair = Pair(tmp_path / "t", OPTIONS, schema)
    pair.write(full_rows(range(5), 1))
    with pytest.raises(ConfigError, match=r"names 'c_struct', which is struct.* and has no order"):
        cluster(pair.path, options={SORT: "id,c_struct"})


# --- writers beside a pending clustering -------------------------------------------------------------------


def test_updates_of_a_pending_group_are_refused(table: Pair) -> None:
    planned = cluster(table.path, "schedule", options={SORT: "id"})
    before = listing(table.path)
    for options in ({}, {ROLL_BACK: True, UPDATES: "SparkRejectUpdateStrategy"}):
        with pytest.raises(ConflictError) as caught:
            hoodie.write_table(_rows(range(3), 9), str(table.path), options={**table.options, **options})
        assert planned.instant in caught.value.message
        assert "hoodie cluster --mode execute" in caught.value.message
    assert listing(table.path) == before
    table.write(small_rows(range(200, 230), 9), "insert")
    table.write(small_rows(range(200, 230), 10))
    cluster(table.path, "execute")
    table.check("after the clustering")
    table.write(small_rows(range(3), 11))


def _rows(numbers: range, version: int) -> Any:
    return as_table(small_rows(numbers, version), SMALL_SCHEMA)


def test_a_pending_clustering_gives_way_where_it_may(table: Pair) -> None:
    kept = cluster(
        table.path, "schedule", options={"hoodie.clustering.plan.strategy.partition.selected": "us"}
    )
    planned = cluster(table.path, "schedule", options={SORT: "id"})
    updates = [row for row in small_rows(range(12), 9) if row["region"] != "us"]
    given: dict[str, Any] = {ROLL_BACK.replace(".", "__"): True}
    result = table.write(updates, **given)
    assert result.rolled_back == [planned.instant]
    left = list(timeline(table.path).pending())
    assert [item.time for item in left] == [kept.instant]
    rollbacks = timeline(table.path).filter([Action.ROLLBACK], completed=True)
    assert len(rollbacks) == 1
    assert rollbacks[0].is_before(result.instant)
    cluster(table.path)
    table.check("clustered after all")
    assert litter(table.path) == []


def test_a_clustering_that_is_being_executed_does_not_give_way(table: Pair) -> None:
    planned = cluster(table.path, "schedule")
    config = table_config(table)
    with Transaction(Table(TableRef(str(table.path)), STORAGE), config, True) as transaction:
        action = store_at(table.path).layout.clustering
        transaction.resume(Instant(InstantTime(planned.instant), action, State.REQUESTED), ["eu"])
        with pytest.raises(ConflictError, match=f"{action.value} {planned.instant} .* is executing it"):
            hoodie.write_table(
                _rows(range(3), 9), str(table.path), options={**table.options, ROLL_BACK: True}
            )
        with pytest.raises(ConflictError, match=f"{action.value} {planned.instant} of"):
            cluster(table.path, "execute")
    assert cluster(table.path, "execute").clustered == [planned.instant]


def table_config(table: Pair) -> Any:
    return ServiceTable.open(str(table.path), {}).config


def test_a_change_since_the_plan_stops_its_execution(table: Pair) -> None:
    """Apache Hudi may be set to update groups under clustering; what it wrote must not get lost."""
    planned = cluster(table.path, "schedule")
    plan = plan_file(table.path, planned.instant)
    aside = plan.rename(table.path / "aside")
    table.write(small_rows(range(3), 9))
    aside.rename(plan)
    with pytest.raises(ConflictError, match=r"was changed since clustering .* it was cancelled"):
        cluster(table.path, "execute")
    assert not litter(table.path)
    table.check("as the write left it")
    again = cluster(table.path, "run")
    assert again.clustered == [again.scheduled] != [planned.instant]
    table.check("clustered by a new plan")


def test_an_outdated_plan_is_left_to_the_user_while_a_writer_is_at_work(table: Pair) -> None:
    planned = cluster(table.path, "schedule")
    plan = plan_file(table.path, planned.instant)
    aside = plan.rename(table.path / "aside")
    table.write(small_rows(range(3), 9))
    aside.rename(plan)
    beat = Heartbeat(Table.open(str(table.path)), "29990101000000000", 60_000, 2)
    beat.start()
    try:
        with pytest.raises(ConflictError, match=f"hoodie cancel --instant {planned.instant}"):
            cluster(table.path, "execute")
    finally:
        beat.stop()
    assert plan.exists()


def test_a_missing_file_is_told(table: Pair) -> None:
    planned = cluster(table.path, "schedule")
    item = plan_of(table.path, planned.instant).slices[0]
    (table.path / item.partition_path / str(item.base_name)).unlink()
    with pytest.raises((TableError, ConflictError), match=item.file_id):
        cluster(table.path, "execute")


def test_a_plan_for_apache_hudi_alone_is_left_to_it(table: Pair) -> None:
    planned = cluster(table.path, "schedule")
    path = plan_file(table.path, planned.instant)
    own = b"SparkSortAndSizeExecutionStrategy"
    other = b"SparkConsistentBucketExecutionSty"
    assert len(own) == len(other)
    path.write_bytes(path.read_bytes().replace(own, other))
    with pytest.raises(TableError, match="execute it with Apache Hudi"):
        cluster(table.path, "execute")


# --- inline ------------------------------------------------------------------------------------------------


def test_inline_every_so_many_commits(tmp_path: Path) -> None:
    more = {"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": 2, SORT: "id"}
    pair = Pair(tmp_path / "t", {**OPTIONS, **NO_PACKING, **more})
    for number in range(4):
        result = pair.write(small_rows(range(number * 9, number * 9 + 9), 1), "insert")
        assert result.warnings == []
    actions = [item.action.value for item in timeline(pair.path).commits()]
    assert actions == [*["commit"] * 2, "replacecommit", *["commit"] * 2, "replacecommit"]


@pytest.mark.parametrize("switch", ["schedule.inline", "async.enabled"])
def test_inline_plans_are_left_to_another_job(tmp_path: Path, switch: str) -> None:
    pair = Pair(tmp_path / "t", {**OPTIONS, **NO_PACKING, f"hoodie.clustering.{switch}": True})
    for number in range(5):
        pair.write(small_rows(range(number * 9, number * 9 + 9), 1), "insert")
    pending = list(timeline(pair.path).pending())
    assert [item.action for item in pending] == [store_at(pair.path).layout.clustering]
    assert cluster(pair.path, "execute").clustered == [pending[0].time]
    pair.check("after the other job")


def test_inline_and_left_to_another_job_contradict(table: Pair) -> None:
    before = listing(table.path)
    both = {"hoodie.clustering.inline": True, "hoodie.clustering.schedule.inline": True}
    with pytest.raises(ConfigError, match="both true"):
        hoodie.write_table(_rows(range(3), 9), str(table.path), options={**table.options, **both})
    assert listing(table.path) == before


def test_a_number_of_commits_makes_it_due(table: Pair) -> None:
    options = {"hoodie.clustering.inline.max.commits": 4}
    assert cluster(table.path, options=options).reason == (
        "no clustering is due: 3 of 4 commits so far (hoodie.clustering.inline.max.commits)"
    )
    assert cluster(table.path, options={"hoodie.clustering.inline.max.commits": 3}).status == "clustered"
