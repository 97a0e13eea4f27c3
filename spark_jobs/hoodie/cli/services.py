"""The commands of table services: compact, cluster, clean, archive."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import hoodie
from hoodie.cli.engine import session
from hoodie.cli.output import Answer, plural, size
from hoodie.cli.write import progress_for, read_properties


def compact(args: argparse.Namespace) -> Answer:
    """Schedule or run compactions of a merge-on-read table, and say what was done or why nothing was."""
    result = _rewritten(hoodie.compact_table, args)
    return Answer.of(result, summary)


def cluster(args: argparse.Namespace) -> Answer:
    """Schedule or run clusterings of a table, and say what was done or why nothing was."""
    result = _rewritten(hoodie.cluster_table, args)
    return Answer.of(result, cluster_summary)


def _rewritten(service: Callable[..., Any], args: argparse.Namespace) -> dict[str, Any]:
    options = {**read_properties(args.properties), **dict(args.option)}
    with session(args) as spark:
        result: dict[str, Any] = service(
            args.table,
            mode=args.mode,
            instant=args.instant,
            options=options,
            spark=spark,
            dry_run=args.dry_run,
            progress=progress_for(args),
        ).to_dict()
    return result


def summary(result: dict[str, Any]) -> str:
    """A CompactionResult for people; a dry run's with every log file."""
    lines: list[str] = []
    if result["status"] == "planned":
        lines.append(f"A compaction of {result['table']} would merge {_work(result)}")
        lines += planned_files(result["files"], "compaction")
    elif result["compacted"]:
        lines += [
            f"Compacted {result['table']}: {', '.join(result['compacted'])}",
            f"  {_work(result)} merged into {plural(result['num_files'], 'file')} of "
            f"{size(result['bytes_written'])}, {plural(result['num_writes'], 'row')}, "
            f"{result['duration_s']:.1f} s",
        ]
    elif result["scheduled"]:
        lines.append(f"Scheduled compaction {result['scheduled']} of {result['table']}: {_work(result)}")
    else:
        lines.append(f"Nothing to do for {result['table']}: {result['reason']}")
    if result["pending"] and not result["dry_run"]:
        lines.append(f"  pending: {', '.join(result['pending'])}")
    return "\n".join([*lines, *notes(result)])


def cluster_summary(result: dict[str, Any]) -> str:
    """A ClusteringResult for people; a dry run's with every file."""
    table, groups = result["table"], plural(result["num_groups"], "group")
    work = f"{plural(result['num_replaced'], 'file group')} in {groups}"
    lines: list[str] = []
    if result["status"] == "planned":
        outputs = plural(result["num_outputs"], "file")
        lines.append(f"A clustering of {table} would rewrite {work} into about {outputs}")
        lines += planned_files(result["files"], "clustering")
    elif result["clustered"]:
        lines += [
            f"Clustered {table}: {', '.join(result['clustered'])}",
            f"  {work} rewritten into {plural(result['num_files'], 'file')} of "
            f"{size(result['bytes_written'])}, {plural(result['num_writes'], 'row')}, "
            f"{result['duration_s']:.1f} s",
        ]
    elif result["scheduled"]:
        lines.append(f"Scheduled clustering {result['scheduled']} of {table}: {work}")
    else:
        lines.append(f"Nothing to do for {table}: {result['reason']}")
    if result["pending"] and not result["dry_run"]:
        lines.append(f"  pending: {', '.join(result['pending'])}")
    return "\n".join([*lines, *notes(result)])


def planned_files(files: dict[str, list[str]], service: str) -> list[str]:
    """Lines with the files of a dry run's plans, those of pending ones under their instant."""
    lines: list[str] = []
    for instant, names in files.items():
        lines += [f"  pending {service} {instant}:"] if instant else []
        lines += [f"  {name}" for name in names]
    return lines


