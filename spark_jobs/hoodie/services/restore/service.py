"""The restore of a table, described (services.description)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.services.description import Lazy, Service, Turn
from hoodie.services.request import Request, asked


@dataclass(frozen=True, kw_only=True)
class RestoreRequest(Request):
    instant: str = asked(doc="the commit to go back to", metavar="T")


SERVICE = Service(
    name="restore",
    doc="take the table back to a savepoint, or another commit; finishes a restore that was killed",
    request=RestoreRequest,
    run=Lazy("hoodie.services.restore.run", "restore"),
    text=Lazy("hoodie.services.restore.text", "restore_text"),
    turn=Turn(number=10, name="restore", entry=Lazy("hoodie.services.restore.entry", "RestoreEntry")),
    function="restore_table",
    operator="RestoreOperator",
)
