"""The checks of `hoodie doctor` on a table. They change nothing, and each finding names a remedy.

They check the properties, the timeline and the files that it names, pending instants with their heartbeats,
leftovers, and whether the table services run often enough. Only `deep` reads the rows. Standard library only,
so that the checks run on Airflow's machines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import HoodieError, NotInstalled, StorageError, TableError, TableNotFound
from hoodie.storage import LOCKS
from hoodie.table import properties
from hoodie.table.allowed_folders import allowed_source
from hoodie.table.audit import audit
from hoodie.table.checkup import (
    ERROR,
    NOTE,
    OK,
    WARNING,
    Check,
    Examination,
    Finding,
    ago,
    check_features,
    check_leftovers,
    check_metadata_table,
    check_pending,
    check_services,
    check_version_change,
    run_checks,
    some,
)
from hoodie.table.handle import Table, TableRef
from hoodie.text import install
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.instant import Instant
from hoodie.timeline.time import InstantTime

#: files of one kind that are named in findings of their own
_LISTED = 100
#: an instant so far in the future shows that clocks differ
_AHEAD_MS = 5 * 60_000


def check_table(
    path: str, deep: bool = False, options: Mapping[str, Any] | None = None, *, probe: bool = True
) -> list[Finding]:
    """Findings about the table at a path. Raises nothing: what can't be read is a finding. Of the options
    those of the storage count.

    `deep` opens every data file, reads all pages of the latest base files, and walks the blocks of the logs.
    Without `probe` no temporary file is made, by which it tries how the storage creates files.
    """
    try:
        examined = Examination(Table.open(path, Config.of(options or {})))
    except TableNotFound as error:
        return [Finding("table", ERROR, error.message)]
    except (HoodieError, OSError) as error:
        return [Finding("table", ERROR, str(error))]
    checks: tuple[Check, ...] = (
        _properties,
        *((_storage,) if probe else ()),
        check_features,
        check_version_change,
        _bootstrap,
        check_metadata_table,
        _timeline,
        _files,
        *((_contents,) if deep else ()),
        check_pending,
        check_leftovers,
        check_services,
    )
    return run_checks(examined, checks)


def _properties(table: Examination) -> Iterator[Finding]:
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


def _storage(table: Examination) -> Iterator[Finding]:
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


def _bootstrap(table: Examination) -> Iterator[Finding]:
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


def _timeline(table: Examination) -> Iterator[Finding]:
    timeline = table.timeline
    commits = timeline.commits()
    text = f"{len(timeline.instants)} instants, {len(commits)} completed writes"
    if commits:
        text += f", the last {commits[-1]} {ago(table.age_s(commits[-1]))} ago"
    yield Finding("timeline", OK, text)
    try:
        torn = [str(item) for item in commits if not _readable(table, item)]
    except NotInstalled as error:
        torn = []
        yield _not_looked_at("commits", error)
    if torn:
        yield Finding(
            "timeline",
            ERROR,
            f"can't be read, empty or cut short: {some(torn)}",
            f"restore these files in {timeline.layout.folder} from a copy, or roll the instants back: "
            + table.remedy("hoodie rollback", "Apache Hudi's call rollback_to_instant"),
        )
    now = int(time.time() * 1000)
    utc = table.props.timeline_utc
    ahead = [item.time for item in timeline if _millis(item.time, utc) > now + _AHEAD_MS]
    if ahead:
        yield Finding(
            "timeline",
            WARNING,
            f"instants in the future: {some(ahead)}; now is {time.strftime('%Y%m%d%H%M%S')} here",
            "check the clocks and time zones of the writers (hoodie.table.timeline.timezone is "
            f"{'UTC' if utc else 'LOCAL'})",
        )


def _readable(table: Examination, instant: Instant) -> bool:
    try:
        table.timeline.commit(instant, table.storage)
    except TableError:
        return False
    return True


def _not_looked_at(what: str, error: NotInstalled | ImportError) -> Finding:
    package = error.values["package"] if isinstance(error, NotInstalled) else error.name
    return Finding(what, NOTE, f"not looked at: {package} is not installed here", install("local"))


def _files(table: Examination) -> Iterator[Finding]:
    """Are the files that the active timeline names there, as long as it says?"""
    if table.timeline.last_commit is None:
        return
    try:
        found = audit(table.table)
    except (NotInstalled, ImportError) as error:
        yield _not_looked_at("files", error)
        return
    for wrong in _first(found.latest):
        remedy = f"queries lack rows or show old ones, and refuse to: {_restore(table)}"
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
            + (
                "delete the savepoint"
                if what == "savepoint"
                else table.remedy(
                    f"hoodie cancel --instant {instant.time}", "take the plan back with Apache Hudi"
                )
            ),
        )
    if len(found.latest) + len(found.older) + len(found.kept) > 3 * _LISTED:
        yield Finding("files", ERROR, "more files are missing or damaged than are listed here")
    if not (found.latest or found.older or found.kept):
        yield Finding("files", OK, f"all {found.files} that the active timeline names are there, in full")


def _restore(table: Examination) -> str:
    by = table.remedy("hoodie restore", "Apache Hudi's call rollback_to_savepoint")
    return f"restore the file from a copy, or take the table back to a state without it: {by}"


def _first(items: list[Any]) -> list[Any]:
    return items[:_LISTED]


def _contents(table: Examination) -> Iterator[Finding]:
    """Every data file, opened and read."""
    try:
        from hoodie.table.contents import OLD, check_contents
    except ImportError as error:
        text = f"files are not opened: {error.name} is not installed here"
        yield Finding("contents", NOTE, text, install("local"))
        return
    done = check_contents(table.table)
    for weight, text in done.findings[:_LISTED]:
        status = {OLD: WARNING}.get(weight, ERROR if weight else NOTE)
        yield Finding(
            "contents", status, text, _restore(table) if weight else "nothing: readers pass it over"
        )
    if len(done.findings) > _LISTED:
        yield Finding("contents", ERROR, f"{len(done.findings) - _LISTED} more files can't be read in full")
    if not any(weight for weight, _ in done.findings):
        text = f"{done.bases} base files and {done.logs} log files were opened, and can be read"
        yield Finding("contents", OK, text)


def _millis(time_text: InstantTime, utc: bool) -> int:
    try:
        return instant_millis(time_text, utc)
    except ValueError:  # Apache Hudi's own instants of bootstrap are no times
        return 0