def clean(args: argparse.Namespace) -> Answer:
    """Plan or run cleans of a table, and say what was deleted or why nothing was."""
    result = hoodie.clean_table(
        args.table,
        mode=args.mode,
        options={**read_properties(args.properties), **dict(args.option)},
        dry_run=args.dry_run,
        progress=progress_for(args),
    ).to_dict()
    return Answer.of(result, clean_summary)


def clean_summary(result: dict[str, Any]) -> str:
    """A CleanResult for people; a dry run's with every file."""
    work = f"{plural(result['num_files'], 'file')} in {plural(len(result['partitions']), 'partition')}"
    since = f"; the table can be read as of {result['earliest']} and later" if result["earliest"] else ""
    lines: list[str] = []
    if result["status"] == "cleaned":
        done = ", ".join(result["cleaned"])
        lines.append(f"Cleaned {result['table']}, {done}: {work}, {size(result['bytes'])} deleted{since}")
    elif result["status"] == "scheduled":
        lines.append(f"Scheduled clean {result['scheduled']} of {result['table']}: {work}{since}")
    elif result["status"] == "planned":
        lines.append(f"A clean of {result['table']} would delete {work}{since}")
        lines += planned_files(result["files"], "clean")
    else:
        lines.append(f"Nothing to do for {result['table']}: {result['reason']}")
    if result["deleted_partitions"]:
        verb = "would go" if result["dry_run"] else "went"
        lines.append(f"  empty partitions that {verb}: {', '.join(result['deleted_partitions'])}")
    if result["failed"]:
        lines.append("  could not be deleted, the next clean tries again: " + ", ".join(result["failed"]))
    if result["pending"] and not result["dry_run"]:
        lines.append(f"  pending: {', '.join(result['pending'])}")
    return "\n".join([*lines, *notes(result)])


def archive(args: argparse.Namespace) -> Answer:
    """Archive instants of a table, and say which, or why none, and what holds the others back."""
    result = hoodie.archive_table(
        args.table,
        options={**read_properties(args.properties), **dict(args.option)},
        dry_run=args.dry_run,
        progress=progress_for(args),
    ).to_dict()
    return Answer.of(result, archive_summary)


def archive_summary(result: dict[str, Any]) -> str:
    """An ArchiveResult for people; a dry run's with every instant."""
    work = f"{plural(len(result['archived']), 'instant')} ({plural(result['num_files'], 'file')})"
    lines: list[str] = []
    if result["status"] == "skipped":
        lines.append(f"Nothing to do for {result['table']}: {result['reason']}")
    elif result["dry_run"]:
        lines += [f"An archive run on {result['table']} would move {work}"] if result["archived"] else []
        lines += [f"  {item['instant']} {item['action']}" for item in result["archived"]]
    elif result["archived"]:
        where = f" into {result['archive_file']}, {size(result['bytes'])}" if result["archive_file"] else ""
        lines.append(f"Archived {work} of {result['table']}{where}")
    if result["mended"]:
        verb = "Would mend" if result["dry_run"] else "Mended"
        names = ", ".join(result["mended"])
        lines.append(f"{verb} what Apache Hudi 1.x can't load of {result['table']}'s archive: {names}")
    if result["merged"]:
        lines.append(f"Merged {plural(len(result['merged']), 'archive file')} of {result['table']}")
    if result["first"] and result["status"] != "skipped":
        lines.append(f"  the active timeline begins with commit {result['first']}")
    lines += [f"  held back from {item['from']} on: {item['why']}" for item in result["held"]]
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in result["warnings"])])


def notes(result: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if result["rolled_back"]:
        lines.append(f"  failed writes rolled back first: {', '.join(result['rolled_back'])}")
    if result["metadata_table_removed"]:
        lines.append("  the metadata table was removed, as it can't be kept up to date yet")
    return [*lines, *(f"  warning: {warning}" for warning in result["warnings"])]


def _work(result: dict[str, Any]) -> str:
    logs = f"{plural(result['num_log_files'], 'log file')} of {size(result['log_bytes'])}"
    return f"{logs} in {plural(result['num_slices'], 'file slice')}"
