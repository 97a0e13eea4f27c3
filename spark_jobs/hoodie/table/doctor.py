"""A look at a table's health that leaves it as it is: what `hoodie doctor` says of it, with what to do.

Standard library only, so that it runs on Airflow's machines. Looked at are the properties, the timeline and
the files that it names, pending instants with their heartbeats, leftovers, and whether the table services
keep up; the rows only where it is to look deep.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import HoodieError, StorageError, TableError, TableNotFound
from hoodie.storage import LOCKS
from hoodie.table import properties
from hoodie.table.audit import audit
from hoodie.table.consent import allowed_source
from hoodie.table.features import features
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import HeartbeatFile, read_heartbeats
from hoodie.table.markers import marker_instants
from hoodie.table.properties import TableType
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline.archived import unmended
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.instant import WRITE_ACTIONS, Action, Instant, Kind, State

OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"

#: files of one kind that are named in findings of their own
_LISTED = 100
#: an instant so far in the future shows that clocks differ
_AHEAD_MS = 5 * 60_000
_OLD_PLAN_S = 24 * 3600
#: so many commits without the service that would take or merge their files show that it does not run
_UNCLEANED, _UNCOMPACTED, _UNARCHIVED = 40, 20, 100
_NAMED = 5


@dataclass(frozen=True)
class Finding:
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


def check_table(path: str, deep: bool = False, options: Mapping[str, Any] | None = None) -> list[Finding]:
    """Findings about the table at a path. Raises nothing: what can't be read is a finding. Of the options
    those of the storage count.

    `deep` opens every data file, reads all pages of the latest base files, and walks the blocks of the logs.
    """
    try:
        examined = _Examination(Table.open(path, Config.of(options or {})))
    except TableNotFound as error:
        return [Finding("table", ERROR, error.message)]
    except (HoodieError, OSError) as error:
        return [Finding("table", ERROR, str(error))]
    findings: list[Finding] = []
    for check in (
        _properties,
        _storage,
        _features,
        _bootstrap,
        _metadata_table,
        _timeline,
        _archive,
        _files,
        *((_contents,) if deep else ()),
        _pending,
        _leftovers,
        _services,
    ):
        try:
            findings += check(examined)
        except (HoodieError, OSError) as error:
            findings.append(Finding(check.__name__.strip("_").replace("_", " "), ERROR, str(error)))
    return findings


class _Examination:
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

    def age_s(self, instant: Instant) -> int:
        """Seconds since the newest file of an instant was written."""
        written = self.timeline.changed_ms(instant)
        return 0 if written is None else max(0, (self.storage.now_ms() - written) // 1000)

    def since_last(self, action: Action) -> int:
        """Completed writes after the last completed instant of an action; all where there is none."""
        done = self.timeline.filter([action], completed=True)
        last = done[-1].time if done else ""
        return len(self.timeline.after(last, self.timeline.commits()))


def _properties(table: _Examination) -> Iterator[Finding]:
    props = table.props
    keys = ", ".join(props.record_key_fields) or "generated"
    partitions = ", ".join(props.partition_fields) or "none"
    yield Finding(
        "table",
        OK,
        f"{props.name} at {table.base_path}: {props.table_type.value}, table version {props.version}, keys "
        f"{keys}, partition fields {partitions}",
    )
    if table.storage.exists(properties.backup_path(table.base_path)):
        yield Finding(
            "properties",
            WARNING,
            f"{properties.BACKUP_NAME} is there: a change of the properties was interrupted, or is going on",
            "nothing, if no process is at work: the next write puts it right",
        )


def _storage(table: _Examination) -> Iterator[Finding]:
    """How files are created exclusively, which a temporary file in `.hoodie` shows."""
    try:
        way = table.storage.creation(f"{table.base_path}/{properties.META_FOLDER}")
    except StorageError as error:
        if error.values.get("cause") == "no_conditional_writes":
            yield Finding("storage", ERROR, error.message, "put the table into such a bucket")
        else:
            said = f"whether tables can be written here is not known: {error.message}"
            yield Finding("storage", NOTE, said)
        return
    mounted = way == LOCKS
    yield Finding(
        "storage",
        NOTE if mounted else OK,
        f"of racing writers one creates a file, by {way}",
        "see that all writers of the table run on one machine: others may not see its locks"
        if mounted
        else "",
    )


def _features(table: _Examination) -> Iterator[Finding]:
    for setting in features(table.props).values():
        yield Finding(
            "features",
            WARNING,
            f"the table has {setting}, with which not all works here yet",
            "what does not work says so before it changes anything; use Apache Hudi for it",
        )


def _bootstrap(table: _Examination) -> Iterator[Finding]:
    source = table.props.get(properties.BOOTSTRAP_BASE_PATH)
    if not source:
        return
    try:
        place = allowed_source(table.storage, table.base_path, source)
    except HoodieError as error:
        yield Finding("bootstrap", NOTE, error.message)
        return
    if TableRef(place, table.table.ref.storage_options).storage().exists(place):
        yield Finding("bootstrap", OK, f"bootstrapped from the files at {source}")
    else:
        yield Finding(
            "bootstrap",
            WARNING,
            f"the files at {source}, from which the table was bootstrapped, are not there: file groups that "
            "were not rewritten since can't be read",
            f"restore them, or put their new place into {properties.BOOTSTRAP_BASE_PATH} of "
            f"{properties.FILE_NAME}",
        )


def _metadata_table(table: _Examination) -> Iterator[Finding]:
    listed = table.props.metadata_partitions
    there = table.storage.exists(f"{table.base_path}/{properties.META_FOLDER}/metadata")
    if listed:
        yield Finding(
            "metadata table",
            OK if there else ERROR,
            f"the properties name {', '.join(listed)}"
            + ("" if there else ", but .hoodie/metadata is missing"),
            "" if there else "hoodie index rebuild makes it anew, and so does the next write from here",
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


def _timeline(table: _Examination) -> Iterator[Finding]:
    timeline = table.timeline
    commits = timeline.commits()
    text = f"{len(timeline.instants)} instants, {len(commits)} completed writes"
    if commits:
        text += f", the last {commits[-1]} {_ago(table.age_s(commits[-1]))} ago"
    yield Finding("timeline", OK, text)
    torn = [str(item) for item in commits if not _readable(table, item)]
    if torn:
        yield Finding(
            "timeline",
            ERROR,
            f"can't be read, empty or cut short: {_some(torn)}",
            "restore these files in .hoodie from a copy, or roll the instants back: hoodie rollback",
        )
    now = int(time.time() * 1000)
    utc = table.props.timeline_utc
    ahead = [item.time for item in timeline if _millis(item.time, utc) > now + _AHEAD_MS]
    if ahead:
        yield Finding(
            "timeline",
            WARNING,
            f"instants in the future: {_some(ahead)}; now is {time.strftime('%Y%m%d%H%M%S')} here",
            "check the clocks and time zones of the writers (hoodie.table.timeline.timezone is "
            f"{'UTC' if utc else 'LOCAL'})",
        )


def _archive(table: _Examination) -> Iterator[Finding]:
    """Does Apache Hudi 1.x load the archive? It does so in the middle of an upgrade."""
    folder = table.table.archive_folder
    names = [item.name for item in unmended(table.storage, folder)]
    if names:
        yield Finding(
            "archive",
            WARNING,
            f"{', '.join(names)}: written by an earlier release of hoodie, Apache Hudi 1.x can't load "
            f"{'it' if len(names) == 1 else 'them'} and would fail half-way in an upgrade of the table",
            "hoodie doctor --repair mends it, and so does the next hoodie archive",
        )


def _readable(table: _Examination, instant: Instant) -> bool:
    try:
        table.timeline.commit(instant, table.storage)
    except TableError:
        return False
    return True


def _files(table: _Examination) -> Iterator[Finding]:
    """Are the files that the active timeline names there, as long as it says?"""
    if table.timeline.last_commit is None:
        return
    try:
        found = audit(table.table)
    except ImportError:
        text = "not looked at: plans and results of services are Avro, and fastavro is not installed here"
        yield Finding("files", NOTE, text, "pip install fastavro")
        return
    for wrong in _first(found.latest):
        remedy = f"queries lack rows or show old ones, and refuse to: {_RESTORE}"
        yield Finding("files", ERROR, str(wrong), remedy)
    for wrong in _first(found.older):
        yield Finding(
            "files",
            WARNING,
            str(wrong),
            "newest rows do not need it, but time travel, incremental queries and restores do: restore the "
            "file from a copy, or ask for newer instants",
        )
    for instant, what, path in _first(found.kept):
        yield Finding(
            "files",
            ERROR,
            f"{path} is missing, which {what} {instant.time} needs",
            "restore the file from a copy, or "
            + ("delete the savepoint" if what == "savepoint" else f"hoodie cancel --instant {instant.time}"),
        )
    if len(found.latest) + len(found.older) + len(found.kept) > 3 * _LISTED:
        yield Finding("files", ERROR, "more files are missing or damaged than are listed here")
    if not (found.latest or found.older or found.kept):
        yield Finding("files", OK, f"all {found.files} that the active timeline names are there, in full")


_RESTORE = "restore the file from a copy, or take the table back to a state without it: hoodie restore"


def _first(items: list[Any]) -> list[Any]:
    return items[:_LISTED]


def _contents(table: _Examination) -> Iterator[Finding]:
    """Every data file, opened and read."""
    try:
        from hoodie.table.contents import OLD, check_contents
    except ImportError as error:
        text = f"files are not opened: {error.name} is not installed here"
        yield Finding("contents", NOTE, text, "pip install 'airflow-hoodie[local]'")
        return
    done = check_contents(table.table)
    for weight, text in done.findings[:_LISTED]:
        status = {OLD: WARNING}.get(weight, ERROR if weight else NOTE)
        yield Finding("contents", status, text, _RESTORE if weight else "nothing: readers pass it over")
    if len(done.findings) > _LISTED:
        yield Finding("contents", ERROR, f"{len(done.findings) - _LISTED} more files can't be read in full")
    if not any(weight for weight, _ in done.findings):
        text = f"{done.bases} base files and {done.logs} log files were opened, and can be read"
        yield Finding("contents", OK, text)


def _pending(table: _Examination) -> Iterator[Finding]:
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


def _pending_one(table: _Examination, instant: Instant) -> Finding:
    since = _ago(table.age_s(instant))
    beat: HeartbeatFile | None = table.live.get(instant.time)
    if beat is not None:
        return Finding("pending", NOTE, f"{instant}, {since} ago: {beat.owner} is at work on it")
    if instant.action is Action.REPLACECOMMIT and _is_clustering(table, instant):
        if instant.state is State.REQUESTED:
            return _plan(table, instant, since, "a clustering's plan that waits to be carried out")
        text = f"{instant}, {since} ago: a clustering that was begun, and no process is at work on it"
        return Finding("pending", WARNING, text, _RUN[instant.action])
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
            "write to the table, which finishes a rollback; a restore has to be run again",
        )
    if instant.state is State.INFLIGHT and instant.action is not Action.CLEAN:
        text = f"{instant}, {since} ago: begun, and no process is at work on it"
        return Finding("pending", WARNING, text, _RUN.get(instant.action, _BY_HUDI))
    return _plan(table, instant, since, "a plan that waits to be carried out")


def _is_clustering(table: _Examination, instant: Instant) -> bool:
    """Or else a failed write. Plans are Avro; where it can't be read, the more careful answer."""
    try:
        return table.timeline.kind(instant, table.storage) is Kind.CLUSTERING
    except ImportError:
        return True


