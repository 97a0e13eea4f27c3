"""The description of the repair of a table (services.registry), and the text of its RepairResult."""

from __future__ import annotations

from typing import Any

from hoodie.services.registry import Lazy, Service, Turn
from hoodie.services.request import Request
from hoodie.text import size


def repair_text(result: dict[str, Any]) -> str:
    """A RepairResult for people."""
    lines: list[str] = []
    done = "would be rolled back" if result["dry_run"] else "rolled back"
    for item in result["failed"]:
        work = f"{item['num_files']} files of {size(item['bytes'])}"
        lines.append(f"failed {item['action']} {item['instant']} ({item['state']}) {done}, {work}")
    left = [name for name in ("markers", "heartbeats") if result[name]]
    if left:
        swept = "would be swept" if result["dry_run"] else "swept"
        texts = [f"{name} of {', '.join(result[name])}" for name in left]
        lines.append(f"{' and '.join(texts)} {swept}")
    return "\n".join(lines)


SERVICE = Service(
    name="repair",
    doc="roll failed writes back, and sweep what killed processes left",
    request=Request,
    run=Lazy("hoodie.services.repair.run", "repair"),
    text=repair_text,
    turn=Turn(number=20, name="repair", entry=Lazy("hoodie.services.repair.run", "RepairEntry")),
    public=False,
)
