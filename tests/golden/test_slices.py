"""File slices of tables of versions 8 and 9 are those of Apache Hudi 1.2.0 (data/golden/slices.tar.xz)."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import TableError
from hoodie.format.names import LogFileName
from hoodie.storage import FileInfo
from hoodie.storage.local import LocalStorage
from hoodie.table.slicing import LAYOUT_ONE, ArchivedTimes, LayoutTwoSlicing, slicing_of
from hoodie.table.view import FileSlice, TimelineView, file_slices, log_files, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.models.compaction import CompactionPlan
from hoodie.timeline.time import InstantTime
from tests.support.rows import assert_same_rows

STORAGE = LocalStorage()
BETWEEN = "1.2.0-v9/nbcc_compaction_between"
PENDING = "1.2.0-v9/nbcc_pending_compaction_between"
A, COMPACTION = InstantTime("20261127071410144"), InstantTime("20261127071412475")

#: partition, file id, base instant, name of the base file, names of the logs
Row = list[Any]


class Known:
    """A table: its timeline is on disk, its data files are names."""

    def __init__(self, folder: Path, name: str, known: dict[str, Any]) -> None:
        self.timeline = Timeline.load(str(folder / name / "table"), STORAGE)
        self.view = TimelineView.of(self.timeline, STORAGE)
        self.known = known

    @property
    def partitions(self) -> list[str]:
        return list(self.known["files"])

    def files(self, partition: str) -> Sequence[FileInfo]:
        return [
            FileInfo(f"/t/{partition}/{name}", name, 1, 0, False) for name in self.known["files"][partition]
        ]

    def slices(self) -> Iterator[FileSlice]:
        for partition in self.partitions:
            for group in file_slices(self.view, self.files, partition).values():
                yield from group


@pytest.fixture(scope="module")
def tables(later_tables: Path) -> dict[str, Known]:
    known = json.loads((later_tables / "slices.json").read_text())
    return {name: Known(later_tables, name, value) for name, value in known.items()}


def rows_of(slices: Iterable[FileSlice]) -> list[Row]:
    rows = []
    for item in slices:
        logs = [log.name for log in item.logs]
        if item.base or logs:
            rows.append([item.partition, item.file_id, item.instant, item.base and item.base.name, logs])
    return in_order(rows)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda item: [str(item[0]), str(item[1]), str(item[2])])


def is_log(name: str) -> bool:
    return not name.endswith(".cdc")


def test_slices(tables: dict[str, Known]) -> None:
    """All slices with files, of groups that are not replaced. Hudi's have logs of pending writes, too."""
    assert len(tables) == 75
    logs = 0
    for name, table in tables.items():
        pending = {instant.time for instant in table.timeline.pending()}
        wanted = []
        for *slice_, names in table.known["slices"]:
            shown = [log for log in filter(is_log, names) if parsed(log).instant not in pending]
            if slice_[3] or shown:
                wanted.append([*slice_, shown])
            logs += len(shown)
        assert rows_of(table.slices()) == in_order(wanted), name
    assert logs == 305


def test_slices_of_all_log_files(tables: dict[str, Known]) -> None:
    """Those of pending writes belong to the newest slice of their group."""
    pending = 0
    for name, table in tables.items():
        wanted = {
            (slice_[0], log): slice_[2]
            for *slice_, names in table.known["slices"]
            for log in filter(is_log, names)
        }
        found = {
            (log.partition, log.name): log.slice
            for partition in table.partitions
            for log in log_files(
                table.view.slicing, table.files, partition, table.view.compacting_in.get(partition)
            )
            if (partition, log.file_id) not in table.view.replaced
        }
        assert found == wanted, name
        pending += sum(not table.view.shows(parsed(log).instant) for _, log in wanted)
    assert pending == 2


def test_order_of_logs(tables: dict[str, Known]) -> None:
    """A snapshot query reads the logs by the times of the requests, over what a pending compaction merges."""
    for name, table in tables.items():
        found = [item for part in table.partitions for item in merged_slices(table.view, table.files, part)]
        wanted = [[*item[:4], list(filter(is_log, item[4]))] for item in table.known["merged"]]
        assert [drop_instant(item) for item in rows_of(found)] == [
            drop_instant(item) for item in in_order(wanted)
        ], name


def drop_instant(item: Row) -> Row:
    """Hudi names a slice under compaction by what is compacted."""
    return [*item[:2], *item[3:]]


def test_a_write_that_a_compaction_overtook(tables: dict[str, Known]) -> None:
    """It was requested before the compaction and completed after it: its logs are in the compaction's slice,
    and the plan does not name them.
    """
    table = tables[PENDING]
    groups = {(item.partition, item.file_id): item for item in table.slices() if item.instant == COMPACTION}
    assert set(groups) == set(table.view.compacting)
    assert {log.instant for item in groups.values() for log in item.logs} >= {A}
    plan = CompactionPlan.from_bytes(table.timeline.plan(table.timeline.pending()[0], STORAGE))
    assert not any(parsed(name).instant == A for item in plan.operations for name in item.log_names)
    as_of = TimelineView.of(table.timeline, STORAGE, A)  # the compaction is not known then
    assert {
        item.instant for part in table.partitions for item in merged_slices(as_of, table.files, part)
    } == {InstantTime("20261127071401355")}


def parsed(name: str) -> LogFileName:
    found = LogFileName.parse(name)
    assert found is not None
    return found


def log(instant: str, version: int = 1) -> LogFileName:
    return LogFileName("g", InstantTime(instant), version, "0-1-2")


def times(*texts: str) -> list[InstantTime]:
    return [InstantTime(text) for text in texts]


