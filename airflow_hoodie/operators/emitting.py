"""Operators whose jobs change rows, and say so in events of the table's assets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_hoodie.assets.events import record_commit, with_outlets
from airflow_hoodie.operators.deferring import HoodieDeferringOperator
from airflow_hoodie.paths import is_absolute, is_later, is_template
from airflow_hoodie.table import HoodieTable

if TYPE_CHECKING:
    from airflow.sdk import Context


class HoodieEmittingOperator(HoodieDeferringOperator):
    """Base of the operators that change rows. Other parameters: HoodieDeferringOperator.

    :param table: HoodieTable or its dict form, or an XComArg of that form. (templated)
    :param emit_asset: add the table's asset to the outlets, unless its path is templated or relative. The
        event contains instant, action, partitions, counts and operation. If `table.partitions` is among the
        outlets, each partition with changed files gets an event too. What was done by an earlier run, whose
        event is there, gets none.
    """

    def __init__(
        self, *, table: HoodieTable | Mapping[str, Any], emit_asset: bool = True, **kwargs: Any
    ) -> None:
        self._late_asset = emit_asset and is_later(table)
        if emit_asset and not is_later(table):
            # no parameter of its own: Airflow would give a mapped task that parameter's default as outlets
            kwargs["outlets"] = _with_asset(kwargs.get("outlets"), HoodieTable.of(table))
        super().__init__(table=table, **kwargs)

    def change(self, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The part of the result that says which rows are others than before; None where all are the same.

        Its status is `assets.events.FOUND` for a change that an earlier run may have emitted.
        """
        return result

    def concluded(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """The result, which the assets' events contain now too."""
        super().concluded(context, result)
        if self._late_asset:
            self.outlets = _with_asset(self.outlets, HoodieTable.from_dict(self.table))
        self.outlets = record_commit(context, self.outlets, self.change(result), self.table["path"])
        return result


def _with_asset(outlets: Any, table: HoodieTable) -> Any:
    if is_absolute(table.path) and not is_template(table.path):
        return with_outlets(outlets, table.asset)
    return outlets
