"""The repair of a table, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Service, Turn, lazily
from hoodie.services.request import Request

SERVICE = Service(
    name="repair",
    doc="roll failed writes back, and sweep what killed processes left",
    request=Request,
    run=lazily("hoodie.services.repair.run", "repair"),
    text=lazily("hoodie.services.repair.text", "repair_text"),
    turn=Turn(number=20, name="repair", entry=lazily("hoodie.services.repair.entry", "RepairEntry")),
    public=False,
)
