"""The description of log compaction (services.registry)."""

from __future__ import annotations

from hoodie.services.compaction.service import compaction_text
from hoodie.services.registry import Lazy, Service, Turn
from hoodie.services.request import RewriteRequest

SERVICE = Service(
    name="log-compact",
    doc="merge the logs of a merge-on-read table of version 8 or 9 into fewer logs",
    request=RewriteRequest,
    run=Lazy("hoodie.services.log_compaction.run", "compact_logs"),
    text=compaction_text,
    turn=Turn(
        number=35,
        name="log_compaction",
        entry=Lazy("hoodie.services.log_compaction.run", "LogCompactionEntry"),
    ),
    function="log_compact_table",
    operator="LogCompactionOperator",
)
