"""`hoodie explain`: what a write would do and cost, and which index fits; what a query would read."""

from __future__ import annotations

import argparse
from typing import Any

import hoodie
from hoodie.cli.engine import session
from hoodie.cli.output import Answer, grid
from hoodie.cli.write import operation_of, planned, progress_for, source_and_options, unmatched
from hoodie.source.target import target_schema
from hoodie.text import plural, size

_GROUPS = {
    "new_groups": "new",
    "rewritten_groups": "rewritten",
    "appended_groups": "with a new log file",
    "replaced_groups": "replaced",
}
_ACTIONS = {"replacecommit": "clustering", "logcompaction": "log compaction"}
_EFFECTS = {
    "appended": "updates are appended to logs beside it",
    "rolled_back": "the write rolls it back first",
    "refused": "the write is refused until it is done",
}


def explain(args: argparse.Namespace) -> Answer:
    source, options = source_and_options(args)
    with session(args) as backend:
        result = hoodie.explain(
            backend.read_source(source, target_schema(args.table, options)),
            args.table,
            spark=backend,
            operation=operation_of(args),
            options=options,
            progress=progress_for(args),
        ).to_dict()
    return Answer.of(result, summary)


def explain_read(args: argparse.Namespace) -> Answer:
    result = hoodie.explain_read(
        args.table,
        query=args.query,
        begin=args.begin,
        end=args.end,
        as_of=args.as_of,
        where=args.where,
        options=dict(args.option),
    ).to_dict()
    return Answer.of(result, read_summary)


def read_summary(result: dict[str, Any]) -> str:
    """A ReadExplanation for people."""
    by = "its metadata table" if result["metadata_table"] else "its folders"
    rows = [["all", "", "", f"{result['files']:,}", size(result["bytes"])]]
    files, left = result["files"], result["bytes"]
    for step in result["steps"]:
        files, left = files - step["files"], left - step["bytes"]
        rows.append([step["step"], f"{step['files']:,}", size(step["bytes"]), f"{files:,}", size(left)])
    unused = [
        f"  {item['index']} is not used: {item['reason']}" for item in result["indexes"] if item["reason"]
    ]
    groups = ""
    if result["row_groups"]:
        groups = f"; {result['read_row_groups']:,} of {plural(result['row_groups'], 'row group')}"
    return "\n".join(
        [
            f"{result['query']} query of {result['table']}, listed by {by}",
            grid(["by", "files left out", "bytes", "files left", "bytes"], rows),
            f"  {plural(result['read_files'], 'file')} in "
            f"{plural(result['read_partitions'], 'partition')} of {result['partitions']:,} to be read"
            f"{groups}",
            *unused,
        ]
    )


def summary(result: dict[str, Any]) -> str:
    """A WriteExplanation for people."""
    groups = [f"{result[name]:,} {text}" for name, text in _GROUPS.items() if result[name]]
    lines = [
        *planned(result, result["partitions"]),
        f"  file groups: {', '.join(groups) or 'none'}",
        f"  about {size(result['written_bytes'])} are written to change {size(result['changed_bytes'])}, "
        f"{size(result['rewritten_bytes'])} of it stored rows: write amplification "
        f"{result['write_amplification']:,g}",
        *unmatched(result),
        *_indexes(result),
    ]
    for item in result["conflicts"]:
        what = f"{_ACTIONS.get(item['action'], item['action'])} {item['instant']}"
        lines.append(f"  pending {what}: {plural(item['groups'], 'file group')}, {_EFFECTS[item['effect']]}")
    if result["refused"]:
        lines.append(f"  the write would be refused: {result['refused']}")
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in result["warnings"])])


def _indexes(result: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if result["indexes"]:
        rows = [
            [item["index"], "", "", "", item["reason"]]
            if item["reason"]
            else [
                item["index"],
                f"{item['seconds']:.3f}",
                size(item["bytes"]),
                f"{item['sampled_files']:,} of {item['files']:,}",
                "",
            ]
            for item in result["indexes"]
        ]
        lines.append(grid(["index", "seconds", "reads", "files sampled", "not for this table"], rows, 100))
    advice = result["advice"]
    if advice["index"]:
        change = "" if advice["index"] == result["index"] else f" (hoodie.index.type={advice['index']})"
        lines.append(f"  {advice['index']} fits best{change}: {'; '.join(advice['reasons'])}")
    else:
        lines += [f"  {reason}" for reason in advice["reasons"]]
    return lines
