"""The description of archiving (services.registry), and the text of its ArchiveResult."""

from __future__ import annotations

from typing import Any

from hoodie.services.registry import Lazy, Service, Turn
from hoodie.services.request import Request
from hoodie.services.text import nothing
from hoodie.text import plural, size


def archive_text(result: dict[str, Any]) -> str:
    """An ArchiveResult for people; a dry run's with every instant."""
    work = f"{plural(len(result['archived']), 'instant')} ({plural(result['num_files'], 'file')})"
    lines: list[str] = []
    if result["status"] == "skipped":
        lines.append(nothing(result))
    elif result["dry_run"]:
        lines += [f"An archive run on {result['table']} would move {work}"] if result["archived"] else []
        lines += [f"  {item['instant']} {item['action']}" for item in result["archived"]]
    elif result["archived"]:
        where = f" into {result['archive_file']}, {size(result['bytes'])}" if result["archive_file"] else ""
        lines.append(f"Archived {work} of {result['table']}{where}")
    if result["merged"]:
        lines.append(f"Merged {plural(len(result['merged']), 'archive file')} of {result['table']}")
    if result["first"] and result["status"] != "skipped":
        lines.append(f"  the active timeline begins with commit {result['first']}")
    lines += [f"  held back from {item['from']} on: {item['why']}" for item in result["held"]]
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in result["warnings"])])


SERVICE = Service(
    name="archive",
    doc="move old instants from the active into the archived timeline",
    request=Request,
    run=Lazy("hoodie.services.archive.run", "archive"),
    text=archive_text,
    turn=Turn(number=60, name="archive", entry=Lazy("hoodie.services.archive.run", "ArchiveEntry")),
    function="archive_table",
    operator="ArchiveOperator",
)
