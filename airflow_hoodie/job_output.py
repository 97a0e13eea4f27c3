"""What a hoodie job is asked and prints: HOODIE_PROGRESS, HOODIE_RESULT, HOODIE_ERROR (hoodie.jobs._main)."""

from __future__ import annotations

import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.mask import Mask
from hoodie.text import lines, visible_in

#: messages of progress that are kept for the error of a job that was killed
_KEPT = 10
_MARKER = re.compile(r"\bHOODIE_(RESULT|ERROR|PROGRESS)(?::(\w+))? (\{.*\})\s*$")


def with_nonce(request: Mapping[str, Any]) -> tuple[bytes, str]:
    """The request as it is sent, and the nonce that the job's lines will carry."""
    nonce = secrets.token_hex(16)
    return json.dumps({**request, "nonce": nonce}, separators=(",", ":")).encode(), nonce


@dataclass
class JobOutput:
    """Reads a job's lines as they come: progress goes to the hook's log, result and error are kept.

    on_progress: called with each progress message.
    nonce: that of the job's request; other lines than those with it are not the job's. A job without a
        request ("") prints lines without one.
    mask: hides the job's secrets.
    """

    log: Any
    on_progress: Callable[[Mapping[str, Any]], None] | None = None
    nonce: str = ""
    mask: Mask = field(default_factory=Mask)
    result: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    progress: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def last_said(self) -> str:
        """The end of an error of a job that was killed: how far it had come; "" where it said nothing."""
        return f". Its last progress:\n{chr(10).join(self.progress)}" if self.progress else ""

    def take(self, line: str) -> bool:
        """Was this line for us. What is logged of it has its control characters escaped."""
        kind, value = parse_marker(line, self.nonce)
        if value is None:
            return False
        if kind != "RESULT":
            value = self.mask.value(value)
        shown = visible_in(value)
        if kind == "PROGRESS":
            self.progress.append(f"[{shown.get('step', 'job')}] {shown.get('text', '')}")
            self.log.info("%s", self.progress[-1])
            if self.on_progress is not None:
                self.on_progress(value)
        elif kind == "RESULT":
            self.result = value
            log_result(self.log, value)
        else:
            self.report = value
            self.log.error("The job failed: %s", shown.get("message"))
        return True

    def other(self, line: str) -> str:
        """A line that is not for us as the log may have it: without secrets and control characters."""
        return lines(self.mask.text(line))


def log_result(log: Any, result: Mapping[str, Any]) -> None:
    """What a job did, and what it warns of, with its control characters escaped."""
    shown = visible_in(result)
    log.info("%s", summary(shown))
    for warning in shown.get("warnings") or ():
        log.warning("%s", warning)


def parse_marker(line: str, nonce: str = "") -> tuple[str, dict[str, Any] | None]:
    """A HOODIE_RESULT, HOODIE_ERROR or HOODIE_PROGRESS line -> its kind and object; else ("", None).

    A line of another nonce is none. The marker need not start it: Spark's progress bar may stand before it.
    """
    match = _MARKER.search(line)
    if match is None or (match[2] or "") != nonce:
        return "", None
    try:
        value = json.loads(match[3])
    except ValueError:
        return "", None
    return (match[1], value) if isinstance(value, dict) else ("", None)


def summary(result: dict[str, Any]) -> str:
    """One line for people about a job's result; tolerates missing keys."""
    if service := _SERVICES.get(str(result.get("operation"))):
        planned = result.get("status") == "planned" and "services" not in result
        return _planned_summary(result) if planned else service(result)
    partitions = result.get("partitions") or []
    if result.get("status") == "nothing_new":
        return f"No new file for {result.get('table') or result.get('base_path')}; nothing was written"
    if result.get("status") == "planned":
        return (
            f"{result.get('operation')} into {result.get('table')} would insert "
            f"{result.get('num_inserts', 0):,}, update {result.get('num_updates', 0):,} and delete "
            f"{result.get('num_deletes', 0):,} rows in {len(partitions)} partitions, "
            f"{result.get('num_files', 0)} files, about {result.get('bytes_written', 0):,} bytes; "
            "nothing was written"
        )
    replaced = f", {result['num_replaced']} file groups replaced" if result.get("num_replaced") else ""
    bad = f", {result['num_bad_rows']:,} bad rows set aside" if result.get("num_bad_rows") else ""
    return (
        f"{str(result.get('status', 'done')).capitalize()} {result.get('operation', 'write')} "
        f"{result.get('instant')} to {result.get('table')}: {result.get('num_inserts', 0):,} inserted, "
        f"{result.get('num_updates', 0):,} updated, {result.get('num_deletes', 0):,} deleted in "
        f"{len(partitions)} partitions, {result.get('num_files', 0)} files, "
        f"{result.get('bytes_written', 0):,} bytes{replaced}{bad}, {result.get('duration_s', 0):.1f} s"
    )


