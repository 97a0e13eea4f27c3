"""Every table service: what it is asked, does, says and refuses, one entry a service."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hoodie
from hoodie.cli import main
from tests.support.services import COMPACT, FILE, Entry, Names, T, Wrong, does, refuses

SORT = "hoodie.clustering.plan.strategy.sort.columns"
FEW = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
_DAYS = "hoodie.partition.ttl.strategy.days.retain"
_NOW = r"\d{17}"
_LOGS = "1 log file of .* in 1 file slice"
_GROUPS = "2 file groups in 1 group"
_GONE = "3 files in 1 partition"
_EARLIEST = f"; the table can be read as of {_NOW} and later"
_OLD = r"1 partition of orders \(1 file group, .*\), older than 30 days"
_INDEX = "  files          ready: 1 file group, 2 files of .*, compacted up to <c1>"
_MERGED = f"  {_LOGS} merged into 1 file of .*, 2 rows, .* s"
_REWRITTEN = f"  {_GROUPS} rewritten into 1 file of .*, 4 rows, .* s"
_HELD = {"from": "<c2>", "why": "savepoint <c2> (hoodie.archive.beyond.savepoint is off)"}
_WRONG_MODES = Wrong.by_all({"mode": "all"}, "mode is 'all'; use one of schedule, execute, run")
_INSTANT_TO_EXECUTE = Wrong(
    given={"instant": T},
    api=f"instant {T} is for mode execute",
    command=(1, f"hoodie: --instant {T} is for --mode execute"),
    job=f"instant {T} is for mode execute",
    operator=f"instant '{T}' is for mode='execute'",
)
_NO_INSTANT = (
    Wrong(
        given={},
        command=(2, "the following arguments are required: --instant"),
        job="the request has no instant; it needs table and instant",
        operator="instant is None; give the time of an instant",
    ),
    *(
        Wrong(given={"instant": text}, operator="give the time of an instant")
        for text in ("", " ", "yesterday", "2026-01-31")
    ),
)


def _no_version(text: str, known: str) -> Wrong:
    message = f"to is {text!r}; use one of 6, 8, 9"
    parser = (2, f"invalid choice: {text!r}")
    operator = f"to is {text!r}; give one of {known}"
    return Wrong(given={"to": text}, api=message, command=parser, job=message, operator=operator)


_DELETES_BY_NAME = Wrong(
    given={"delete": True},
    command=(1, "--delete needs --instant"),
    job="name that of the savepoint to delete",
    operator="give the time of an instant",
)
_NO_NAMES: tuple[Any, ...] = (None, "", [], " , ")
_AT_WORK = "another writer is at work"


def timeline(path: str, action: str) -> list[list[str]]:
    """The lines of `hoodie timeline` with this action, as words."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["timeline", "--table", path]) == 0
    return [line.split() for line in out.getvalue().splitlines() if line.split()[1:2] == [action]]


def _has_metadata(action: str) -> Callable[[Names], None]:
    """Doors that have `extra_metadata` give it; see EXTRA."""

    def check(names: Names) -> None:
        (commit,) = Path(names["path"], ".hoodie").glob(f"{names['plan']}.{action}")
        assert json.loads(commit.read_text())["extraMetadata"].get("by", names["by"]) == names["by"]

    return check


def _restored(names: Names) -> None:
    (shown,) = (item for item in hoodie.instants(names["path"]) if item["action"] == "restore")
    assert (shown["restored_to"], shown["undone"]) == (names["c1"], [names["c3"], names["c2"]])
    assert hoodie.read_table(names["path"], columns=["n"]).to_pydict() == {"n": [0, 0]}


def _rolled_back(names: Names) -> None:
    assert [line[:5] for line in timeline(names["path"], "rollback")] == [
        [names["undo"], "rollback", "completed", "of", names["c3"]]
    ]


def _saved(names: Names) -> None:
    assert [line[:5] for line in timeline(names["path"], "savepoint")] == [
        [names["c2"], "savepoint", "completed", "me,", "x"]
    ]


