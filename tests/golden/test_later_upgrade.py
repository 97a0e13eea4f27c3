"""Tables of Apache Hudi taken from version 6 to 8 and 9 and back: rows, states and spans of commits stay."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_hoodie.commits import TableReader
from hoodie import api, service_api
from hoodie.config.key import Config
from hoodie.errors import (
    ConfigError,
    ConflictError,
    HoodieError,
    StateUnavailable,
    TableBusy,
)
from hoodie.serve.page import Page
from hoodie.services.downgrade.service import DowngradeRequest
from hoodie.services.upgrade.run import VersionResult, downgrade, upgrade
from hoodie.services.upgrade.service import VersionRequest, version_text
from hoodie.storage.local import LocalStorage
from hoodie.table.checkup import NOTE, WARNING
from hoodie.table.doctor import check_table
from hoodie.table.handle import Table
from hoodie.timeline.placement import VERSION_CHANGE
from hoodie.write.transaction import Transaction
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.objects import stored
from tests.support.tiers import full_but
from tests.unit.write.support import listing

OLDER = [
    "cow_archived",
    "cow_cdc",
    "cow_clustered",
    "cow_delete_partition",
    "cow_droppartcol",
    "cow_inflight",
    "cow_insert_overwrite",
    "cow_nometafields",
    "cow_nonpart",
    "cow_pending_clustering",
    "cow_savepoint",
    "cow_savepoint_restore",
    "cow_schema_on_read",
    "cow_tskeygen",
    "mdt_full_cow",
    "mor_archived",
    "mor_bucket",
    "mor_cdc",
    "mor_clean_commits",
    "mor_clustered",
    "mor_inflight",
    "mor_insert_overwrite",
    "mor_late_overwrite",
    "mor_logcompaction",
    "mor_logs",
    "mor_parquet_logs",
    "mor_partial_payload",
    "mor_pending_compaction",
    "mor_rollback",
    "mor_rollback_failed",
    "sql_mor_merge",
]
LATER = [
    "1.2.0-v8/mor_bucket",
    "1.2.0-v8/mor_rollback_failed",
    "1.2.0-v9/cow_archived",
    "1.2.0-v9/cow_insert_overwrite_table",
    "1.2.0-v9/mdt_full_mor",
    "1.2.0-v9/mor_archived",
    "1.2.0-v9/mor_cdc",
    "1.2.0-v9/mor_clustered",
    "1.2.0-v9/mor_late_overwrite",
    "1.2.0-v9/mor_nonpart_logs",
    "1.2.0-v9/mor_partial_payload",
    "1.2.0-v9/mor_pending_compaction",
    "1.2.0-v9/sql_mor_merge",
]
NO_WAIT = {"hoodie.write.wait.for.writer.ms": "0"}
AT_ONCE = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "filesystem",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
GONE = "StateUnavailable"
Answer = list[str] | str


@pytest.fixture
def older(golden_tables: Path, tmp_path: Path) -> Callable[[str], str]:
    return lambda name: str(shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", tmp_path / "t"))


@pytest.fixture
def later(later_tables: Path, tmp_path: Path) -> Callable[[str], str]:
    return lambda name: str(shutil.copytree(later_tables / name / "table", tmp_path / "t"))


def change(path: str, to: int, *, dry_run: bool = False) -> VersionResult:
    if Table.open(path).properties.version < to or to == 9:
        return upgrade(VersionRequest(table=path, to=str(to), dry_run=dry_run))
    return downgrade(DowngradeRequest(table=path, to=str(to), dry_run=dry_run))


def asked(path: str, **query: Any) -> Answer:
    """The rows, without the file that each lies in: a compaction gives them another. The kind of an error."""
    try:
        found = api.read_table(path, **query).to_pylist()
    except HoodieError as error:
        return type(error).__name__
    return sorted(
        str({name: value for name, value in row.items() if name != "_hoodie_file_name"}) for row in found
    )


def answers(path: str, times: Iterable[str]) -> dict[str, Answer]:
    """Of the newest state, the states as of commits, and the spans between them. `times`: of requests."""
    timeline = Table.open(path).timeline
    ends = {str(item.time): str(item.completion or item.time) for item in timeline.commits()}
    times = list(times)
    found = {"now": asked(path)}
    for time in times:
        found[f"as of {time}"] = asked(path, as_of=time)
        found[f"since {time}"] = asked(path, begin=ends.get(time, time))
    for begin, end in itertools.pairwise(times):
        span = {"begin": ends.get(begin, begin), "end": ends.get(end, end)}
        found[f"{begin} to {end}"] = asked(path, **span)
    return found


def some_commits(path: str) -> list[str]:
    times = [str(item.time) for item in Table.open(path).timeline.commits()]
    return times if len(times) < 7 else [*times[:3], *times[-3:]]


def archived_instants(path: str) -> set[tuple[str, str]]:
    return {(str(item.time), item.comparable_action.value) for item in Table.open(path).archive.instants()}


def check(path: str, before: dict[str, Answer], *, lost: bool) -> None:
    """The answers are those from before; `lost`: earlier states can't be read, and are refused."""
    now = answers(path, [name.split()[-1] for name in before if name.startswith("as of")])
    for name, answer in now.items():
        assert answer == before[name] or (lost and answer == GONE and name != "now"), name
    assert not any(GONE == now[name] != before[name] for name in now if name.startswith("since"))


