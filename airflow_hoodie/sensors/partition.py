"""PartitionSensor: wait for partitions of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from airflow_hoodie.sensors.base import TimelineSensor


class PartitionSensor(TimelineSensor):
    """Succeeds when every one of the partitions exists, or got a commit after `after` if that is given.

    partitions: a partition path as in the table, such as `2026-01-01` or `day=2026-01-01`, or several.
        (templated) One that only a failed write left behind does not exist.
    after: an instant or a moment, as for CommitSensor. (templated)

    XCom `return_value`: {"base_path", "partitions"}, the latter with the instant of each partition's last
    commit, None when that commit is archived. Other arguments are TimelineSensor's.
    """

    condition_kind = "partitions"
    condition_fields = ("partitions", "after")
    template_fields: Sequence[str] = (*TimelineSensor.template_fields, "partitions", "after")

    def __init__(
        self,
        *,
        partitions: str | Collection[str],
        after: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.partitions = partitions
        self.after = after
        self._declared()
