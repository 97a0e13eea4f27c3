"""Cleaning, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Lazy, Service, Turn
from hoodie.services.request import PlannedRequest

SERVICE = Service(
    name="clean",
    doc="delete file slices that are older than what the cleaner's settings keep",
    request=PlannedRequest,
    run=Lazy("hoodie.services.clean.run", "clean"),
    text=Lazy("hoodie.services.clean.text", "clean_text"),
    turn=Turn(number=50, name="clean", entry=Lazy("hoodie.services.clean.entry", "CleanEntry")),
    function="clean_table",
    operator="CleanOperator",
)