@pytest.mark.parametrize("name", full_but({"cow_archived", "mor_rollback", "mor_late_overwrite"}, OLDER))
def test_rows_and_states_stay(older: Callable[[str], str], name: str) -> None:
    """From version 6 to 8, 9, 8 and 6."""
    path, lost = older(name), False
    before = answers(path, some_commits(path))
    archived = archived_instants(path)
    for to in (8, 9, 8, 6):
        done = change(path, to)
        lost = lost or done.drops_history
        table = Table.open(path)
        assert (table.properties.version, done.to_version) == (to, to)
        assert not table.timeline.pending()
        assert archived_instants(path) == archived
        check(path, before, lost=lost)


@pytest.mark.parametrize("name", full_but({"1.2.0-v9/cow_archived", "1.2.0-v9/mor_nonpart_logs"}, LATER))
def test_later_tables_go_down_and_up(later: Callable[[str], str], name: str) -> None:
    path, lost = later(name), False
    version = Table.open(path).properties.version
    before, archived = answers(path, some_commits(path)), archived_instants(path)
    for to in (8, 6, 9):
        if to == version:
            continue
        done = change(path, to)
        version, lost = to, lost or done.drops_history
        check(path, before, lost=lost)
        assert archived_instants(path) == archived
        assert not [item for item in Path(path).rglob("metadata") if item.is_dir()]


@pytest.mark.parametrize("name", ["cow_archived", "mor_rollback"])
def test_writes_go_on(older: Callable[[str], str], name: str) -> None:
    """At each version, with the metadata table made again."""
    path = older(name)
    for to in (9, 6, 8):
        change(path, to)
        rows = api.read_table(path, meta=False)
        api.write_table(rows.slice(0, 7), path, options={**NO_SERVICES, "hoodie.metadata.enable": "true"})
        assert sorted(map(str, api.read_table(path, meta=False).to_pylist())) == sorted(
            map(str, rows.to_pylist())
        )
        assert "files" in Table.open(path).properties.metadata_partitions


def test_states_whose_logs_apache_hudi_took_down_are_refused(later_more: Path) -> None:
    """Version 6 takes their log files for slices without a base file; others can be read."""
    path = str(later_more / "more/down_9to6_mor/table")
    first, *logged, compacted, last = [str(item.time) for item in Table.open(path).timeline.commits()]
    for time in logged:
        with pytest.raises(StateUnavailable, match=r"taken down to version 6, .* belongs to no base file"):
            api.read_table(path, as_of=time)
    now = api.read_table(path)
    for time in (first, compacted):
        found = api.read_table(path, as_of=time)
        assert 0 < found.num_rows < now.num_rows
    assert api.read_table(path, as_of=last).equals(now)
    assert api.read_table(path, begin=logged[0]).num_rows


