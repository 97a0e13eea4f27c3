"""The table of docs/services.md: `python -m hoodie.services.pages`."""

from __future__ import annotations

from hoodie.services.registry import Service, public
from hoodie.services.request import is_positional

_HEAD = ("Service", "What it does", "Python", "Airflow", "Runs on")
#: around the table in docs/services.md
BEGIN = "<!-- made by: python -m hoodie.services.pages -->"
END = "<!-- end -->"


def markdown() -> str:
    """The table, between the lines that mark it on the page."""
    rows = [_HEAD, tuple("---" for _ in _HEAD), *map(_row, public().values())]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([BEGIN, "", *lines, "", END])


def _row(service: Service) -> tuple[str, ...]:
    own = service.request.own()
    given = "".join(f" {name.upper()}" for name, item in own.items() if is_positional(item))
    asked = [name for name, item in own.items() if not is_positional(item)]
    flags = "".join(f" `--{name.replace('_', '-')}`" for name in asked)
    return (
        f"`hoodie {service.command or service.name}{given}`{flags}",
        service.doc,
        f"`{service.function}`" if service.function else "",
        f"`{service.operator}`" if service.operator else "",
        "Spark, or locally" if service.needs_engine else "one process",
    )


if __name__ == "__main__":
    print(markdown())
