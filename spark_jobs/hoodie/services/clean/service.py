"""The description of cleaning (services.registry), and the text of its CleanResult."""

from __future__ import annotations

from typing import Any

from hoodie.services.registry import Lazy, Service, Turn
from hoodie.services.request import PlannedRequest
from hoodie.services.text import instants, nothing, planned_files, remarks
from hoodie.text import plural, size


def clean_text(result: dict[str, Any]) -> str:
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
        lines.append(nothing(result))
    if result["deleted_partitions"]:
        verb = "would go" if result["dry_run"] else "went"
        lines.append(f"  empty partitions that {verb}: {', '.join(result['deleted_partitions'])}")
    if result["failed"]:
        lines.append("  could not be deleted, the next clean tries again: " + ", ".join(result["failed"]))
    return "\n".join([*lines, *instants(result), *remarks(result)])


SERVICE = Service(
    name="clean",
    doc="delete file slices that are older than what the cleaner's settings keep",
    request=PlannedRequest,
    run=Lazy("hoodie.services.clean.run", "clean"),
    text=clean_text,
    turn=Turn(number=50, name="clean", entry=Lazy("hoodie.services.clean.run", "CleanEntry")),
    function="clean_table",
    operator="CleanOperator",
)