def _planned_summary(result: dict[str, Any]) -> str:
    """Of a dry run of a service: the counts of its result, by their own names."""
    counts = {
        name.removeprefix("num_").replace("_", " "): value
        for name, value in result.items()
        if name.startswith("num_") or name.endswith("bytes")
    }
    named = ", ".join(
        f"{value:,} {name}" for name, value in counts.items() if isinstance(value, int) and value
    )
    return (
        f"{str(result.get('operation')).capitalize()} of {result.get('table')} would concern "
        f"{named or 'nothing'}; nothing was changed"
    )


def _compaction_summary(result: dict[str, Any]) -> str:
    table = result.get("table")
    work = (
        f"{result.get('num_log_files', 0)} log files of {result.get('log_bytes', 0):,} bytes in "
        f"{result.get('num_slices', 0)} file slices"
    )
    if result.get("compacted"):
        return (
            f"Compacted {table}, {', '.join(result['compacted'])}: {work}, {result.get('num_files', 0)} "
            f"files and {result.get('bytes_written', 0):,} bytes written, {result.get('duration_s', 0):.1f} s"
        )
    if result.get("scheduled"):
        return f"Scheduled compaction {result['scheduled']} of {table}: {work}"
    return f"Skipped the compaction of {table}: {result.get('reason')}"


def _clustering_summary(result: dict[str, Any]) -> str:
    table = result.get("table")
    work = f"{result.get('num_replaced', 0)} file groups in {result.get('num_groups', 0)} groups"
    if result.get("clustered"):
        return (
            f"Clustered {table}, {', '.join(result['clustered'])}: {work}, {result.get('num_files', 0)} "
            f"files and {result.get('bytes_written', 0):,} bytes written, {result.get('duration_s', 0):.1f} s"
        )
    if result.get("scheduled"):
        return f"Scheduled clustering {result['scheduled']} of {table}: {work}"
    return f"Skipped the clustering of {table}: {result.get('reason')}"


def _clean_summary(result: dict[str, Any]) -> str:
    work = f"{result.get('num_files', 0)} files in {len(result.get('partitions') or [])} partitions"
    if result.get("cleaned"):
        failed = f", {len(result['failed'])} could not be deleted" if result.get("failed") else ""
        return (
            f"Cleaned {result.get('table')}, {', '.join(result['cleaned'])}: {work}, "
            f"{result.get('bytes', 0):,} bytes{failed}, {result.get('duration_s', 0):.1f} s"
        )
    if result.get("scheduled"):
        return f"Scheduled clean {result['scheduled']} of {result.get('table')}: {work}"
    return f"Skipped the clean of {result.get('table')}: {result.get('reason')}"


def _archive_summary(result: dict[str, Any]) -> str:
    if result.get("status") == "skipped":
        return f"Skipped the archiving of {result.get('table')}: {result.get('reason')}"
    return (
        f"Archived {len(result.get('archived') or [])} instants of {result.get('table')}, "
        f"{result.get('num_files', 0)} files; the active timeline begins with {result.get('first')}, "
        f"{result.get('duration_s', 0):.1f} s"
    )


def _rollback_summary(result: dict[str, Any]) -> str:
    table = result.get("table")
    if result.get("status") == "skipped":
        return f"Skipped the rollback of {result.get('target')} of {table}: {result.get('reason')}"
    return (
        f"Rolled back {result.get('target_action')} {result.get('target')} of {table} by "
        f"{result.get('instant')}: {result.get('num_files', 0)} files of {result.get('bytes', 0):,} bytes "
        f"deleted, {result.get('duration_s', 0):.1f} s"
    )


