"""Which partitions and files a clustering plan takes, as Apache Hudi 0.15.0's strategies choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.services.clustering import settings
from hoodie.services.clustering.strategy import candidates, eligible, groups, rolls_back
from hoodie.table.view import BaseFile, FileSlice, LogFile
from hoodie.timeline.models.clustering import ClusteringGroup
from hoodie.timeline.time import InstantTime

PREFIX = "hoodie.clustering.plan.strategy."
MODE = "hoodie.clustering.plan.partition.filter.mode"
JAVA = "org.apache.hudi.client.clustering.plan.strategy."
DAYS = [f"2024-01-{day:02d}" for day in range(1, 11)]


def config(**options: Any) -> Config:
    return Config.of({PREFIX + name.replace("__", "."): value for name, value in options.items()})


def chosen(partitions: Sequence[str] = DAYS, hour: int | None = None, /, **options: Any) -> list[str]:
    given = {name if name.startswith("hoodie") else PREFIX + name: value for name, value in options.items()}
    return candidates(partitions, Config.of(given), hour)


def file_slice(number: int, size: int, logs: int = 0, partition: str = "p") -> FileSlice:
    name = f"f{number}-0_0-0-0_100.parquet"
    base = (
        BaseFile(partition, f"/t/{partition}/{name}", name, f"f{number}-0", InstantTime("100"), size)
        if size
        else None
    )
    names = [f".f{number}.log.{log}" for log in range(1, logs + 1)]
    files = tuple(
        LogFile(
            partition=partition,
            path=f"/t/p/{name}",
            name=name,
            file_id=f"f{number}-0",
            instant=InstantTime("100"),
            slice=InstantTime("100"),
            version=log,
            token="0",
            size=50,
        )
        for log, name in enumerate(names, 1)
    )
    return FileSlice(partition, f"f{number}-0", InstantTime("100"), base, files)


def never(slices: Sequence[FileSlice], outputs: int) -> bool:
    return False


def members(found: Sequence[ClusteringGroup]) -> list[list[str]]:
    return [[item.file_id[:-2] for item in group.slices] for group in found]


def test_all_partitions_by_default() -> None:
    assert chosen() == DAYS


@pytest.mark.parametrize("name", [JAVA + "SparkRecentDaysClusteringPlanStrategy", "recent_days"])
def test_recent_days(name: str) -> None:
    assert chosen(**{"class": name}) == DAYS[:7:-1]
    more = {"class": name, "daybased.lookback.partitions": 3, "daybased.skipfromlatest.partitions": 2}
    assert chosen(**more) == ["2024-01-08", "2024-01-07", "2024-01-06"]
    assert chosen(**{MODE: "RECENT_DAYS", "daybased.lookback.partitions": 0}) == DAYS[::-1]


@pytest.mark.parametrize(
    "how", [{"class": "SparkSelectedPartitionsClusteringPlanStrategy"}, {MODE: "selected_partitions"}]
)
def test_a_range_of_partitions(how: dict[str, str]) -> None:
    ends = {"cluster.begin.partition": "2024-01-03", "cluster.end.partition": "2024-01-05"}
    assert chosen(**how, **ends) == DAYS[2:5]
    assert chosen(**how, **{"cluster.begin.partition": "2024-01-09"}) == DAYS[8:]


def test_named_and_matching_partitions() -> None:
    assert chosen(**{"partition.selected": "2024-01-02,2024-01-07"}) == ["2024-01-02", "2024-01-07"]
    assert chosen(**{"partition.selected": "2024-01-02, x ,"}) == ["2024-01-02", " x "]
    assert chosen(**{"partition.regex.pattern": ".*-0[12]"}) == DAYS[:2]
    assert chosen(**{"partition.regex.pattern": "01"}) == []


def test_the_latest_are_left_out() -> None:
    assert chosen(**{"daybased.skipfromlatest.partitions": 3}) == DAYS[:7]


def test_day_rolling_takes_every_24th() -> None:
    many = [f"p{number:03d}" for number in range(60)]
    assert chosen(many, 5, **{MODE: "DAY_ROLLING"}) == ["p005", "p029", "p053"]


def test_files_below_the_limit_are_eligible() -> None:
    limit = config(small__file__limit=100)
    assert [eligible(file_slice(1, size), limit) for size in (99, 100)] == [True, False]
    assert eligible(file_slice(1, 0, logs=1), limit)
    assert not eligible(file_slice(1, 0), limit)


def test_groups_are_filled_with_the_largest_first() -> None:
    slices = [file_slice(number, size) for number, size in enumerate((10, 60, 30, 50, 20))]
    found = groups(slices, config(max__bytes__per__group=100, target__file__max__bytes=40), never)
    assert members(found) == [["f1"], ["f3", "f2", "f4"], ["f0"]]
    assert [group.outputs for group in found] == [2, 3, 1]


def test_a_file_alone_may_be_left_alone() -> None:
    found = groups([file_slice(1, 10)], config(single__group__clustering__enabled=False), never)
    assert found == []
    assert members(groups([file_slice(1, 10)], config(), never)) == [["f1"]]


def test_so_many_groups_at_most() -> None:
    slices = [file_slice(number, 10) for number in range(5)]
    found = groups(slices, config(max__bytes__per__group=10, max__num__groups=2), never)
    assert members(found) == [["f0"], ["f1"]]


def test_every_file_on_its_own() -> None:
    slices = [file_slice(number, 10) for number in range(3)]
    own = Config.of({PREFIX + "class": JAVA + "SparkSingleFileSortPlanStrategy"})
    assert members(groups(slices, own, never)) == [["f0"], ["f1"], ["f2"]]


def test_metrics_are_those_of_apache_hudi() -> None:
    (group,) = groups([file_slice(1, 3 << 20, logs=2), file_slice(2, 2 << 20)], config(), never)
    assert group.metrics == {
        "TOTAL_IO_READ_MB": 5.0,
        "TOTAL_IO_WRITE_MB": 5.0,
        "TOTAL_IO_MB": 10.0,
        "TOTAL_LOG_FILES_SIZE": 100.0,
        "TOTAL_LOG_FILES": 2.0,
    }
    first = group.slices[0]
    assert first.data_file == "file:/t/p/f1-0_0-0-0_100.parquet"
    assert first.log_files == ("file:/t/p/.f1.log.1", "file:/t/p/.f1.log.2")
    assert (first.base_name, first.log_names[0]) == ("f1-0_0-0-0_100.parquet", ".f1.log.1")


@pytest.mark.parametrize(
    ("options", "rolled_back"),
    [
        ({}, False),
        ({settings.ROLLBACK_ON_CONFLICT.name: True}, True),
        ({settings.ROLLBACK_ON_CONFLICT.name: True, settings.UPDATES.name: "SparkAllowUpdateStrategy"}, True),
        ({settings.ROLLBACK_ON_CONFLICT.name: True, settings.UPDATES.name: "reject"}, False),
        ({settings.UPDATES.name: "allow"}, False),
    ],
)
def test_when_a_pending_clustering_gives_way(options: dict[str, Any], rolled_back: bool) -> None:
    assert rolls_back(Config.of(options)) is rolled_back


@pytest.mark.parametrize(
    ("name", "value", "nearest"),
    [
        (
            PREFIX + "class",
            JAVA + "SparkRecentDayClusteringPlan",
            "SparkRecentDaysClusteringPlanStrategy",
        ),
        (settings.UPDATES.name, "SparkAllowsUpdateStrategy", "SparkAllowUpdateStrategy"),
        (settings.EXECUTION.name, "sort_and_sise", "sort_and_size"),
    ],
)
def test_an_unknown_class_is_an_error_with_the_nearest(name: str, value: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"the nearest is {nearest}"):
        Config.of({name: value})
