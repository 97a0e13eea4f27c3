"""Compaction, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Lazy, Service, Turn
from hoodie.services.request import RewriteRequest

SERVICE = Service(
    name="compact",
    doc="merge the logs of a merge-on-read table into its base files",
    request=RewriteRequest,
    run=Lazy("hoodie.services.compaction.run", "compact"),
    text=Lazy("hoodie.services.compaction.text", "compaction_text"),
    turn=Turn(
        number=30, name="compaction", entry=Lazy("hoodie.services.compaction.entry", "CompactionEntry")
    ),
    function="compact_table",
    operator="CompactionOperator",
)