def _cancel_summary(result: dict[str, Any]) -> str:
    table = result.get("table")
    if result.get("status") == "skipped":
        return f"Skipped the cancelling of {result.get('target')} of {table}: {result.get('reason')}"
    return (
        f"Cancelled {result.get('target_action')} {result.get('target')} of {table} by "
        f"{result.get('instant')}: its plan and {result.get('num_files', 0)} files deleted, "
        f"{result.get('duration_s', 0):.1f} s"
    )


def _savepoint_summary(result: dict[str, Any]) -> str:
    if result.get("status") == "skipped":
        return f"Skipped the savepoint of {result.get('table')}: {result.get('reason')}"
    return (
        f"{str(result.get('status')).capitalize()} savepoint {result.get('instant')} of "
        f"{result.get('table')}: {result.get('num_files', 0)} files of {result.get('bytes', 0):,} bytes"
    )


def _restore_summary(result: dict[str, Any]) -> str:
    if result.get("status") == "skipped":
        return f"Skipped the restore of {result.get('table')}: {result.get('reason')}"
    return (
        f"Restored {result.get('table')} to {result.get('restored_to')} by {result.get('instant')}: "
        f"{len(result.get('undone') or [])} instants taken back, {result.get('num_files', 0)} files of "
        f"{result.get('bytes', 0):,} bytes deleted, {result.get('duration_s', 0):.1f} s"
    )


def _ttl_summary(result: dict[str, Any]) -> str:
    if result.get("status") == "skipped":
        return f"Skipped the partition TTL of {result.get('table')}: {result.get('reason')}"
    left = f"; {result.get('left')} more are left to the next run" if result.get("left") else ""
    return (
        f"Deleted {result.get('num_partitions', 0)} partitions of {result.get('table')} older than "
        f"{result.get('days')} days by {result.get('instant')}: {', '.join(result.get('partitions') or [])}; "
        f"{result.get('num_replaced', 0)} file groups of {result.get('bytes', 0):,} bytes{left}"
    )


def _index_summary(result: dict[str, Any]) -> str:
    table = result.get("table")
    if result.get("status") == "skipped":
        return f"Skipped {result.get('mode')} of indexes of {table}: {result.get('reason')}"
    changed = ", ".join(result.get("made") or result.get("dropped") or ()) or "indexes"
    there = ", ".join(
        f"{item.get('index')} ({item.get('state')}, {item.get('bytes', 0):,} bytes)"
        for item in result.get("indexes") or ()
    )
    return (
        f"{str(result.get('status', 'done')).capitalize()} {changed} of {table}; it has {there or 'none'}, "
        f"{result.get('duration_s', 0):.1f} s"
    )


def _services_summary(result: dict[str, Any]) -> str:
    """A line for each service, as that one's own job has it."""
    lines = [
        f"Services of {result.get('table')}: {result.get('status')}, {result.get('duration_s', 0):.1f} s"
    ]
    for name, own in (result.get("services") or {}).items():
        if own.get("status") in ("failed", "skipped"):
            lines.append(f"  {name} {own['status']}: {own.get('reason')}")
        elif name == "repair":
            lines.append(f"  repair: {', '.join(own.get('rolled_back') or ()) or 'no write'} rolled back")
        else:
            lines.append(f"  {name}: {summary(own)}")
    return "\n".join(lines)


def _sync_summary(result: dict[str, Any]) -> str:
    if result.get("status") == "skipped":
        return f"Skipped sync of {result.get('table')}: {result.get('reason')}"
    entries = [
        f"{item.get('entry')} {item.get('status')}, partitions: {item.get('partitions_added', 0):,} added, "
        f"{item.get('partitions_moved', 0):,} moved, {item.get('partitions_dropped', 0):,} dropped"
        for item in result.get("entries", ())
    ]
    return f"Synced {result.get('table')} with {result.get('catalog')}: {'; '.join(entries)}"


_SERVICES = {
    "services": _services_summary,
    "compact": _compaction_summary,
    "cluster": _clustering_summary,
    "clean": _clean_summary,
    "archive": _archive_summary,
    "index": _index_summary,
    "sync": _sync_summary,
    "rollback": _rollback_summary,
    "cancel": _cancel_summary,
    "savepoint": _savepoint_summary,
    "restore": _restore_summary,
    "ttl": _ttl_summary,
}
