"""An IndexResult for people."""

from __future__ import annotations

from typing import Any

from hoodie.services.text import notes, nothing
from hoodie.text import plural, size

_DONE = {"created": "Made", "dropped": "Dropped", "rebuilt": "Rebuilt"}


def index_text(result: dict[str, Any]) -> str:
    """An IndexResult for people: what was done, then a line for each index that the table has."""
    lines = [_headline(result)]
    if result["status"] != "skipped" or result["mode"] == "show":
        lines += [_line(item) for item in result["indexes"]]
    if result["pending"]:
        lines.append(f"  pending in the metadata table: {', '.join(result['pending'])}")
    return "\n".join([*lines, *notes(result)])


def _headline(result: dict[str, Any]) -> str:
    table, status = result["table"], result["status"]
    if status == "skipped":
        return nothing(result)
    if status == "shown":
        count = len(result["indexes"])
        return f"{table} has {count or 'no'} index{'' if count == 1 else 'es'}"
    names = result["made"] or result["dropped"]
    if status == "scheduled":
        return f"Planned {', '.join(names)} of {table} as indexing {', '.join(result['instants'])}"
    if status == "planned":
        return f"hoodie index {result['mode']} of {table} would change {', '.join(names)}"
    return f"{_DONE[status]} {', '.join(names)} of {table}"


def _line(item: dict[str, Any]) -> str:
    upto = f"compacted up to {item['compacted_to']}" if item["compacted_to"] else "not compacted"
    return (
        f"  {item['index']:<14} {item['state']}: {plural(item['file_groups'], 'file group')}, "
        f"{plural(item['num_files'], 'file')} of {size(item['bytes'])}, "
        f"{plural(item['num_logs'], 'log file')}, {upto}"
    )
