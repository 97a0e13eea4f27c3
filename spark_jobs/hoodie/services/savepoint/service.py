"""Savepoints, described (services.description)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.services.description import Lazy, Service
from hoodie.services.request import Request, asked


@dataclass(frozen=True, kw_only=True)
class SavepointRequest(Request):
    """`delete` needs an instant."""

    instant: str | None = asked(None, doc="a completed commit (default: the newest)", metavar="T")
    delete: bool = asked(False, doc="delete the savepoint of --instant instead")
    user: str = asked("", doc="its author", metavar="NAME")
    comments: str = asked("", doc="what for", metavar="TEXT")


SERVICE = Service(
    name="savepoint",
    doc="keep the files of a commit from the cleaner, so that the table can go back to it",
    request=SavepointRequest,
    run=Lazy("hoodie.services.savepoint.run", "savepoint"),
    text=Lazy("hoodie.services.savepoint.text", "savepoint_text"),
    function="savepoint_table",
    operator="SavepointOperator",
)
