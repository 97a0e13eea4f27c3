"""FreshnessSensor: wait until a table is fresh."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_hoodie.sensors.base import TimelineSensor


class FreshnessSensor(TimelineSensor):
    """Succeeds when the table's last commit of rows is at most `max_age` old, or the table is not late.

    The XCom `return_value` is that commit, as CommitSensor's. Other parameters: TimelineSensor.

    :param max_age: timedelta or seconds since the commit's completion by the storage's clock. None: three
        times the gap that usually lies between writes of the table, as on the timeline page
        (docs/watching.md); the sensor waits while no gap is known.
    """

    condition_kind = "freshness"
    condition_fields = ("max_age",)

    def __init__(self, *, max_age: timedelta | float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_age = max_age
        self._declared()
