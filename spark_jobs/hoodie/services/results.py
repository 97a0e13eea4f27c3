"""The result of a service: what its job reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from hoodie.services.service_table import ServiceTable
from hoodie.shown import Shown
from hoodie.timeline.time import texts_of_times
from hoodie.write.result import repairs, warned


@dataclass(frozen=True, kw_only=True, repr=False)
class ServiceResult(Shown):
    """The fields that every result has; `duration_s` in seconds.

    status: what was done, `planned` for a dry run, `skipped`, for `reason`. instant: the last one that was
    made, "" for none. rolled_back: failed writes that were rolled back first. action: the timeline's.
    """

    status: str
    table: str
    base_path: str
    dry_run: bool
    instant: str = ""
    reason: str
    duration_s: float
    warnings: list[str]
    rolled_back: list[str] = field(default_factory=list)
    metadata_table_removed: bool = False
    action: str
    operation: str

    def __post_init__(self) -> None:
        texts_of_times(self)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def about(target: ServiceTable, dry_run: bool, seconds: float) -> dict[str, Any]:
    """The fields of a result that follow from the table, the request, and the transactions until now."""
    return {
        "table": target.props.name,
        "base_path": target.base_path,
        "dry_run": dry_run,
        "duration_s": round(seconds, 3),
        "warnings": [*target.config.warnings, *warned(target.transactions), *target.warnings],
        **repairs(target.transactions),
    }
