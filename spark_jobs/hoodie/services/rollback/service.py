"""The description of the rollback of one instant (services.registry), and the texts of RollbackResult and
CancelResult.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hoodie.services.registry import Lazy, Service
from hoodie.services.request import Request, asked
from hoodie.services.text import deleted, deleted_files, nothing, remarks


@dataclass(frozen=True, kw_only=True)
class RollbackRequest(Request):
    instant: str = asked(doc="the instant to roll back", metavar="T")


def rollback_text(result: dict[str, Any]) -> str:
    """A RollbackResult for people; a dry run's with every file."""
    if result["status"] == "skipped":
        lines = [nothing(result)]
    else:
        what = f"{result['target_state']} {result['target_action']} {result['target']} of {result['table']}"
        if result["status"] == "planned":
            lines = [f"A rollback of {what} would delete {deleted(result)}", *deleted_files(result)]
        else:
            lines = [f"Rolled back {what} by {result['instant']}: {deleted(result)} deleted"]
    return "\n".join([*lines, *remarks(result)])


def cancel_text(result: dict[str, Any]) -> str:
    """A CancelResult for people; a dry run's with every file."""
    if result["status"] == "skipped":
        lines = [nothing(result)]
    else:
        what = f"{result['target_state']} {result['target_action']} {result['target']} of {result['table']}"
        if result["status"] == "planned":
            lines = [f"To cancel {what} would delete its plan and {deleted(result)}", *deleted_files(result)]
        else:
            lines = [f"Cancelled {what} by {result['instant']}: its plan and {deleted(result)} deleted"]
    return "\n".join([*lines, *remarks(result)])


SERVICE = Service(
    name="rollback",
    doc="roll one instant back: a failed one, or the newest commit",
    request=RollbackRequest,
    run=Lazy("hoodie.services.rollback.run", "rollback_instant"),
    text=rollback_text,
    function="rollback_table",
    operator="RollbackOperator",
)