#: 110 is completed after the compaction 120, 115 before it; 130 is pending, 090 archived
TWO = LayoutTwoSlicing(
    dict(zip(times("100", "110", "115", "120"), times("101", "145", "118", "130"), strict=True)),
    InstantTime("100"),
)


@pytest.mark.parametrize(
    ("instant", "begun", "slice_"),
    [
        ("110", ["100", "120"], "120"),
        ("115", ["100", "120"], "100"),
        ("130", ["100", "120"], "120"),  # pending: the newest
        ("090", ["080", "100"], "080"),  # archived: as if it had been completed at once
        ("110", ["150"], "110"),  # before all: a slice of its own
        ("110", [], "110"),
        ("130", [], "130"),
        ("110", ["20261127071412475"], "110"),  # other digits: by the time of the request
    ],
)
def test_slice_of_a_log(instant: str, begun: list[str], slice_: str) -> None:
    assert TWO.slice_of(log(instant), times(*begun)) == slice_


def test_the_archive_says_when_an_instant_was_completed() -> None:
    """It is read where a slice was begun later than the instant, once, and not by tasks."""
    read: list[int] = []

    def archived() -> dict[InstantTime, InstantTime]:
        read.append(1)
        return dict(zip(times("090"), times("110"), strict=True))

    slicing = LayoutTwoSlicing(TWO.completions, TWO.first_time, ArchivedTimes(archived))
    assert slicing.slice_of(log("090"), times("080")) == "080"
    assert slicing.slice_of(log("110"), times("100", "120")) == "120"
    assert read == []
    with pytest.raises(RuntimeError, match="not read here"):
        pickle.loads(pickle.dumps(slicing)).slice_of(log("090"), times("080", "100"))
    for _ in range(2):
        assert slicing.slice_of(log("090"), times("080", "100", "120")) == "100"
        assert slicing.slice_of(log("095"), times("080", "100")) == "080"  # not there: as if at once
    assert read == [1]
    assert pickle.loads(pickle.dumps(slicing)).slice_of(log("090"), times("080", "100")) == "100"


def test_rows_of_a_writer_that_a_compaction_overtook_stay_when_it_is_archived(
    later_more: Path, tmp_path: Path
) -> None:
    """Its log file belongs to the slice of the compaction, which was begun, and completed, while it wrote."""
    table = tmp_path / "t"
    shutil.copytree(later_more / "more/nbcc_compaction_between/table", table)
    expected = hoodie.read_table(str(table))
    folder = table / ".hoodie/timeline"
    last = "20261127072935385"
    rows = []
    for file in sorted(folder.glob("2*")):
        if not file.name.startswith(last):
            time, _, suffix = file.name.partition(".")
            if "_" in time:
                moment, completion = time.split("_")
                rows.append((moment, completion, suffix, file.read_bytes()))
            file.unlink()
    history = folder / "history"
    history.mkdir(exist_ok=True)
    columns = zip(*rows, strict=True)
    names = ("instantTime", "completionTime", "action", "metadata")
    content = pa.table(dict(zip(names, map(list, columns), strict=True)))
    content = content.append_column("plan", pa.nulls(len(rows), pa.binary()))
    name = f"{rows[0][0]}_{rows[-1][0]}_0.parquet"
    pq.write_table(content, history / name)
    (history / "manifest_1").write_text(
        json.dumps({"files": [{"fileName": name, "fileLen": (history / name).stat().st_size}]})
    )
    (history / "_version_").write_text("1")
    assert_same_rows(hoodie.read_table(str(table)), expected, meta=True)
    (history / name).write_bytes(b"")
    with pytest.raises(TableError, match="archive"):
        hoodie.read_table(str(table))


def test_logs_begin_slices() -> None:
    """The first of a group without base files does, and the others follow it, in whatever order they are."""
    found = TWO.sliced([(log("115"), 2), (log("110"), 1)], ())
    assert [(item[0], item[2]) for item in found] == [("110", 1), ("110", 2)]
    found = TWO.sliced([(log("115"), 2), (log("110"), 1)], times("120"))
    assert [(item[0], item[2]) for item in found] == [("120", 1), ("115", 2)]


def test_names_of_new_logs() -> None:
    """In layout two they have the write's instant, in layout one the slice's, whose versions count up."""
    there = [log("100"), log("100", 2), log("120")]
    slice_, instant = times("100", "140")
    one, two = (
        slicing.new_log("g", slice_, instant, "1-2-3", there) for slicing in (LAYOUT_ONE, LayoutTwoSlicing())
    )
    assert (str(one), str(two)) == (".g_100.log.3_1-2-3", ".g_140.log.1_1-2-3")
    assert str(two.following) == ".g_140.log.2_1-2-3"


def test_times_of_completion_of_an_upgraded_table(tables: dict[str, Known], tmp_path: Path) -> None:
    """A completed file without one in its name was completed when it was written; the view is picklable."""
    table = tables[BETWEEN]
    base = tmp_path / "t"
    shutil.copytree(Path(table.timeline.base_path), base)
    done = next((base / ".hoodie/timeline").glob("20261127072925027_*"))
    moment = datetime.strptime("20261127072926", "%Y%m%d%H%M%S").timestamp()
    renamed = done.rename(done.with_name("20261127072925027.deltacommit"))
    os.utime(renamed, (moment, moment))
    timeline = Timeline.load(str(base), STORAGE)
    view = pickle.loads(pickle.dumps(TimelineView.of(timeline, STORAGE)))
    slicing = slicing_of(timeline)
    assert view.slicing == slicing
    begun = times("20261127072915260", "20261127072926380")
    overtaken = LogFileName("g", InstantTime("20261127072925027"), 1, "0-1-2")
    assert slicing_of(table.timeline).slice_of(overtaken, begun) == begun[1]
    assert slicing.slice_of(overtaken, begun) == begun[0]
