"""The description of savepoints (services.registry), and the text of its SavepointResult."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hoodie.services.registry import Lazy, Service
from hoodie.services.request import Request, asked
from hoodie.services.text import nothing, remarks
from hoodie.text import plural, size


@dataclass(frozen=True, kw_only=True)
class SavepointRequest(Request):
    """`delete` needs an instant."""

    instant: str | None = asked(None, doc="a completed commit (default: the newest)", metavar="T")
    delete: bool = asked(False, doc="delete the savepoint of --instant instead")
    user: str = asked("", doc="its author", metavar="NAME")
    comments: str = asked("", doc="what for", metavar="TEXT")


def savepoint_text(result: dict[str, Any]) -> str:
    """A SavepointResult for people; a dry run's with every file."""
    what = f"savepoint {result['instant']} of {result['table']}"
    kept = f"{plural(result['num_files'], 'file')} of {size(result['bytes'])} in "
    kept += plural(len(result["partitions"]), "partition")
    deletes = result["mode"] == "delete"
    if result["status"] == "skipped":
        lines = [nothing(result)]
    elif result["status"] == "planned":
        lines = [f"{what[0].upper()}{what[1:]} would {'let go' if deletes else 'keep'} {kept}"]
        for partition, names in result["files"].items():
            lines += [f"  {partition}/{name}" if partition else f"  {name}" for name in names]
    elif deletes:
        lines = [f"Deleted {what}: {kept} are left to the cleaner"]
    else:
        lines = [f"Made {what}: it keeps {kept}"]
    return "\n".join([*lines, *remarks(result)])


SERVICE = Service(
    name="savepoint",
    doc="keep the files of a commit from the cleaner, so that the table can go back to it",
    request=SavepointRequest,
    run=Lazy("hoodie.services.savepoint.run", "savepoint"),
    text=savepoint_text,
    function="savepoint_table",
    operator="SavepointOperator",
)
