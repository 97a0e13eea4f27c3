"""A RestoreResult for people."""

from __future__ import annotations

from typing import Any

from hoodie.services.text import deleted, deleted_files, notes, nothing
from hoodie.text import plural


def restore_text(result: dict[str, Any]) -> str:
    """A RestoreResult for people; a dry run's with every file."""
    point = f"{result['table']} to {result['restored_to']}"
    work = f"{plural(len(result['undone']), 'instant')}, {deleted(result)}"
    undone = [f"  {item['instant']} {item['action']}" for item in result["undone"]]
    if result["status"] == "skipped":
        lines = [nothing(result)]
    elif result["status"] == "planned":
        lines = [f"A restore of {point} would take back {work}", *undone, *deleted_files(result)]
    else:
        verb = "Finished restoring" if result["resumed"] else "Restored"
        lines = [f"{verb} {point} by {result['instant']}: {work} taken back", *undone]
    return "\n".join([*lines, *notes(result)])
