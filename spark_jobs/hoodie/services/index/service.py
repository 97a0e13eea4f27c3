"""The description of the indexes of a table (services.registry), and the text of its IndexResult."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hoodie.errors import ConfigError
from hoodie.services.registry import Lazy, Service
from hoodie.services.request import Request, asked
from hoodie.services.text import nothing, remarks
from hoodie.text import argument, plural, size

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
        doc="names: files, column_stats, bloom_filters, record_index, partition_stats, and those of columns "
        "(default: all that the table has)",
        metavar="A,B",
    )
    column: str | None = asked(
        None,
        doc="create, versions 8 and 9: the column of a secondary index or of an index of an "
        "expression; indexes has its name (default: the column's)",
        metavar="C",
    )
    using: str | None = asked(
        None,
        doc="create, with column: secondary_index, or what an index has of an expression, column_stats "
        "or bloom_filters (default: column_stats with an expression, else secondary_index)",
        choices=("secondary_index", "column_stats", "bloom_filters"),
    )
    expression: str | None = asked(
        None,
        doc="create, with column: a function, such as lower, or expr='substring',pos='1',len='3'",
        metavar="E",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("column", "using", "expression") if getattr(self, name)]
        if given and (self.mode != CREATE or not self.column):
            named = ", ".join(map(argument, given))
            raise ConfigError(
                f"{named} {'is' if len(given) == 1 else 'are'} for mode create of an index of one "
                f"column; leave it out, or give {argument('column')}, too",
                mode=self.mode,
            )


_DONE = {"created": "Made", "dropped": "Dropped", "rebuilt": "Rebuilt"}
_VERBS = {CREATE: "make", SCHEDULE: "plan", EXECUTE: "make", DROP: "drop", REBUILD: "rebuild"}


def index_text(result: dict[str, Any]) -> str:
    """An IndexResult for people: what was done, then a line for each index that the table has."""
    lines = [_headline(result)]
    if result["status"] != "skipped" or result["mode"] == "show":
        lines += [_line(item) for item in result["indexes"]]
    if result["pending"]:
        lines.append(f"  pending in the metadata table: {', '.join(result['pending'])}")
    return "\n".join([*lines, *remarks(result)])


def _headline(result: dict[str, Any]) -> str:
    table, status = result["table"], result["status"]
    if status == "skipped":
        return nothing(result)
    if status == "shown":
        count = len(result["indexes"])
        return f"{table} has {count or 'no'} index{'' if count == 1 else 'es'}"
    names = result["made"] or result["dropped"]
    if status == "scheduled":
        return f"Planned {', '.join(names)} of {table} as indexing {', '.join(result['instants'])}"
    if status == "planned":
        verb = _VERBS[result["mode"]]
        return (
            f"hoodie index {result['mode']} of {table} would {verb} {', '.join(names)}; nothing was changed"
        )
    return f"{_DONE[status]} {', '.join(names)} of {table}"


def _line(item: dict[str, Any]) -> str:
    upto = f"compacted up to {item['compacted_to']}" if item["compacted_to"] else "not compacted"
    return (
        f"  {item['index']:<14} {item['state']}: {plural(item['file_groups'], 'file group')}, "
        f"{plural(item['num_files'], 'file')} of {size(item['bytes'])}, "
        f"{plural(item['num_logs'], 'log file')}, {upto}"
    )


SERVICE = Service(
    name="index",
    doc="show, make, plan, drop or rebuild the indexes of the table's metadata table",
    request=IndexRequest,
    run=Lazy("hoodie.services.index.run", "index"),
    text=index_text,
    function="index_table",
    operator="IndexOperator",
)
