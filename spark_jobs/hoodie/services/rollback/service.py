"""The rollback of one instant, described (services.description)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.services.description import Lazy, Service
from hoodie.services.request import Request, asked


@dataclass(frozen=True, kw_only=True)
class RollbackRequest(Request):
    instant: str = asked(doc="the instant to roll back", metavar="T")


SERVICE = Service(
    name="rollback",
    doc="roll one instant back: a failed one, or the newest commit",
    request=RollbackRequest,
    run=Lazy("hoodie.services.rollback.run", "rollback_instant"),
    text=Lazy("hoodie.services.rollback.text", "rollback_text"),
    function="rollback_table",
    operator="RollbackOperator",
)
