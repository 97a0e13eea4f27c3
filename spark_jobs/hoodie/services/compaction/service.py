"""Compaction, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Service, Turn, lazily
from hoodie.services.request import RewriteRequest

SERVICE = Service(
    name="compact",
    doc="merge the logs of a merge-on-read table into its base files",
    request=RewriteRequest,
    run=lazily("hoodie.services.compaction.run", "compact"),
    text=lazily("hoodie.services.compaction.text", "compaction_text"),
    turn=Turn(
        number=30, name="compaction", entry=lazily("hoodie.services.compaction.entry", "CompactionEntry")
    ),
    function="compact_table",
    operator="CompactionOperator",
)
