"""The cancelling of a pending plan, described (services.registry)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.services.registry import Lazy, Service
from hoodie.services.request import Request, asked


@dataclass(frozen=True, kw_only=True)
class CancelRequest(Request):
    instant: str = asked(doc="the plan's instant", metavar="T")


SERVICE = Service(
    name="cancel",
    doc="take a pending compaction or clustering off the timeline, with what a failed attempt left",
    request=CancelRequest,
    run=Lazy("hoodie.services.rollback.run", "cancel_plan"),
    text=Lazy("hoodie.services.rollback.service", "cancel_text"),
    function="cancel_plan",
    operator="CancelOperator",
)
