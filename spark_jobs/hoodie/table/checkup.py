"""A table's health as its properties, its timeline and a few listings show it: findings that cost little,
however many files the table has. `hoodie.table.doctor` has them all.

Standard library only, and nothing is imported that needs more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hoodie.config.versions import is_writable
from hoodie.errors import HoodieError, NotInstalled
from hoodie.shown import Shown
from hoodie.table.features import features
from hoodie.table.handle import Table
from hoodie.table.heartbeat import HeartbeatFile, read_heartbeats
from hoodie.table.markers import marker_instants
from hoodie.table.properties import TableProperties, TableType
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline.instant import WRITE_ACTIONS, Action, Instant, Kind, State
from hoodie.timeline.placement import VERSION_CHANGE, version_change
from hoodie.timeline.time import REQUESTED

OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"

BY_HUDI = "run it, or take it back, with Apache Hudi"
_OLD_PLAN_S = 24 * 3600
#: so many commits without the service that would take or merge their files show that it does not run
_UNCLEANED, _UNCOMPACTED, _UNARCHIVED = 40, 20, 100
_NAMED = 5


@dataclass(frozen=True, repr=False)
class Finding(Shown):
    """One thing looked at. status: ok, note, warning or error. remedy: what to do, "" for nothing."""

    check: str
    status: str
    text: str
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def worst(findings: list[Finding]) -> str:
    """The status of them all."""
    return max((finding.status for finding in findings), key=(OK, NOTE, WARNING, ERROR).index, default=OK)


class Examination:
    """The table at one moment: heartbeats first, then the timeline, so that a writer that ends meanwhile
    is seen.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.base_path, self.storage, self.props = table.base_path, table.storage, table.properties
        beats = read_heartbeats(table)
        interval, misses = INTERVAL_MS.default, TOLERABLE_MISSES.default
        self.live = {beat.instant: beat for beat in beats if beat.alive(interval, misses)}
        self.dead = {beat.instant: beat for beat in beats if beat.instant not in self.live}
        self.timeline = table.timeline

    def remedy(self, here: str, there: str = BY_HUDI) -> str:
        """What to do: `here` where this package serves the table's version, else `there`."""
        return here if is_writable(self.props.version) else there

    def age_s(self, instant: Instant) -> int:
        """Seconds since the newest file of an instant was written."""
        written = self.timeline.changed_ms(instant)
        return 0 if written is None else max(0, (self.storage.now_ms() - written) // 1000)

    def since_last(self, action: Action) -> int:
        """Completed writes after the last completed instant of an action; all where there is none."""
        done = self.timeline.filter([action], completed=True)
        last = done[-1].time if done else ""
        return len(self.timeline.after(last, self.timeline.commits()))


def check_features(table: Examination) -> Iterator[Finding]:
    for setting in features(table.props).values():
        yield Finding(
            "features",
            WARNING,
            f"the table has {setting}, with which not all works here yet",
            "what does not work says so before it changes anything; use Apache Hudi for it",
        )


def check_version_change(table: Examination) -> Iterator[Finding]:
    """Is a change of the table version under way, or was it killed."""
    if not table.timeline.holds(VERSION_CHANGE):
        return
    now, change = table.props.version, version_change(table.storage, table.base_path)
    text = "its version is changed" + (f" from {change[0]} to {change[1]}" if change else "")
    owner = next((beat.owner for beat in table.live.values()), None)
    if owner is not None:
        yield Finding("version", NOTE, f"{text}: {owner} is at work")
        return
    remedy = "write to the table, which deletes what is left of the other version"
    if change is not None:
        former, to = change
        command = f"hoodie {'upgrade' if to > former else 'downgrade'} --table {table.base_path} --to {to}"
        others = "takes the change back" if now == former else "does so, too"
        remedy = f"{command} finishes it; the next write {others}"
    yield Finding(
        "version",
        WARNING,
        f"{text}, which was killed: no process is at work on it. The table has version {now}; readers pass "
        "over copies of its instants in the form of another version",
        table.remedy(remedy),
    )


def check_metadata_table(table: Examination) -> Iterator[Finding]:
    listed = table.props.metadata_partitions
    there = table.storage.exists(table.table.ref.metadata_table.uri)
    if listed:
        yield Finding(
            "metadata table",
            OK if there else ERROR,
            f"the properties name {', '.join(listed)}"
            + ("" if there else ", but .hoodie/metadata is missing"),
            ""
            if there
            else table.remedy(
                "hoodie index rebuild makes it anew, and so does the next write from here",
                "let a write of Apache Hudi make it anew",
            ),
        )
    elif there:
        yield Finding(
            "metadata table",
            WARNING,
            ".hoodie/metadata is there, but the properties name none of its partitions: readers pass it over",
            "delete the folder .hoodie/metadata when no process writes to the table",
        )
    else:
        yield Finding("metadata table", OK, "none, file listings are used")


def check_pending(table: Examination) -> Iterator[Finding]:
    pending = table.timeline.pending()
    for instant in pending:
        yield _pending_one(table, instant)
    if not pending:
        yield Finding("pending", OK, "no write or service is unfinished")
    times = {instant.time for instant in table.timeline}
    for beat in table.live.values():
        if beat.instant not in times:
            yield Finding(
                "heartbeats", NOTE, f"{beat.owner} is beginning or ending its work ({beat.instant})"
            )


def _pending_one(table: Examination, instant: Instant) -> Finding:
    since = ago(table.age_s(instant))
    beat: HeartbeatFile | None = table.live.get(instant.time)
    if beat is not None:
        return Finding("pending", NOTE, f"{instant}, {since} ago: {beat.owner} is at work on it")
    if instant.replaces and _is_clustering(table, instant):
        if instant.state is State.REQUESTED:
            return _plan(table, instant, since, "a clustering's plan that waits to be carried out")
        text = f"{instant}, {since} ago: a clustering that was begun, and no process is at work on it"
        return Finding("pending", WARNING, text, table.remedy(_RUN[instant.action]))
    if instant.action in WRITE_ACTIONS:
        return Finding(
            "pending",
            WARNING,
            f"{instant}, {since} ago: a failed write, no process is at work on it",
            "nothing: the next write rolls it back",
        )
    if instant.action in (Action.ROLLBACK, Action.RESTORE):
        return Finding(
            "pending",
            WARNING,
            f"{instant}, {since} ago: it did not come to its end",
            table.remedy(
                "write to the table, which finishes a rollback; a restore has to be run again",
                "write to the table with Apache Hudi, which finishes a rollback; run a restore again",
            ),
        )
    if instant.state is State.INFLIGHT and instant.action is not Action.CLEAN:
        text = f"{instant}, {since} ago: begun, and no process is at work on it"
        return Finding("pending", WARNING, text, _remedy(table, instant))
    return _plan(table, instant, since, "a plan that waits to be carried out")


def _is_clustering(table: Examination, instant: Instant) -> bool:
    """Or else a failed write. Plans are Avro; where it can't be read, the more careful answer."""
    try:
        return table.timeline.kind(instant, table.storage) is Kind.CLUSTERING
    except NotInstalled:
        return True


_RUN = {
    Action.COMPACTION: "hoodie compact --mode execute; hoodie cancel drops it",
    Action.LOGCOMPACTION: "hoodie log-compact --mode execute; hoodie cancel drops it",
    **dict.fromkeys(
        (Action.REPLACECOMMIT, Action.CLUSTERING), "hoodie cluster --mode execute; hoodie cancel drops it"
    ),
    Action.CLEAN: "hoodie clean --mode execute",
    Action.SAVEPOINT: "make the savepoint again: hoodie savepoint",
    Action.INDEXING: "hoodie index execute; hoodie index drop --indexes takes it back",
}


def _plan(table: Examination, instant: Instant, since: str, what: str) -> Finding:
    status = WARNING if table.age_s(instant) > _OLD_PLAN_S else NOTE
    return Finding("pending", status, f"{instant}, {since} ago: {what}", _remedy(table, instant))


def _remedy(table: Examination, instant: Instant) -> str:
    """What runs the service. Log compactions of tables in layout one are Apache Hudi's."""
    if instant.action is Action.LOGCOMPACTION and not table.timeline.layout.has_completion_time:
        return table.remedy(BY_HUDI)
    return table.remedy(_RUN.get(instant.action, BY_HUDI))


def check_leftovers(table: Examination) -> Iterator[Finding]:
    pending = {instant.time for instant in table.timeline.pending()}
    stale = sorted(set(table.dead) - pending, key=REQUESTED.key)
    if stale:
        yield Finding(
            "leftovers",
            NOTE,
            f"heartbeats of processes that are gone: {some(stale)}",
            "nothing: the next write removes them",
        )
    markers = [name for name in marker_instants(table.table) if name not in pending]
    if markers:
        yield Finding(
            "leftovers",
            NOTE,
            f"markers of finished writes: {some(sorted(markers, key=REQUESTED.key))}",
            "nothing: the next write removes them, and files that no commit reports",
        )


def check_services(table: Examination) -> Iterator[Finding]:
    """Do the table services keep up? Counts only; `hoodie services plan` says what is due and why."""
    behind: list[tuple[str, int, str]] = []
    if table.props.table_type is TableType.MERGE_ON_READ:
        deltas = [item for item in table.timeline.commits() if item.action is Action.DELTACOMMIT]
        merged = table.timeline.filter([Action.COMMIT], completed=True)
        last = merged[-1].time if merged else ""
        behind.append(("compaction", len(table.timeline.after(last, deltas)), "hoodie compact"))
    limits = {"compaction": _UNCOMPACTED, "clean": _UNCLEANED, "archive": _UNARCHIVED}
    behind.append(("clean", table.since_last(Action.CLEAN), "hoodie clean"))
    behind.append(("archive", len(table.timeline.commits()), "hoodie archive"))
    late = [item for item in behind if item[1] > limits[item[0]]]
    for name, count, command in late:
        text = (
            f"{count} writes on the active timeline: archiving does not keep up"
            if name == "archive"
            else f"{count} writes since the last {name}"
        )
        run = table.remedy(command, f"run the {name} with Apache Hudi")
        yield Finding("services", WARNING, text, f"{run}; hoodie services plan says what holds it back")
    if not late:
        yield Finding("services", OK, "compaction, clean and archive keep up")


def some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def ago(seconds: int) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds} s"


Check = Callable[[Examination], Iterable[Finding]]

_GLANCE: tuple[Check, ...] = (
    check_features,
    check_version_change,
    check_metadata_table,
    check_pending,
    check_leftovers,
    check_services,
)


def glance(table: Table) -> list[Finding]:
    """The findings of this module. Raises HoodieError and OSError where the timeline can't be listed; what
    else can't be read is a finding.
    """
    return run_checks(Examination(table), _GLANCE)


def remedy_for(props: TableProperties, text: str) -> str:
    """A remedy with what it says of commands where a table is read only here."""
    if is_writable(props.version) or "hoodie " not in text:
        return text
    return f"{text}. Tables of version {props.version} are read only here: use Apache Hudi for it"


def run_checks(examined: Examination, checks: Iterable[Check]) -> list[Finding]:
    """What checks find; of one that fails, that."""
    findings: list[Finding] = []
    for check in checks:
        try:
            for found in check(examined):
                findings.append(replace(found, remedy=remedy_for(examined.props, found.remedy)))
        except (HoodieError, OSError) as error:
            name = check.__name__.strip("_").removeprefix("check_").replace("_", " ")
            findings.append(Finding(name, ERROR, str(error)))
    return findings
