"""Partition TTL, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Lazy, Service
from hoodie.services.request import Request

SERVICE = Service(
    name="ttl",
    doc="delete partitions that are older than hoodie.partition.ttl.strategy.days.retain",
    request=Request,
    run=Lazy("hoodie.expiry", "expire"),
    text=Lazy("hoodie.services.ttl.text", "ttl_text"),
    function="expire_partitions",
    operator="PartitionTTLOperator",
)
