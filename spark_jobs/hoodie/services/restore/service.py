"""The description of the restore of a table (services.registry), and the text of its RestoreResult."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hoodie.services.registry import Lazy, Service, Turn
from hoodie.services.request import Request, asked
from hoodie.services.text import deleted, deleted_files, nothing, remarks
from hoodie.text import plural


@dataclass(frozen=True, kw_only=True)
class RestoreRequest(Request):
    instant: str = asked(doc="the commit to go back to", metavar="T")


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
    return "\n".join([*lines, *remarks(result)])


SERVICE = Service(
    name="restore",
    doc="take the table back to a savepoint, or another commit; finishes a restore that was killed",
    request=RestoreRequest,
    run=Lazy("hoodie.services.restore.run", "restore"),
    text=restore_text,
    turn=Turn(number=10, name="restore", entry=Lazy("hoodie.services.restore.run", "RestoreEntry")),
    function="restore_table",
    operator="RestoreOperator",
)
