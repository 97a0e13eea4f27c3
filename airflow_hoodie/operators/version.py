"""Operators that change the table version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_hoodie.arguments import is_later
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.base import HoodieJobOperator
from airflow_hoodie.operators.services import is_deferred
from airflow_hoodie.table import HoodieTable, check_options


class TableVersionOperator(HoodieJobOperator):
    """Base of the changes of the table version.

    The job has the table for itself: it waits for a writer or a service at work (`wait_for_writer`). Queries
    go on. It merges the logs of a merge-on-read table first and drops the metadata table, which the next
    write makes again. A table that has the version is no error, so that a retry succeeds; it finishes what a
    killed try began. The XCom `return_value` is the job's VersionResult (docs/results.md). Other parameters:
    HoodieJobOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param to: the table version afterwards; None: that of the HoodieTable, which may not be another one.
        (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    template_fields: Sequence[str] = ("to", *HoodieJobOperator.template_fields)
    versions: ClassVar[tuple[str, ...]]
    ui_color = "#f4eadf"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        to: str | int | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        check_options(self.job, table, options)
        if not is_later(table) and (isinstance(to, int) or not is_deferred(to)):
            self._checked(to, HoodieTable.of(table))
        self.to = to

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        return {
            "table": table.path,
            "operation": self.job,
            "to": self._checked(self.to, table),
            "options": table.options_for(self.job, self.options),
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
        }

    def _checked(self, to: str | int | None, table: HoodieTable) -> str:
        text = str(table.version if to is None else to).strip()
        if text not in self.versions:
            raise HoodieConfigurationError(f"to is {to!r}; give one of {', '.join(self.versions)}")
        if table.version not in (None, int(text)):
            raise HoodieConfigurationError(
                f"to is {to!r}, and HoodieTable {table.name!r} has version={table.version}: its writes would "
                "refuse the table afterwards; change the version there"
            )
        return text


class UpgradeOperator(TableVersionOperator):
    """Changes the table version to a later one, `6`, `8` or `9`. Parameters: TableVersionOperator."""

    job = "upgrade"
    versions = ("6", "8", "9")


class DowngradeOperator(TableVersionOperator):
    """Changes the table version to an earlier one, `8` or `6`.

    On the way to version 6 older slices of a merge-on-read table are deleted: states before can't be read
    afterwards. Parameters: TableVersionOperator.
    """

    job = "downgrade"
    versions = ("6", "8")
