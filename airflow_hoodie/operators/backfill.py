"""One pass of table services at the end of a backfill, whose writes leave them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_hoodie.backfill import is_backfill, writes_left
from airflow_hoodie.operators.maintenance import MaintenanceOperator
from airflow_hoodie.table import HoodieTable

if TYPE_CHECKING:
    from airflow.sdk import Context


class BackfillMaintenanceOperator(MaintenanceOperator):
    """Runs the services that are due, such as a clean, once, when the last run of a backfill is done.

    Set it downstream of the tasks that write the table. In each run of a backfill it is skipped while writes
    of other runs are left, and in runs of no backfill, whose writes bring their services themselves. It runs
    when the writes upstream are over, however they ended (`trigger_rule="all_done"`): the last run of a
    backfill may be one that failed. Two runs that end at once may both do the pass; the second one finds
    nothing to do.

    Arguments and result are those of MaintenanceOperator. writes: ids of the tasks to wait for in the other
    runs, by default those directly upstream.
    """

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        writes: Sequence[str] | None = None,
        trigger_rule: str = "all_done",
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, trigger_rule=trigger_rule, **kwargs)
        self.writes = list(writes or ())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """The pass; raises AirflowSkipException where it is not the time for it."""
        if not is_backfill(context):
            raise AirflowSkipException("no backfill: the services follow each write")
        left = writes_left(context, self.writes or self.upstream_task_ids)
        if left:
            raise AirflowSkipException(f"{left} writes of the backfill are left; the last run does the pass")
        return super().execute(context)
