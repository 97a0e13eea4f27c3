"""PartitionTTLOperator: deletes the partitions whose time is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_hoodie.assets.events import changed_by
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.services import HoodieLocalOperator
from airflow_hoodie.publication import emitting
from airflow_hoodie.table import HoodieTable
from hoodie.concurrency.queue import Rank

_DAYS = "hoodie.partition.ttl.strategy.days.retain"


class PartitionTTLOperator(HoodieLocalOperator):
    """Deletes the partitions of a table that are older than a number of days, by one commit.

    The days are counted from the last write to a partition, or from its creation
    (`hoodie.partition.ttl.management.strategy.type`). The rows are gone at once, their files when the cleaner
    takes them; RollbackOperator takes the commit back. Nothing to delete is a success without a commit. The
    job waits for a writer at work (`wait_for_writer`).

    The table's asset gets an event of the commit, one only, also where the try that made it died before. The
    XCom `return_value` is the job's TtlResult (docs/results.md). Other parameters: HoodieLocalOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param days: how long a partition lives; None: the setting
        `hoodie.partition.ttl.strategy.days.retain` says it, in `options` or the table's.
    :param emit_asset: see HoodieCommitOperator.
    """

    job = "ttl"
    changes_rows = True
    rank = Rank.WRITER

    ui_color = "#f5e6da"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        days: int | None = None,
        emit_asset: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **emitting(self, table, emit_asset, kwargs))
        if days is not None and (isinstance(days, bool) or not isinstance(days, int) or days < 1):
            raise HoodieConfigurationError(f"days is {days!r}; give a whole number, 1 or more")
        self.days = days

    def request(self) -> dict[str, Any]:
        asked = super().request()
        own = {} if self.days is None or _DAYS in self.options else {_DAYS: str(self.days)}
        return {**asked, "options": {**asked["options"], **own}}

    def change(self, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return changed_by(result)
