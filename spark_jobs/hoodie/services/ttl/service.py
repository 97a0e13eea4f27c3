"""The description of Partition TTL (services.registry), and the text of its TtlResult."""

from __future__ import annotations

from typing import Any

from hoodie.services.registry import Lazy, Service
from hoodie.services.request import Request
from hoodie.services.text import nothing, remarks
from hoodie.text import plural, size


def ttl_text(result: dict[str, Any]) -> str:
    """With the time that each partition's days are counted from."""
    gone = [f"  {path}  {time}" for path, time in result["since"].items()]
    count = plural(result["num_partitions"], "partition")
    groups = plural(result["num_replaced"], "file group")
    work = f"{count} of {result['table']} ({groups}, {size(result['bytes'])})"
    if result["status"] == "skipped":
        lines = [nothing(result)]
    elif result["status"] == "planned":
        lines = [f"A run would delete {work}, older than {plural(result['days'], 'day')}", *gone]
    else:
        lines = [f"Deleted {work}, older than {plural(result['days'], 'day')}, by {result['instant']}", *gone]
    if result["left"]:
        lines.append(f"  left to the next run: {plural(result['left'], 'partition')}")
    return "\n".join([*lines, *remarks(result)])


SERVICE = Service(
    name="ttl",
    doc="delete partitions that are older than hoodie.partition.ttl.strategy.days.retain",
    request=Request,
    run=Lazy("hoodie.expiry", "expire"),
    text=ttl_text,
    function="expire_partitions",
    operator="PartitionTTLOperator",
    command="expire-partitions",
)
