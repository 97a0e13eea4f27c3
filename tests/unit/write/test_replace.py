"""insert_overwrite, insert_overwrite_table, delete_partition: what is replaced, and what stays readable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.codec.avro import read_record, write_record
from hoodie.errors import CommitConflict, InputError, TableNotFound
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import Instant, State
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.stores import store_at
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.write.merge_on_read import MOR, NO_PACKING, MorPair, log_paths
from tests.unit.write.support import (
    HIVE_STYLE,
    MAX_FILE,
    OPTIONS,
    PLAIN,
    Pair,
    data_files,
    listing,
    plain,
    values,
)

#: where what is shown does not depend on the type of the table, one type is in the fast tier
ON_COW = pytest.mark.parametrize("kind", full_but({"cow"}, ["cow", "mor"]))
ON_MOR = pytest.mark.parametrize("kind", full_but({"mor"}, ["cow", "mor"]))
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def pair(path: Path, kind: str) -> Pair:
    if kind == "mor":
        return MorPair(path, {**MOR, **NO_PACKING, **NO_SERVICES})
    return Pair(path, {**OPTIONS, **NO_SERVICES})


def of_region(rows: list[Row], *regions: str) -> list[Row]:
    return [row for row in rows if row["region"] in regions]


def drop(table: Pair, *regions: str, **more: Any) -> Any:
    """Delete partitions of the table and its model, and compare."""
    result = hoodie.delete_partitions(str(table.path), regions, options=NO_SERVICES, **more)
    table.model.delete_partitions({(region,) for region in regions})
    table.check("after delete_partition")
    return result


def replaced(table: Path, instant: str) -> dict[str, list[str]]:
    commit = json.loads((table / f".hoodie/{instant}.replacecommit").read_text())
    groups: dict[str, list[str]] = commit["partitionToReplaceFileIds"]
    return groups


def groups(table: Path, partition: str) -> set[str]:
    return {item["file_id"] for item in hoodie.file_groups(str(table)) if item["partition"] == partition}


@pytest.mark.table_version(6)
@ON_COW
def test_an_overwrite_replaces_the_partitions_it_has_rows_for(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    table.write(small_rows(range(60), 5))
    table.write(small_rows(range(0, 60, 2), 6))
    before = groups(table.path, "eu")
    result = table.write(of_region(small_rows(range(100, 160), 1), "eu", "us"), "insert_overwrite")
    assert (result.action, result.partitions) == ("replacecommit", ["eu", "us"])
    assert set(replaced(table.path, result.instant)["eu"]) == before
    assert sorted(replaced(table.path, result.instant)) == ["eu", "us"]
    assert result.num_replaced == sum(map(len, replaced(table.path, result.instant).values()))
    assert not groups(table.path, "eu") & before, "new file groups only"
    # older rows are new ones where what was there is gone; the other partition goes on
    table.write(small_rows(range(120), 3))
    table.write(small_rows(range(30), 1), "delete")


@pytest.mark.table_version(6)
@ON_MOR
def test_an_overwrite_of_the_table_replaces_all(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    table.write(small_rows(range(60), 5))
    result = table.write(of_region(small_rows(range(100, 160), 1), "eu"), "insert_overwrite_table")
    assert sorted(replaced(table.path, result.instant)) == ["apac", "eu", "us"]
    assert result.partitions == ["apac", "eu", "us"]
    table.write(small_rows(range(10), 2))
    # what is gone already is not replaced again
    there = sum(len(groups(table.path, region)) for region in ("apac", "eu", "us"))
    result = table.write(small_rows(range(10), 2), "insert_overwrite_table")
    assert result.num_replaced == there


@ON_COW
def test_partitions_are_deleted(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    table.write(small_rows(range(60), 5))
    table.write(small_rows(range(0, 60, 2), 6))
    result = drop(table, "us")
    assert (result.status, result.action, result.operation) == (
        "committed",
        "replacecommit",
        "delete_partition",
    )
    assert (result.partitions, result.num_replaced, result.num_files) == (["us"], 1, 0)
    table.write(small_rows(range(30), 1))
    drop(table, "eu", "us")
    assert values(table.path, "region") == ["apac"] * 20


@pytest.mark.table_version(6)
@ON_MOR
def test_earlier_states_stay_readable_and_increments_show_the_new_rows(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    first = table.write(small_rows(range(30), 1)).instant
    second = table.write(of_region(small_rows(range(100, 130), 1), "eu"), "insert_overwrite").instant
    third = drop(table, "us").instant
    path = str(table.path)
    old = hoodie.read_table(path, as_of=first, meta=False)
    assert_same_rows(old, as_table(small_rows(range(30), 1), SMALL_SCHEMA))
    assert_same_rows(read_hudi_rs(table.path, as_of=first), old)
    added = hoodie.read_table(path, begin=first, end=second, columns=["id"])
    assert sorted(added.column("id").to_pylist()) == sorted(
        row["id"] for row in of_region(small_rows(range(100, 130), 1), "eu")
    )
    assert hoodie.read_table(path, begin=second, end=third).num_rows == 0


def test_rows_without_packing_are_cut_by_size(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", {**OPTIONS, MAX_FILE: 20_000, "hoodie.memory.merge.max.size": 200_000})
    table.write(small_rows(range(60), 5))
    result = table.write(of_region(small_rows(range(9000), 6), "eu"), "insert_overwrite")
    assert result.num_files > 2
    assert len(data_files(table.path, "eu")) == result.num_files


def test_duplicates_stay_unless_they_are_to_be_combined(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(9), 5))
    twice = small_rows(range(9), 6) + small_rows(range(9), 7)
    table.write(twice, "insert_overwrite")
    assert hoodie.read_table(str(table.path)).num_rows == 18
    table.write(twice, "insert_overwrite", hoodie__combine__before__insert="true")
    assert hoodie.read_table(str(table.path)).num_rows == 9


def test_rows_that_delete_make_a_partition_empty(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(9), 5))
    result = table.write(of_region(small_rows(range(9), 6, deleted=True), "eu"), "insert_overwrite")
    assert (result.partitions, result.num_files, result.num_replaced) == (["eu"], 0, 1)


def test_an_empty_input(tmp_path: Path) -> None:
    """insert_overwrite leaves all as it is, insert_overwrite_table empties the table; both are commits."""
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(9), 5))
    result = table.write([], "insert_overwrite")
    assert (result.status, result.partitions, result.num_replaced) == ("committed", [], 0)
    result = table.write([], "insert_overwrite_table")
    assert (result.partitions, result.num_replaced) == (["apac", "eu", "us"], 3)
    assert read_hudi_rs(table.path).num_rows == 0
    table.write(small_rows(range(9), 1))


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_the_first_write_of_a_table(tmp_path: Path, operation: str) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    result = table.write(small_rows(range(9), 5), operation)
    assert (result.action, result.num_replaced) == ("replacecommit", 0)
    table.write(small_rows(range(5), 6))


def test_a_table_without_partitions(tmp_path: Path) -> None:
    path = tmp_path / "t"
    hoodie.write_table(plain(("a", 1, "x"), ("b", 1, "x")), str(path), options=PLAIN)
    hoodie.write_table(plain(("c", 1, "y")), str(path), operation="insert_overwrite")
    assert values(path, "id") == ["c"]
    with pytest.raises(InputError, match=r"no partition 'a' with rows"):
        hoodie.delete_partitions(str(path), "a")
    with pytest.raises(InputError, match="insert_overwrite_table with an empty input"):
        hoodie.delete_partitions(str(path), "")
    hoodie.write_table(plain(), str(path), operation="insert_overwrite_table")
    assert values(path, "id") == []


def test_names_of_partitions(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    days = [f"2024-{month:02}-{day:02}" for month in (1, 2) for day in range(1, 4)]
    rows = pa.table({"id": days, "ts": [1] * 6, "region": days})

    def regions() -> list[str]:
        return sorted(hoodie.read_table(path, columns=["region"]).column(0).to_pylist())

    hoodie.write_table(rows, path, options={**OPTIONS, HIVE_STYLE: True})
    with pytest.raises(InputError, match=r"nearest are region=2024-01-01\. Correct"):
        hoodie.delete_partitions(path, "2024-01-01")
    with pytest.raises(InputError, match=r"nearest are .*region=2024-01-03"):
        hoodie.delete_partitions(path, ["region=2024-01-01", "region=2024-01-04"])
    with pytest.raises(InputError, match=r"no partition 'region=2023-\*'"):
        hoodie.delete_partitions(path, ["region=2024-*", "region=2023-*"])
    with pytest.raises(InputError, match="name partition paths"):
        hoodie.delete_partitions(path)
    assert regions() == days, "an error deletes nothing"
    result = hoodie.delete_partitions(path, ["region=2024-01-0*", "region=2024-02-02/"])
    assert result.partitions == [f"region={day}" for day in (*days[:3], days[4])]
    assert regions() == [days[3], days[5]]
    result = hoodie.delete_partitions(path, ["region=2024-01-01", "region=2024-02-01"], missing_ok=True)
    assert result.partitions == ["region=2024-02-01"]
    assert any("'region=2024-01-01'" in warning for warning in result.warnings)
    named = {"hoodie.datasource.write.partitions.to.delete": "region=2024-02-03"}
    assert hoodie.delete_partitions(path, options=named).partitions == ["region=2024-02-03"]
    with pytest.raises(TableNotFound, match="nothing to delete"):
        hoodie.delete_partitions(str(tmp_path / "none"), "a")


def test_a_partition_is_another_one_than_that_with_a_blank_more(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    regions = ["x", "x ", " x", " ", "y"]
    hoodie.write_table(pa.table({"id": regions, "ts": [1] * 5, "region": regions}), path, options=OPTIONS)

    def left() -> list[str]:
        found: list[str] = hoodie.read_table(path, columns=["region"]).column(0).to_pylist()
        return found

    with pytest.raises(InputError, match=r"no partition 'y ' with rows in the table; the nearest are y,"):
        hoodie.delete_partitions(path, ["y "])
    for wrong in (["y", ""], "/", ["y", None]):
        with pytest.raises(InputError, match=r"name partition paths|pass a partition path"):
            hoodie.delete_partitions(path, wrong)  # type: ignore[arg-type]
    assert sorted(left()) == sorted(regions)
    assert hoodie.delete_partitions(path, "x ").partitions == ["x "]
    named = {"hoodie.datasource.write.partitions.to.delete": " x,y"}
    assert hoodie.delete_partitions(path, options=named).partitions == [" x", "y"]
    assert hoodie.delete_partitions(path, " ").partitions == [" "]
    assert left() == ["x"]


@pytest.mark.parametrize("name", ["cow_insert_overwrite", "cow_delete_partition", "mor_insert_overwrite"])
def test_the_timeline_holds_what_apache_hudi_writes(tmp_path: Path, golden_tables: Path, name: str) -> None:
    """The same operation on the same table: the three files say the same, key by key."""
    golden = golden_tables / "0.15.0-v6" / name
    operations = json.loads((golden / "meta.json").read_text())["ops"]
    number, found = next((n, op) for n, op in enumerate(operations) if op["op"] not in ("insert", "upsert"))
    path = tmp_path / "t"
    shutil.copytree(golden / "table", path)
    for later in operations[number:]:
        for file in path.glob(f".hoodie/{later['instant']}.*"):
            file.unlink()
    theirs = golden / "table/.hoodie" / f"{found['instant']}.replacecommit"
    if found["op"] == "delete_partition":
        result = hoodie.delete_partitions(str(path), "us")
    else:
        regions = list(json.loads(theirs.read_text())["partitionToReplaceFileIds"])
        rows = hoodie.read_table(str(path), meta=False).slice(0, 20)
        rows = rows.set_column(rows.schema.get_field_index("region"), "region", pa.array(regions * 20))
        result = hoodie.write_table(rows, str(path), operation="insert_overwrite")
    ours = path / ".hoodie" / f"{result.instant}.replacecommit"
    assert shape(json.loads(ours.read_text())) == shape(json.loads(theirs.read_text()))
    assert ours.read_text().startswith('{\n  "partitionToWriteStats" : {')
    began = [json.loads(file.with_suffix(".replacecommit.inflight").read_text()) for file in (ours, theirs)]
    assert list(began[0]) == list(began[1])
    assert began[0]["operationType"] == began[1]["operationType"]
    assert [list(group[0]) for group in began[0]["partitionToWriteStats"].values()] == [
        list(group[0]) for group in began[1]["partitionToWriteStats"].values()
    ]
    asked = [file.with_suffix(".replacecommit.requested").read_bytes() for file in (ours, theirs)]
    model = "HoodieRequestedReplaceMetadata"
    assert read_record(model, asked[0]) == read_record(model, asked[1])
    assert set(read_record(model, asked[0]).values()) == {None}


def shape(commit: dict[str, Any]) -> Any:
    """Keys in their order, what is replaced, and the values that don't depend on the run."""
    stats = {
        partition: [(list(stat), stat["prevCommit"], stat["numWrites"], stat["numInserts"]) for stat in group]
        for partition, group in commit["partitionToWriteStats"].items()
    }
    return (
        list(commit),
        stats,
        commit["operationType"],
        commit["partitionToReplaceFileIds"],
        commit["compacted"],
    )


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table", "delete_partition"])
def test_exactly_once(tmp_path: Path, operation: str) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(9), 5))

    def once(token: str, force: bool = False) -> Any:
        extra = {"airflow.token": token}
        if operation == "delete_partition":
            return hoodie.delete_partitions(
                str(table.path), "eu", missing_ok=True, extra_metadata=extra, force=force
            )
        rows = as_table(of_region(small_rows(range(9), 6), "eu"), SMALL_SCHEMA)
        return hoodie.write_table(
            rows, str(table.path), operation=operation, extra_metadata=extra, force=force
        )

    first, again = once("one"), once("one")
    assert (again.status, again.instant) == ("already_committed", first.instant)
    assert (again.partitions, again.num_replaced) == (first.partitions, first.num_replaced)
    assert once("one", force=True).status == "committed"
    assert once("two").status == "committed"


