"""PartitionSensor: wait for partitions of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from airflow_hoodie.sensors.base import TimelineSensor


class PartitionSensor(TimelineSensor):
    """Succeeds when every one of the partitions exists, or got a commit after `after` if that is given.

    A partition that only a failed write left behind does not exist. The XCom `return_value` is {"base_path",
    "partitions"}; "partitions" maps each one to the instant of its last commit, or None if that is archived.
    Other parameters: TimelineSensor.

    :param partitions: a partition path as in the table, such as `2026-01-01` or `day=2026-01-01`, or several.
        (templated)
    :param after: an instant or a moment, as for CommitSensor. (templated)
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
