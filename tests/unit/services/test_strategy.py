"""Which file slices a compaction takes."""

from __future__ import annotations

import pytest

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.services.compaction.run import candidates, choose, plan
from hoodie.services.compaction.settings import STRATEGY, Strategy
from hoodie.storage import FileInfo
from hoodie.table.compaction_operation import compaction_operation
from hoodie.table.view import BaseFile, FileSlice, Listing, LogFile, TimelineView
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.compaction import CompactionOperation
from hoodie.timeline.time import InstantTime

MB = 1 << 20
NAME = "hoodie.compaction.strategy"
JAVA = "org.apache.hudi.table.action.compact.strategy."
T1, T2 = "20260101000000001", "20260101000000002"


def made(file_id: str, base: int | None, *logs: int, partition: str = "p", instant: str = T1) -> FileSlice:
    """A slice with a base file and logs of these sizes in bytes."""
    name = f"{file_id}_0-0-0_{instant}.parquet"
    return FileSlice(
        partition,
        file_id,
        InstantTime(instant),
        None
        if base is None
        else BaseFile(partition, f"/t/{partition}/{name}", name, file_id, InstantTime(instant), base),
        tuple(
            LogFile(
                partition=partition,
                path=f"/t/{partition}/.{file_id}_{instant}.log.{version}_0-0-0",
                name=f".{file_id}_{instant}.log.{version}_0-0-0",
                file_id=file_id,
                instant=InstantTime(instant),
                slice=InstantTime(instant),
                version=version,
                token="0-0-0",
                size=size,
            )
            for version, size in enumerate(logs, 1)
        ),
    )


def planned(config: Config, *slices: FileSlice) -> list[str]:
    chosen = choose([compaction_operation(item, config[MAX_FILE_SIZE]) for item in slices], config)
    return [item.file_id for item in chosen]


def test_metrics_are_hudis_whole_megabytes() -> None:
    config = Config.of({"hoodie.parquet.max.file.size": 7 * MB})
    entry = compaction_operation(made("a", 3 * MB + 5, MB - 1, 10), config[MAX_FILE_SIZE])
    assert entry.metrics == {
        "TOTAL_IO_READ_MB": 4.0,
        "TOTAL_IO_WRITE_MB": 3.0,
        "TOTAL_IO_MB": 7.0,
        "TOTAL_LOG_FILES_SIZE": float(MB + 9),
        "TOTAL_LOG_FILES": 2.0,
    }
    assert entry.data_file == f"a_0-0-0_{T1}.parquet"
    assert entry.log_files == (f".a_{T1}.log.1_0-0-0", f".a_{T1}.log.2_0-0-0")
    assert entry.base_instant == T1
    alone = compaction_operation(made("b", None, 2 * MB), config[MAX_FILE_SIZE])
    assert alone.data_file is None
    assert alone.metric("TOTAL_IO_MB") == 9.0, "a new file is as large as it may be"


SLICES = (made("a", MB, MB), made("b", MB, 3 * MB), made("c", MB, 1, 1, 1), made("d", MB, 2 * MB, 1))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "bdac"),
        ({NAME: "unbounded"}, "abcd"),
        ({NAME: "unbounded", "hoodie.compaction.target.io": 1}, "abcd"),
        ({NAME: "bounded_io"}, "abcd"),
        ({NAME: "bounded_io", "hoodie.compaction.target.io": 3}, "a"),
        ({NAME: "bounded_io", "hoodie.compaction.target.io": 4}, "ab"),
        ({NAME: "log_file_size", "hoodie.compaction.target.io": 6}, "bd"),
        ({"hoodie.compaction.logfile.size.threshold": MB}, "bda"),
        ({"hoodie.compaction.logfile.size.threshold": MB + 1}, "bd"),
        ({NAME: "log_file_num"}, "cdab"),
        ({NAME: "log_file_num", "hoodie.compaction.logfile.num.threshold": 2}, "cd"),
        ({NAME: "log_file_num", "hoodie.compaction.logfile.size.threshold": 99 * MB}, "cdab"),
    ],
)
def test_choices(options: dict[str, object], expected: str) -> None:
    assert "".join(planned(Config.of(options), *SLICES)) == expected


@pytest.mark.parametrize(
    ("java", "strategy"),
    [
        ("UnBoundedCompactionStrategy", Strategy.UNBOUNDED),
        ("BoundedIOCompactionStrategy", Strategy.BOUNDED_IO),
        ("LogFileSizeBasedCompactionStrategy", Strategy.LOG_FILE_SIZE),
        ("LogFileNumBasedCompactionStrategy", Strategy.LOG_FILE_NUM),
        ("DayBasedCompactionStrategy", Strategy.DAY_BASED),
    ],
)
def test_java_names_name_the_same(java: str, strategy: Strategy) -> None:
    assert Config.of({NAME: JAVA + java})[STRATEGY] is strategy
    assert Config.of({NAME: strategy.value.upper()})[STRATEGY] is strategy