def _archived(names: Names) -> None:
    shown = hoodie.instants(names["path"], archived=True)
    assert [item["instant"] for item in shown] == [names["c1"], names["c2"], names["c3"]]


def _cleaned(names: Names) -> None:
    assert len(list(Path(names["path"]).glob("*.parquet"))) == 2


# fmt: off
#: what a change of an unpartitioned table from version 6 to 9 says of its properties
_CHANGED = (
    "  timeline: 1 instant, 0 archived ones",
    "  hoodie.compaction.payload.class is removed",
    *(
        f"  hoodie.{name}"
        for name in (
            "record.merge.mode=COMMIT_TIME_ORDERING",
            "table.initial.version=6",
            "table.keygenerator.type=NON_PARTITION",
            "table.legacy.payload.class=org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
            "table.version=9",
            "timeline.history.path=history",
            "timeline.layout.version=2",
            "timeline.path=timeline",
        )
    ),
)

ENTRIES: dict[str, Entry] = {
    "compact": Entry(
        given={"mode": "execute", "instant": T},
        options=COMPACT,
        wrong=(_WRONG_MODES, _INSTANT_TO_EXECUTE),
        histories={
            "logs: planned and executed apart": (
                does(
                    "mode=schedule", "Nothing to do for orders: no compaction is due: 2 of 5 delta commits.*",
                    options={}, status="skipped", mode="schedule", num_slices=0,
                ),
                does(
                    "mode=schedule", f"Scheduled compaction (?P<plan>{_NOW}) of orders: {_LOGS}",
                    "  pending: <plan>", status="scheduled",
                ),
                does(
                    "mode=execute dry_run", f"A compaction of orders would merge {_LOGS}",
                    "  pending compaction <plan>:", FILE, status="planned", pending=["<plan>"],
                ),
                refuses(
                    f"mode=execute instant={T}", "configuration", f"no compaction {T} is pending on <path>"
                ),
                does(
                    "mode=execute instant=<plan>", "Compacted orders: <plan>", _MERGED, status="compacted",
                    compacted=["<plan>"], num_files=1, num_writes=2, num_log_files=1,
                    progress=("compact", "commit"), after=_has_metadata("commit"),
                ),
                does(
                    "mode=execute instant=<plan>",
                    "Nothing to do for orders: compaction <plan> is completed already", status="skipped",
                ),
                does("mode=execute", "Nothing to do for orders: no compaction is pending", status="skipped"),
            ),
            "logs: by default": (
                does(
                    "dry_run", "Nothing to do for orders: no compaction is due: .*", options={},
                    status="skipped", mode="run", num_slices=0,
                ),
                does(
                    "dry_run", f"A compaction of orders would merge {_LOGS}", FILE, status="planned",
                    compacted=[],
                ),
                refuses("beside_writer", "table_busy", _AT_WORK),
                does(
                    "", f"Compacted orders: (?P<plan>{_NOW})", _MERGED, status="compacted",
                    progress=("schedule", "compact", "commit"), after=_has_metadata("commit"),
                ),
            ),
        },
    ),
    "log-compact": Entry(
        given={"mode": "execute", "instant": T},
        wrong=(_WRONG_MODES, _INSTANT_TO_EXECUTE),
        histories={
            "logs: of version 6": (
                refuses("", "configuration", "is of version 6, in which readers of Apache Hudi 0.15.0"),
                refuses("dry_run", "configuration", r"compact it \(hoodie compact\), or upgrade it"),
            ),
        },
    ),
    "cluster": Entry(
        given={"mode": "execute", "instant": T},
        options={SORT: "n"},
        wrong=(_WRONG_MODES, _INSTANT_TO_EXECUTE),
        histories={
            "small: planned and executed apart": (
                does(
                    "mode=schedule", f"Scheduled clustering (?P<plan>{_NOW}) of orders: {_GROUPS}",
                    "  pending: <plan>", status="scheduled",
                ),
                does(
                    "mode=execute dry_run",
                    f"A clustering of orders would rewrite {_GROUPS} into about 1 file",
                    "  pending clustering <plan>:", FILE, FILE, status="planned", pending=["<plan>"],
                ),
                does(
                    "mode=execute instant=<plan>", "Clustered orders: <plan>", _REWRITTEN,
                    status="clustered", clustered=["<plan>"], after=_has_metadata("replacecommit"),
                ),
                does(
                    "mode=execute instant=<plan>",
                    "Nothing to do for orders: clustering <plan> is completed already", status="skipped",
                ),
                refuses("mode=execute instant=1", "configuration", "no clustering 1 is pending"),
            ),
            "small: by default": (
                refuses(
                    "", "configuration", "names nope, .* does not have; it has _hoodie_commit_time",
                    {SORT: "nope"},
                ),
                does(
                    "dry_run", f"A clustering of orders would rewrite {_GROUPS} into about 1 file", FILE,
                    FILE, status="planned", clustered=[],
                ),
                does(
                    "", f"Clustered orders: (?P<plan>{_NOW})", _REWRITTEN, status="clustered",
                    progress=("schedule", "cluster", "commit"), after=_has_metadata("replacecommit"),
                ),
                does(
                    "", "Nothing to do for orders: rewriting the 1 small file slices would change.*",
                    status="skipped",
                ),
            ),
        },
    ),
    "clean": Entry(
        given={"mode": "schedule"},
        options=FEW,
        wrong=(_WRONG_MODES,),
        histories={
            "five: planned and executed apart": (
                does(
                    "mode=schedule", f"Scheduled clean (?P<plan>{_NOW}) of orders: {_GONE}{_EARLIEST}",
                    "  pending: <plan>", status="scheduled", num_files=3,
                ),
                does(
                    "mode=execute dry_run", f"A clean of orders would delete {_GONE}.*",
                    "  pending clean <plan>:", FILE, FILE, FILE, status="planned", pending=["<plan>"],
                ),
                does(
                    "mode=execute", f"Cleaned orders, <plan>: {_GONE}, .* deleted.*", options={},
                    status="cleaned", cleaned=["<plan>"], num_files=3, after=_cleaned,
                ),
            ),
            "five: by default": (
                does(
                    "dry_run", f"A clean of orders would delete {_GONE}{_EARLIEST}", FILE, FILE, FILE,
                    status="planned", num_files=3,
                ),
                does(
                    "", f"Cleaned orders, (?P<plan>{_NOW}): {_GONE}, .* deleted{_EARLIEST}", status="cleaned",
                    num_files=3, partitions=[""], progress=("clean",), after=_cleaned,
                ),
                does(
                    "", "Nothing to do for orders: no clean is due: 0 of 1 commits since the last one.*",
                    status="skipped", cleaned=[],
                ),
            ),
        },
    ),
    "archive": Entry(
        given={},
        options=FEW,
        histories={
            "five: by default": (
                refuses(
                    "", "configuration",
                    "hoodie.keep.min.commits=2 must be less than hoodie.keep.max.commits=2",
                    {"hoodie.keep.max.commits": "2"},
                ),
                refuses("beside_writer", "table_busy", _AT_WORK),
                does(
                    "dry_run", r"An archive run on orders would move 3 instants \(9 files\)", "  <c1> commit",
                    "  <c2> commit", "  <c3> commit", "  the active timeline begins with commit <c4>",
                    status="planned", num_files=9, first="<c4>",
                ),
                does(
                    "", r"Archived 3 instants \(9 files\) of orders into \.commits_\.archive\.1_1-0-1, .*",
                    "  the active timeline begins with commit <c4>", status="archived", num_files=9,
                    after=_archived,
                ),
                does(
                    "", "Nothing to do for orders: the timeline has 2 commits, 3 of each may stay.*",
                    status="skipped",
                ),
            ),
            "saved: held back": (
                does(
                    "dry_run", "An archive run on orders would move 1 instant .*", "  <c1> commit",
                    "  the active timeline begins with commit <c2>",
                    r"  held back from <c2> on: savepoint <c2> \(hoodie.archive.beyond.savepoint is off\)",
                    status="planned", held=[_HELD],
                ),
            ),
        },
    ),
    "rollback": Entry(
        given={"instant": T},
        wrong=_NO_INSTANT,
        histories={
            "three: the newest commit": (
                does(
                    "instant=<c3> dry_run",
                    "A rollback of completed commit <c3> of orders would delete 1 file of .*",
                    r"  \S+_<c3>\.parquet", status="planned", target="<c3>", num_files=1,
                ),
                refuses("instant=<c2>", "table", r"later commits may depend on it \(<c3>"),
                refuses("instant=<c3> beside_writer", "table_busy", _AT_WORK),
                does(
                    "instant=<c3>",
                    f"Rolled back completed commit <c3> of orders by (?P<undo>{_NOW}): 1 file of .* deleted",
                    status="rolled_back", target="<c3>", num_files=1, after=_rolled_back,
                ),
                does(
                    "instant=<c3>", "Nothing to do for orders: <c3> was rolled back by <undo>.*",
                    status="skipped",
                ),
                refuses("instant=1", "configuration", "1"),
            ),
        },
    ),
    "cancel": Entry(
        given={"instant": T},
        wrong=_NO_INSTANT,
        histories={
            "planned: a compaction": (
                does(
                    "instant=<plan> dry_run",
                    "To cancel requested compaction <plan> of orders would delete its plan and 0 files.*",
                    status="planned", target="<plan>", target_action="compaction",
                ),
                does(
                    "instant=<plan>",
                    f"Cancelled requested compaction <plan> of orders by (?P<undo>{_NOW}): "
                    "its plan and 0 files.*",
                    status="cancelled", target="<plan>", target_action="compaction",
                ),
                does(
                    "instant=<plan>", "Nothing to do for orders: <plan> was cancelled by <undo> already",
                    status="skipped",
                ),
            ),
        },
    ),
    "savepoint": Entry(
        given={"instant": T, "delete": True, "user": "me", "comments": "why"},
        wrong=(_DELETES_BY_NAME,),
        histories={
            "three: made and deleted": (
                does(
                    "dry_run", "Savepoint <c3> of orders would keep 1 file of .* in 1 partition",
                    r"  \S+_<c3>\.parquet", status="planned", instant="<c3>",
                ),
                does(
                    "instant=<c2> user=me comments=x",
                    "Made savepoint <c2> of orders: it keeps 1 file of .* in 1 partition",
                    status="created", instant="<c2>", user="me", comments="x", after=_saved,
                ),
                does(
                    "instant=<c2>", "Nothing to do for orders: commit <c2> has a savepoint already by me: x",
                    status="skipped",
                ),
                does(
                    "instant=<c2> delete",
                    "Deleted savepoint <c2> of orders: 1 file of .* are left to the cleaner",
                    status="deleted",
                ),
                does("instant=1 delete", "Nothing to do for orders: .*", status="skipped"),
            ),
        },
    ),
    "restore": Entry(
        given={"instant": T},
        wrong=_NO_INSTANT,
        histories={
            "three: to the first commit": (
                does(
                    "instant=<c1> dry_run",
                    "A restore of orders to <c1> would take back 2 instants, 2 files of .*",
                    "  <c3> commit", "  <c2> commit", FILE, FILE, status="planned",
                ),
                refuses("instant=1", "configuration", "1"),
                does(
                    "instant=<c1>",
                    f"Restored orders to <c1> by {_NOW}: 2 instants, 2 files of .* taken back",
                    "  <c3> commit", "  <c2> commit", status="restored", restored_to="<c1>", after=_restored,
                ),
                does("instant=<c1>", "Nothing to do for orders: .*", status="skipped"),
            ),
            "saved: over a savepoint": (
                refuses("instant=<c1>", "table", "savepoints can't be taken back: <c2>"),
            ),
        },
    ),
    "index": Entry(
        given={
            "mode": "create", "indexes": "by_name", "column": "name", "using": "column_stats",
            "expression": "lower",
        },
        wrong=(
            Wrong.by_all({"mode": "make", "indexes": "files"}, "mode is 'make'; use one of show, create"),
            *(
                Wrong(given={"mode": "create", "indexes": names}, operator="name those to create")
                for names in _NO_NAMES
            ),
        ),
        histories={
            "one: made and dropped": (
                refuses("mode=create", "configuration", "names? (no index|those) to create"),
                does("mode=show", "orders has no indexes", status="shown", indexes=[]),
                does(
                    "mode=create indexes=files dry_run",
                    "hoodie index create of orders would make files; nothing was changed",
                    status="planned",
                ),
                does(
                    "mode=create indexes=files", "Made files of orders", _INDEX, status="created",
                    made=["files"],
                ),
                does(
                    "mode=create indexes=files",
                    "Nothing to do for orders: the table has the indexes files already", status="skipped",
                ),
                does("mode=show", "orders has 1 index", _INDEX, status="shown"),
                does("mode=rebuild", "Rebuilt files of orders", _INDEX, status="rebuilt", made=["files"]),
                does("mode=drop", "Dropped files of orders", status="dropped", indexes=[]),
                does("mode=drop", "Nothing to do for orders.*", status="skipped"),
            ),
            "planned: beside a plan": (refuses("mode=create indexes=files", "table_busy", "<plan>"),),
        },
    ),
    "upgrade": Entry(
        given={"to": "9"},
        wrong=(_no_version("7", "6, 8, 9"),),
        histories={
            "one: a table of version 6": (
                does(
                    "to=6", "Nothing to do for orders: the table has version 6", status="skipped",
                    from_version=6, to_version=6,
                ),
                does(
                    "to=9 dry_run", "orders would go from version 6 to version 9", *_CHANGED,
                    status="planned", from_version=6, to_version=9,
                ),
                refuses(
                    "to=9", "configuration", "hoodie.write.table.version=6 contradicts the version 9",
                    {"hoodie.write.table.version": "6"},
                ),
                does(
                    "to=9", "orders went from version 6 to version 9", *_CHANGED, status="upgraded",
                    from_version=6, to_version=9,
                ),
                does("to=8", "Nothing to do for orders: the table has version 9", status="skipped"),
            ),
        },
    ),
    "downgrade": Entry(
        given={"to": "8"},
        wrong=(_no_version("5", "6, 8"),),
        histories={
            "one: of version 6": (
                does(
                    "to=6", "Nothing to do for orders: the table has version 6", status="skipped",
                    from_version=6, to_version=6,
                ),
                refuses("to=9", "configuration", "to version 9|to is '9'; give one of 6, 8"),
            ),
        },
    ),
    "ttl": Entry(
        given={},
        options={_DAYS: "30"},
        histories={
            "aged: an old partition": (
                refuses("", "configuration", "say how many days a partition lives", {}),
                does(
                    "dry_run", f"A run would delete {_OLD}", "  eu  20.*", status="planned",
                    partitions=["eu"],
                ),
                does(
                    "", f"Deleted {_OLD}, by {_NOW}", "  eu  20.*", status="deleted", partitions=["eu"],
                ),
                does("", "Nothing to do for orders: no partition is older than 30 days", status="skipped"),
            ),
        },
    ),
    "sync": Entry(
        given={"metastore": "thrift://127.0.0.1:9", "database": "lake"},
        histories={
            "one: with the wrong catalog": (
                refuses(
                    "metastore=thrift://h:9083", "configuration",
                    "is the address of a metastore, and .*AWS Glue",
                    {"hoodie.meta.sync.client.tool.class": "GLUE"},
                ),
            ),
        },
    ),
}