@ON_COW
def test_a_dry_run_tells_what_would_be_replaced(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    table.write(small_rows(range(60), 5))
    before = listing(table.path)
    path, rows = str(table.path), as_table(of_region(small_rows(range(100, 160), 1), "eu"), SMALL_SCHEMA)
    results = {
        "insert_overwrite": hoodie.write_table(rows, path, operation="insert_overwrite", dry_run=True),
        "table": hoodie.write_table(rows, path, operation="insert_overwrite_table", dry_run=True),
        "delete_partition": hoodie.delete_partitions(path, "e*", dry_run=True),
    }
    assert listing(table.path) == before
    told = {
        name: [
            (item.partition, item.inserts, item.files, item.replaced_groups, item.replaced_rows)
            for item in result.planned
        ]
        for name, result in results.items()
    }
    assert told["insert_overwrite"] == [("eu", 20, 1, 1, 20)]
    assert told["table"] == [("apac", 0, 0, 1, 20), ("eu", 20, 1, 1, 20), ("us", 0, 0, 1, 20)]
    assert told["delete_partition"] == [("eu", 0, 0, 1, 20)]
    size = data_files(table.path, "eu")[0].stat().st_size
    assert results["delete_partition"].planned[0].replaced_bytes == size
    new = hoodie.write_table(rows, str(tmp_path / "new"), options=OPTIONS, dry_run=True)
    assert (new.status, new.num_inserts) == ("planned", 20)
    assert not (tmp_path / "new").exists()


def plan_clustering(path: Path, partition: str) -> str:
    """A pending clustering of the partition's groups, as Apache Hudi plans it."""
    timeline = Timeline.load(str(path))
    slices = [
        {"dataFilePath": str(path / partition / item["slices"][0]["name"]), "fileId": item["file_id"],
         "partitionPath": partition, "deltaFilePaths": [], "bootstrapFilePath": ""}
        for item in hoodie.file_groups(str(path))
        if item["partition"] == partition
    ]  # fmt: skip
    record = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": slices}]}}
    instant = Instant(new_instant_time(timeline.last_time, True), timeline.layout.clustering, State.REQUESTED)
    data = write_record("HoodieRequestedReplaceMetadata", record)
    store_at(path).create(instant, data)
    return instant.time


@pytest.mark.parametrize("service", ["clustering", "compaction"])
def test_partitions_under_a_pending_service_are_refused(tmp_path: Path, service: str) -> None:
    table = pair(tmp_path / "t", "mor")
    table.hudi_rs = False  # type: ignore[attr-defined]
    table.write(small_rows(range(60), 5))
    table.write(of_region(small_rows(range(20), 6), "eu"))
    path = str(table.path)
    if service == "clustering":
        pending = plan_clustering(table.path, "eu")
    else:
        due = {"hoodie.compact.inline.max.delta.commits": 1}
        pending = hoodie.compact_table(path, mode="schedule", options=due).scheduled
    before = listing(table.path)
    rows = as_table(small_rows(range(3), 6), SMALL_SCHEMA)
    for operation in ("insert_overwrite", "insert_overwrite_table"):
        with pytest.raises(CommitConflict, match=f"'eu' .* pending {service} {pending}"):
            hoodie.write_table(rows, path, operation=operation)
    with pytest.raises(CommitConflict, match=f"'eu' .* pending {service} {pending}"):
        hoodie.delete_partitions(path, ["eu", "us"])
    assert listing(table.path) == before
    # other partitions are free
    table.write(of_region(small_rows(range(10), 6), "us"), "insert_overwrite")
    drop(table, "apac")
    if service == "compaction":
        hoodie.compact_table(path, mode="execute")
        drop(table, "eu")


@ON_MOR
def test_replaced_files_are_cleaned_and_their_commits_archived(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    table.write(small_rows(range(60), 1))
    table.write(small_rows(range(30), 2))
    gone = [*(table.path / "us").glob("*.parquet"), *(table.path / "eu").glob("*.parquet")]
    if kind == "mor":
        gone += log_paths(table.path, "us")
    drop(table, "us")
    table.write(of_region(small_rows(range(60), 1), "eu"), "insert_overwrite")
    settings = {
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
    }
    path = str(table.path)
    for version in range(3, 6):
        table.write(of_region(small_rows(range(30), version), "apac"))
    assert all(file.exists() for file in gone)
    cleaned = hoodie.clean_table(path, options=settings)
    assert not any(file.exists() for file in gone)
    assert cleaned.deleted_partitions == ["us"]
    assert not (table.path / "us").exists()
    if kind == "mor":  # delta commits are kept until they are compacted
        hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": 1})
    hoodie.archive_table(path, options=settings)
    kept = {item["action"] for item in hoodie.instants(path)}
    assert "replacecommit" not in kept
    archived = [item for item in hoodie.instants(path, archived=True) if item["action"] == "replacecommit"]
    assert [item["operation"] for item in archived] == ["DELETE_PARTITION", "INSERT_OVERWRITE"]
    table.check("after the services")
    table.write(small_rows(range(60), 6))


def test_an_overwrite_from_files_needs_no_shuffle(tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(60), 5))
    rows = of_region(small_rows(range(60), 6), "eu")
    source = tmp_path / "rows.parquet"
    pq.write_table(as_table(rows, SMALL_SCHEMA), source)
    steps: list[str] = []
    hoodie.write_table(
        ds.dataset(source),
        str(table.path),
        operation="insert_overwrite",
        progress=lambda step, text: steps.append(text),
    )
    assert any("straight from the source files" in text for text in steps)
    table.model.insert_overwrite(rows)
    table.check()


def test_rows_are_for_write_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"hoodie\.delete_partitions"):
        hoodie.write_table(plain(), str(tmp_path / "t"), operation="delete_partition")
