"""`hoodie savepoint`, `hoodie rollback`, `hoodie cancel` and `hoodie restore`."""

from __future__ import annotations

import argparse
from typing import Any

import hoodie
from hoodie.cli.output import Answer, plural, size
from hoodie.cli.services import notes
from hoodie.cli.write import progress_for, read_properties
from hoodie.errors import ConfigError


def savepoint(args: argparse.Namespace) -> Answer:
    """Make or delete a savepoint, and say which files it keeps."""
    given: dict[str, Any] = {
        "options": _options(args),
        "dry_run": args.dry_run,
        "progress": progress_for(args),
    }
    if args.delete:
        if not args.instant:
            raise ConfigError("--delete needs --instant; hoodie timeline lists the savepoints")
        result = hoodie.delete_savepoint(args.table, args.instant, **given).to_dict()
    else:
        result = hoodie.savepoint_table(
            args.table, args.instant, user=args.user, comments=args.comments, **given
        ).to_dict()
    return Answer.of(result, savepoint_summary)


def savepoint_summary(result: dict[str, Any]) -> str:
    """A SavepointResult for people; a dry run's with every file."""
    what = f"savepoint {result['instant']} of {result['table']}"
    kept = f"{plural(result['num_files'], 'file')} of {size(result['bytes'])} in "
    kept += plural(len(result["partitions"]), "partition")
    deletes = result["mode"] == "delete"
    if result["status"] == "skipped":
        lines = [f"Nothing to do for {result['table']}: {result['reason']}"]
    elif result["status"] == "planned":
        lines = [f"{what[0].upper()}{what[1:]} would {'let go' if deletes else 'keep'} {kept}"]
        for partition, names in result["files"].items():
            lines += [f"  {partition}/{name}" if partition else f"  {name}" for name in names]
    elif deletes:
        lines = [f"Deleted {what}: {kept} are left to the cleaner"]
    else:
        lines = [f"Made {what}: it keeps {kept}"]
    return "\n".join([*lines, *notes(result)])


def rollback(args: argparse.Namespace) -> Answer:
    """Roll an instant back, and say what went."""
    result = hoodie.rollback_table(
        args.table,
        args.instant,
        options=_options(args),
        dry_run=args.dry_run,
        progress=progress_for(args),
    ).to_dict()
    return Answer.of(result, rollback_summary)


def rollback_summary(result: dict[str, Any]) -> str:
    """A RollbackResult for people; a dry run's with every file."""
    if result["status"] == "skipped":
        lines = [f"Nothing to do for {result['table']}: {result['reason']}"]
    else:
        what = f"{result['target_state']} {result['target_action']} {result['target']} of {result['table']}"
        if result["status"] == "planned":
            lines = [f"A rollback of {what} would delete {_work(result)}", *_files(result)]
        else:
            lines = [f"Rolled back {what} by {result['instant']}: {_work(result)} deleted"]
    return "\n".join([*lines, *notes(result)])


def cancel(args: argparse.Namespace) -> Answer:
    """Cancel a pending plan, and say what went."""
    result = hoodie.cancel_plan(
        args.table,
        args.instant,
        options=_options(args),
        dry_run=args.dry_run,
        progress=progress_for(args),
    ).to_dict()
    return Answer.of(result, cancel_summary)


def cancel_summary(result: dict[str, Any]) -> str:
    """A CancelResult for people; a dry run's with every file."""
    if result["status"] == "skipped":
        lines = [f"Nothing to do for {result['table']}: {result['reason']}"]
    else:
        what = f"{result['target_state']} {result['target_action']} {result['target']} of {result['table']}"
        if result["status"] == "planned":
            lines = [f"To cancel {what} would delete its plan and {_work(result)}", *_files(result)]
        else:
            lines = [f"Cancelled {what} by {result['instant']}: its plan and {_work(result)} deleted"]
    return "\n".join([*lines, *notes(result)])


def restore(args: argparse.Namespace) -> Answer:
    """Take a table back to an earlier commit, and say what went."""
    result = hoodie.restore_table(
        args.table,
        args.instant,
        options=_options(args),
        dry_run=args.dry_run,
        progress=progress_for(args),
    ).to_dict()
    return Answer.of(result, restore_summary)


def restore_summary(result: dict[str, Any]) -> str:
    """A RestoreResult for people; a dry run's with every file."""
    point = f"{result['table']} to {result['restored_to']}"
    work = f"{plural(len(result['undone']), 'instant')}, {_work(result)}"
    undone = [f"  {item['instant']} {item['action']}" for item in result["undone"]]
    if result["status"] == "skipped":
        lines = [f"Nothing to do for {result['table']}: {result['reason']}"]
    elif result["status"] == "planned":
        lines = [f"A restore of {point} would take back {work}", *undone, *_files(result)]
    else:
        verb = "Finished restoring" if result["resumed"] else "Restored"
        lines = [f"{verb} {point} by {result['instant']}: {work} taken back", *undone]
    return "\n".join([*lines, *notes(result)])


def _work(result: dict[str, Any]) -> str:
    text = f"{plural(result['num_files'], 'file')} of {size(result['bytes'])}"
    if result["voided"]:
        text += f" and blocks of {plural(len(result['voided']), 'log file')}"
    return text


def _files(result: dict[str, Any]) -> list[str]:
    lines = [f"  {name}" for name in result["files"]]
    return [*lines, *(f"  {name} (blocks of it)" for name in result["voided"])]


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {**read_properties(args.properties), **dict(args.option)}