_BY_HUDI = "run it, or take it back, with Apache Hudi"
_RUN = {
    Action.COMPACTION: "hoodie compact --mode execute; hoodie cancel drops it",
    Action.REPLACECOMMIT: "hoodie cluster --mode execute; hoodie cancel drops it",
    Action.CLEAN: "hoodie clean --mode execute",
    Action.SAVEPOINT: "make the savepoint again: hoodie savepoint",
    Action.INDEXING: "hoodie index execute; hoodie index drop --indexes takes it back",
}


def _plan(table: _Examination, instant: Instant, since: str, what: str) -> Finding:
    status = WARNING if table.age_s(instant) > _OLD_PLAN_S else NOTE
    return Finding("pending", status, f"{instant}, {since} ago: {what}", _RUN.get(instant.action, _BY_HUDI))


def _leftovers(table: _Examination) -> Iterator[Finding]:
    pending = {instant.time for instant in table.timeline.pending()}
    stale = sorted(set(table.dead) - pending)
    if stale:
        yield Finding(
            "leftovers",
            NOTE,
            f"heartbeats of processes that are gone: {_some(stale)}",
            "nothing: the next write removes them",
        )
    markers = [name for name in marker_instants(table.table) if name not in pending]
    if markers:
        yield Finding(
            "leftovers",
            NOTE,
            f"markers of finished writes: {_some(sorted(markers))}",
            "nothing: the next write removes them, and files that no commit reports",
        )


def _services(table: _Examination) -> Iterator[Finding]:
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
        yield Finding("services", WARNING, text, f"{command}; hoodie services plan says what holds it back")
    if not late:
        yield Finding("services", OK, "compaction, clean and archive keep up")


def _millis(time_text: str, utc: bool) -> int:
    try:
        return instant_millis(time_text, utc)
    except ValueError:  # Apache Hudi's own instants of bootstrap are no times
        return 0


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _ago(seconds: int) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds} s"
