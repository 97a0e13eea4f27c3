"""Archiving, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Service, Turn, lazily
from hoodie.services.request import Request

SERVICE = Service(
    name="archive",
    doc="move old instants from the active into the archived timeline",
    request=Request,
    run=lazily("hoodie.services.archive.run", "archive"),
    text=lazily("hoodie.services.archive.text", "archive_text"),
    turn=Turn(number=60, name="archive", entry=lazily("hoodie.services.archive.entry", "ArchiveEntry")),
    function="archive_table",
    operator="ArchiveOperator",
)
