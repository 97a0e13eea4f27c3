"""What a run of the partition TTL reports."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.services.results import ServiceResult


@dataclass(frozen=True, kw_only=True, repr=False)
class TtlResult(ServiceResult):
    """What a run deleted, or, with dry_run, would delete.

    status: `deleted`, `planned` (a dry run), or `skipped`, for `reason`; instant and partitions of a skipped
    one are those of the last run that deleted any, "" and none without one. completion: of the instant, as a
    WriteResult has it. days, strategy: the settings.
    since: by partition, oldest first, the time that its days are counted from, ISO 8601. num_replaced, bytes:
    file groups that went out of sight and the size of their latest files. left: partitions beyond the limit
    of one run.
    """

    completion: str
    strategy: str
    days: int
    partitions: list[str]
    num_partitions: int
    since: dict[str, str]
    num_replaced: int
    bytes: int
    left: int
    action: str = "replacecommit"
    operation: str = "ttl"
