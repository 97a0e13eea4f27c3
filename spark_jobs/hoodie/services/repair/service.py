"""The repair of a table, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Lazy, Service, Turn
from hoodie.services.request import Request

SERVICE = Service(
    name="repair",
    doc="roll failed writes back, and sweep what killed processes left",
    request=Request,
    run=Lazy("hoodie.services.repair.run", "repair"),
    text=Lazy("hoodie.services.repair.text", "repair_text"),
    turn=Turn(number=20, name="repair", entry=Lazy("hoodie.services.repair.entry", "RepairEntry")),
    public=False,
)
