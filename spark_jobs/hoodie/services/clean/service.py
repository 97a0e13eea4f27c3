"""Cleaning, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Service, Turn, lazily
from hoodie.services.request import PlannedRequest

SERVICE = Service(
    name="clean",
    doc="delete file slices that are older than what the cleaner's settings keep",
    request=PlannedRequest,
    run=lazily("hoodie.services.clean.run", "clean"),
    text=lazily("hoodie.services.clean.text", "clean_text"),
    turn=Turn(number=50, name="clean", entry=lazily("hoodie.services.clean.entry", "CleanEntry")),
    function="clean_table",
    operator="CleanOperator",
)
