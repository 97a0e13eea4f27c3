"""One pass of table services at the end of a backfill, whose writes leave them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_hoodie.operators.maintenance import MaintenanceOperator
from airflow_hoodie.runs import is_backfill, writes_left
from airflow_hoodie.table import HoodieTable

if TYPE_CHECKING:
    from airflow.sdk import Context


class BackfillMaintenanceOperator(MaintenanceOperator):
    """Runs the services that are due once, in the last run of a backfill.

    Set it downstream of the tasks that write the table. It is skipped in a run of a backfill while writes of
    other runs are not finished, and in other runs, whose writes run their services themselves. Of two runs
    that end at the same time both may run the services; the second one has nothing to do.

    Result and other parameters: MaintenanceOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param writes: ids of the tasks to wait for in the other runs. Default: those directly upstream.
    :param trigger_rule: by default the task runs when the writes upstream have ended in any state: the last
        run of a backfill may be a failed one.
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
        """Run the services; raises AirflowSkipException outside of a backfill, and before its last run."""
        if not is_backfill(context):
            raise AirflowSkipException("no backfill: the services follow each write")
        left = writes_left(context, self.writes or self.upstream_task_ids)
        if left:
            raise AirflowSkipException(f"{left} writes of the backfill are left; the last run does the pass")
        return super().execute(context)
