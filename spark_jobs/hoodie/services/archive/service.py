"""Archiving, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Lazy, Service, Turn
from hoodie.services.request import Request

SERVICE = Service(
    name="archive",
    doc="move old instants from the active into the archived timeline",
    request=Request,
    run=Lazy("hoodie.services.archive.run", "archive"),
    text=Lazy("hoodie.services.archive.text", "archive_text"),
    turn=Turn(number=60, name="archive", entry=Lazy("hoodie.services.archive.entry", "ArchiveEntry")),
    function="archive_table",
    operator="ArchiveOperator",
)