def test_a_dry_run_says_what_is_done(older: Callable[[str], str]) -> None:
    path = older("mor_rollback")
    before = listing(Path(path))
    slices = [group["slices"][0] for group in api.file_groups(path)]
    files = [file["bytes"] for item in slices if item["logs"] for file in (item, *item["logs"])]
    merged = (len(files), sum(files))
    told = change(path, 9, dry_run=True)
    assert listing(Path(path)) == before
    done = change(path, 9)
    assert (told.status, done.status) == ("planned", "upgraded")
    assert told.properties == done.properties
    assert told.properties["hoodie.table.version"] == "9"
    assert told.properties["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"
    assert told.properties["hoodie.table.precombine.field"] is None
    assert (told.merges_logs, done.merges_logs) == (True, True)
    assert (told.merged_files, told.merged_bytes) == (done.merged_files, done.merged_bytes) == merged
    assert told.metadata_partitions == done.metadata_partitions == ["files"]
    again = change(path, 9)
    assert (again.status, again.reason) == ("skipped", "the table has version 9")


def data_files(path: str) -> dict[str, int]:
    files = [item for item in Path(path).rglob("*-*_*") if ".hoodie" not in item.parts]
    return {item.name: item.stat().st_size for item in files if item.suffix != ".crc"}


def test_a_dry_run_counts_the_files_that_go(older: Callable[[str], str]) -> None:
    """Where older slices can't be read afterwards."""
    path = older("mor_late_overwrite")
    before = data_files(path)
    told = change(path, 9, dry_run=True)
    assert told.drops_history
    assert told.deleted_files
    change(path, 9)
    gone = [size for name, size in before.items() if name not in data_files(path)]
    assert (told.deleted_files, told.deleted_bytes) == (len(gone), sum(gone))


def test_a_dry_run_names_the_indexes_that_go(later: Callable[[str], str]) -> None:
    path = later("1.2.0-v9/mdt_full_mor")
    told = change(path, 6, dry_run=True)
    assert told.metadata_partitions == list(Table.open(path).properties.metadata_partitions)
    assert told.lost_indexes == ["partition_stats"]
    text = version_text(told.to_dict())
    assert "the metadata table is dropped: " in text
    assert f"hoodie index create --table {path} --indexes " in text
    assert "version 6 does not have: partition_stats" in text
    assert change(path, 8, dry_run=True).lost_indexes == []


@pytest.mark.parametrize("name", ["multi_ordering_mor", "delete_marker"])
def test_merging_that_version_6_does_not_have(later_more: Path, tmp_path: Path, name: str) -> None:
    """By several ordering fields, and by a marker of deletes; version 8 has both."""
    path = str(shutil.copytree(later_more / "more" / name / "table", tmp_path / "t"))
    before = listing(Path(path))
    with pytest.raises(ConfigError, match=r"hoodie\..*=.* in version 6, .*leave it at version 9"):
        change(path, 6)
    assert listing(Path(path)) == before
    assert change(path, 8, dry_run=True).status == "planned"


def test_what_is_pending_is_finished_or_taken_back_first(older: Callable[[str], str]) -> None:
    path = older("mor_pending_compaction")
    told = change(path, 8, dry_run=True)
    assert told.compacted
    assert set(told.compacted) <= set(change(path, 8).compacted)
    shutil.rmtree(path)
    path = older("cow_pending_clustering")
    told = change(path, 8, dry_run=True)
    assert told.cancelled
    assert change(path, 8).cancelled == told.cancelled


def test_refusals(older: Callable[[str], str]) -> None:
    path = older("cow_savepoint")
    with pytest.raises(ConfigError, match="to is '7'; use one of 6, 8, 9"):
        VersionRequest(table=path, to="7")
    shutil.rmtree(path)
    path = older("cow_indexing")
    before = listing(Path(path))
    with pytest.raises(TableBusy, match="hoodie index execute"):
        change(path, 8)
    assert listing(Path(path)) == before


def test_a_savepoint_whose_logs_mean_other_rows_is_in_the_way(older: Callable[[str], str]) -> None:
    path = older("mor_late_overwrite")
    point = some_commits(path)[2]
    service_api.savepoint_table(path, point)
    with pytest.raises(ConfigError, match=f"has savepoint {point}"):
        change(path, 8)
    service_api.delete_savepoint(path, point)
    assert change(path, 8).drops_history
    with pytest.raises(StateUnavailable):
        api.read_table(path, as_of=point)


@pytest.mark.parametrize("options", [NO_WAIT, {**NO_WAIT, **AT_ONCE}], ids=["one writer", "at once"])
def test_a_writer_at_work_is_in_the_way(older: Callable[[str], str], options: dict[str, str]) -> None:
    path = older("cow_nonpart")
    given = {**options}
    request = VersionRequest(table=path, to="9", options=given)
    with Transaction(Table.open(path), Config.of(given), utc=False) as writer:
        writer.begin()
        with pytest.raises(ConflictError):
            upgrade(request)
        assert Table.open(path).properties.version == 6
    assert upgrade(request).status == "upgraded"
    with Transaction(Table.open(path), Config.of(given), utc=False) as writer:
        writer.begin()
        with pytest.raises(ConflictError):
            downgrade(DowngradeRequest(table=path, to="6", options=given))
    assert Table.open(path).properties.version == 9


@pytest.mark.parametrize("waits", ["0", "600000"], ids=["no wait", "waits"])
def test_a_writer_that_has_planned_plans_again(
    older: Callable[[str], str], waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is upgraded right before the writer takes it."""
    path = older("cow_nonpart")
    rows = api.read_table(path, meta=False)
    take, versions = Transaction.take, [9]

    def late(self: Transaction) -> None:
        if versions:
            change(path, versions.pop())
        take(self)

    monkeypatch.setattr(Transaction, "take", late)
    options = {"hoodie.write.wait.for.writer.ms": waits}
    written = api.write_table(rows.slice(0, 1), path, options=options)
    table = Table.open(path)
    assert (table.properties.version, table.timeline.commits()[-1].time) == (9, written.instant)
    assert api.read_table(path, meta=False).num_rows == rows.num_rows


@pytest.mark.parametrize("bounds", full_but({"9 6"}, ["6 9", "9 6"]))
def test_a_query_meanwhile(
    older: Callable[[str], str], bounds: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whichever of its requests the whole change comes before, its rows are right."""
    former, to = map(int, bounds.split())
    template = older("cow_nonpart")
    if former != 6:
        change(template, former)
    before, requests = asked(template), 0
    reads = {name: getattr(LocalStorage, name) for name in ("read", "names", "list", "info", "open_input")}

    def counting(path: str, at: int) -> None:
        def wrapped(read: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **more: Any) -> Any:
                nonlocal requests
                requests += 1
                if requests == at:
                    monkeypatch.undo()
                    change(path, to)
                return read(*given, **more)

            return call

        for name, read in reads.items():
            monkeypatch.setattr(LocalStorage, name, wrapped(read))

    counting(template, 0)
    assert asked(template) == before
    monkeypatch.undo()
    for at in range(1, requests + 1):
        path = str(shutil.copytree(template, tmp_path / str(at)))
        requests = 0
        counting(path, at)
        assert asked(path) == before, at
        assert Table.open(path).properties.version == to, at
        assert asked(path) == before, at


def test_on_an_object_store(golden_tables: Path, tmp_path: Path) -> None:
    """Which has no folders."""
    with stored(tmp_path) as bucket:
        source = golden_tables / "0.15.0-v6" / "mor_rollback" / "table"
        shutil.copytree(source, tmp_path / "bucket" / "t")
        path = f"{bucket}/t"
        before = asked(path)
        for to in (9, 6, 8):
            change(path, to)
            assert Table.open(path).properties.version == to
            assert asked(path) == before


KINDS = {
    "before": Phase.BEFORE,
    "during": Phase.DURING,
    "after": Phase.AFTER,
    "lost answer": Phase.AFTER,
}
SWEEPS = [
    "cow_archived 6 9",
    "cow_archived 9 6",
    "cow_nonpart 6 9",
    "mor_rollback 6 8",
    "mor_rollback 8 6",
    "cow_insert_overwrite 8 9",
    "cow_insert_overwrite 9 8",
]


@pytest.mark.parametrize("case", full_but({"cow_nonpart 6 9"}, SWEEPS))
@pytest.mark.parametrize("kind", full_but({"after"}, KINDS))
def test_killed_at_any_step(older: Callable[[str], str], case: str, kind: str, tmp_path: Path) -> None:
    """The table can be read, is in one of the two versions, and the same call ends it; so does a write.
    Who had it open before finds the same commits.
    """
    name, *bounds = case.split()
    former, to = map(int, bounds)
    template = older(name)
    if former != 6:
        change(template, former)
    before = answers(template, [])
    archived = set(Table.open(template).archive.instants())
    faults = Faults()
    with injected(faults):
        change(str(shutil.copytree(template, tmp_path / "counted")), to)
    step = 1 if kind == "during" else 3
    for at in range(1, len(faults.log) + 1, step):
        path = str(shutil.copytree(template, tmp_path / str(at)))
        opened, reader = Table.open(path), TableReader(path)
        commits = [item.time for item in opened.timeline.commits()]
        reader.poll()
        fault = Faults(at=at, phase=KINDS[kind], once=kind == "lost answer")
        with injected(fault), contextlib.suppress(InjectedFault):
            change(path, to)
        assert [item.time for item in opened.refresh().commits()][: len(commits)] == commits, at
        assert [item.time for item in reader.poll().commits()][: len(commits)] == commits, at
        assert answers(path, []) == before, at
        assert Table.open(path).properties.version in (former, to), at
        if at % 2:
            rows = api.read_table(path, meta=False)
            api.write_table(rows.slice(0, 1), path, options=NO_SERVICES)
            assert not Table.open(path).timeline.holds(VERSION_CHANGE), at
            assert api.read_table(path, meta=False).num_rows == rows.num_rows, at
            before_retry = answers(path, [])
        else:
            before_retry = before
        change(path, to)
        table = Table.open(path)
        assert table.properties.version == to, at
        assert not table.timeline.holds(VERSION_CHANGE), at
        assert not table.timeline.pending(), at
        assert answers(path, []) == before_retry, at
        assert set(table.archive.instants()) == archived, at
        shutil.rmtree(path)


@pytest.mark.parametrize(("former", "to"), [(6, 9), (9, 6)], ids=["6 to 9", "9 to 6"])
def test_the_doctor_and_the_page_know_a_change_that_was_killed(
    older: Callable[[str], str], tmp_path: Path, former: int, to: int
) -> None:
    """While instants are copied, right after the properties changed, and while the former ones go."""
    template = older("cow_nonpart")
    if former != 6:
        change(template, former)
    faults, commits = Faults(), len(api.instants(template))
    with injected(faults):
        change(str(shutil.copytree(template, tmp_path / "undisturbed")), to)
    changes = [(number, item.name, item.path) for number, item in enumerate(faults.log, 1)]
    swap = max(number for number, _, name in changes if name.endswith("hoodie.properties"))
    copied = next(n for n, what, name in changes if what == "create" and name.endswith("commit"))
    gone = next(n for n, what, name in changes if n > swap and what.startswith("delete"))
    for at, version in ((copied, former), (swap, to), (gone, to)):
        path = str(shutil.copytree(template, tmp_path / str(at)))
        with injected(Faults(at=at, phase=Phase.AFTER)), contextlib.suppress(InjectedFault):
            change(path, to)
        (found,) = [finding for finding in check_table(path) if finding.check == "version"]
        assert found.status == WARNING
        assert f"from {former} to {to}, which was killed" in found.text
        assert f"The table has version {version}" in found.text
        command = "upgrade" if to > former else "downgrade"
        assert found.remedy.startswith(f"hoodie {command} --table {path} --to {to} finishes it")
        assert ("takes the change back" in found.remedy) == (version == former)
        assert len(api.instants(path)) == commits
        reply = Page({"orders": path}.copy).get("tables/orders/health", "")
        assert (reply.status, json.loads(reply.body)["level"]) == (200, 2), reply.body
        assert found.text in json.loads(reply.body)["reasons"]
        assert all(item.error is None for item in service_api.plan_services(path).services)
        change(path, to)
        assert not [finding for finding in check_table(path) if finding.check == "version"]


def test_the_doctor_knows_a_change_that_goes_on(older: Callable[[str], str]) -> None:
    path = older("cow_nonpart")
    marker = Path(path, ".hoodie", VERSION_CHANGE)
    with Transaction(Table.open(path), Config.of(NO_WAIT), utc=False) as process:
        process.claim(alone=True)
        marker.write_text("6 9")
        (found,) = [finding for finding in check_table(path) if finding.check == "version"]
    assert found.status == NOTE
    assert "is at work" in found.text
    marker.write_bytes(b"\xff" * 100)
    (found,) = [finding for finding in check_table(path) if finding.check == "version"]
    assert found.remedy == "write to the table, which deletes what is left of the other version"
