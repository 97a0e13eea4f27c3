"""The indexes of a table, described (services.description)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.services.description import Lazy, Service
from hoodie.services.request import Request, asked

MODES = ("show", "create", "schedule", "execute", "drop", "rebuild")
SHOW, CREATE, SCHEDULE, EXECUTE, DROP, REBUILD = MODES


@dataclass(frozen=True, kw_only=True)
class IndexRequest(Request):
    """`indexes` has names with commas between them; None: all that the table has. `create` and `schedule`
    need some; `execute` takes all that are planned.
    """

    mode: str = asked(
        doc="show: what indexes the table has; create: make some; schedule, execute: plan some, and make "
        "what is planned beside writers; drop: remove them, or plans; rebuild: make them anew, where they "
        "disagree with the table",
        choices=MODES,
        positional=True,
    )
    indexes: str | None = asked(
        None,
        doc="names: files, column_stats, bloom_filters, record_index (default: all that the table has)",
        metavar="A,B",
    )


SERVICE = Service(
    name="index",
    doc="show, make, plan, drop or rebuild the indexes of the table's metadata table",
    request=IndexRequest,
    run=Lazy("hoodie.services.index.run", "index"),
    text=Lazy("hoodie.services.index.text", "index_text"),
    function="index_table",
    operator="IndexOperator",
)