def test_an_unknown_strategy_is_told_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"expected one of unbounded, .*day_based, or Apache Hudi's class"):
        Config.of({NAME: "biggest"})


@pytest.mark.parametrize(
    "days",
    [
        ["2026/01/09", "2026/01/30", "2025/12/31", "2026/01/10"],
        ["2026-1-9", "2026-1-30", "2025-12-31", "2026-1-10"],
        ["20260109", "20260130", "20251231", "20260110"],
        ["y=2026/m=1/d=9/h=3", "y=2026/m=1/d=30/h=1", "y=2025/m=12/d=31/h=2", "y=2026/m=1/d=10/h=0"],
        ["day=2026-01-09", "day=2026-01-30", "day=__HIVE_DEFAULT_PARTITION__", "day=2026-01-10"],
    ],
)
def test_day_based_takes_the_newest_days(days: list[str]) -> None:
    config = Config.of({NAME: "day_based", "hoodie.compaction.daybased.target.partitions": 3})
    assert candidates(days, config) == [days[1], days[3], days[0]]
    assert candidates(days, Config.of({})) == days


def test_day_based_needs_days() -> None:
    config = Config.of({NAME: "day_based"})
    assert candidates([], config) == []
    for partition in ("", "eu", "2026/13/01", "202601"):
        with pytest.raises(ConfigError, match="needs partitions that are days"):
            candidates([partition], config)


# --- the plan of a view ------------------------------------------------------------------------------------


def listing(*slices: FileSlice) -> Listing:
    files: dict[str, list[FileInfo]] = {}
    for item in slices:
        for file in ([item.base] if item.base else []) + list(item.logs):
            files.setdefault(item.partition, []).append(FileInfo(file.path, file.name, file.size, 0, False))
    return lambda partition: files.get(partition, [])


VIEW = TimelineView(frozenset({InstantTime(T1), InstantTime(T2)}), InstantTime(T1), InstantTime(T2))


def test_the_latest_slice_of_a_group_is_planned_if_it_has_logs() -> None:
    slices = (
        made("a", 10, 5, partition="p"),
        made("b", 10, partition="q"),
        made("c", 10, 7, instant=T1, partition="q"),
        made("c", 10, 9, 9, instant=T2, partition="q"),
        made("d", 10, 7, instant=T1, partition="q"),
        made("d", 10, instant=T2, partition="q"),
        made("e", None, 1, partition=""),
    )
    found = plan(VIEW, listing(*slices), ["q", "", "p"], {}, Config.of({})).plan
    assert found is not None
    assert [(item.partition_path, item.file_id, item.base_instant) for item in found.operations] == [
        ("q", "c", T2),
        ("p", "a", T1),
        ("", "e", T1),
    ]
    assert found.partitions == ["", "p", "q"]
    assert (found.version, found.strategy, found.preserve_metadata) == (2, None, False)


def test_busy_groups_are_left_out_and_nothing_left_is_said() -> None:
    view = listing(made("a", 10, 5), made("b", 10, 6))
    compaction = Instant(InstantTime(T2), Action.COMPACTION, State.REQUESTED)
    some = plan(VIEW, view, ["p"], {("p", "b"): compaction, ("q", "a"): compaction}, Config.of({})).plan
    assert some is not None
    assert [item.file_id for item in some.operations] == ["a"]
    all_busy = {("p", "a"): compaction, ("p", "b"): compaction}
    config = Config.of({"hoodie.compaction.logfile.size.threshold": 7})
    assert plan(VIEW, view, ["p"], all_busy, Config.of({})).reason == (
        "all 2 file slices with logs are in pending plans already"
    )
    assert plan(VIEW, view, ["p"], {}, config).reason == (
        "the strategy log_file_size takes none of the 2 file slices with logs"
    )
    assert plan(VIEW, listing(made("a", 10)), ["p"], {}, config).reason == "no file slice has log files"


def test_uncommitted_slices_are_not_planned() -> None:
    later = "20260101000000003"
    view = listing(made("a", 10, 5, instant=later), made("b", None, 5, instant=later))
    assert plan(VIEW, view, ["p"], {}, Config.of({})).plan is None


def test_an_operation_without_metrics() -> None:
    """Plans of old releases have none."""
    assert CompactionOperation("p", "a", InstantTime(T1), metrics=None).metric("TOTAL_LOG_FILES") == 0.0
