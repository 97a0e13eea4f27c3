"""Operators of table services: compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.base import HoodieSparkOperator
from airflow_hoodie.table import HoodieTable, is_template

MODES = ("schedule", "execute", "run")


class CompactionOperator(HoodieSparkOperator):
    """Merge the logs of a merge-on-read table into its base files.

    mode: `schedule` makes a plan if one is due, `execute` runs the pending plans, oldest first, `run` does
    both. Writers may go on while a plan is executed; while one is scheduled a writer makes the task fail with
    HoodieConflictError, and a writer fails as long as it lasts, which is short. (templated)
    instant: with mode `execute`, the one plan to run; one that is completed already is no error, and a blank
    text means all pending plans. (templated)
    options: `hoodie.compact.*` and others over the table's; by default a compaction is due after 5 delta
    commits (`hoodie.compact.inline.max.delta.commits`).

    The XCom `return_value` is the job's CompactionResult: status (scheduled, compacted or skipped), reason
    (why it was skipped), scheduled, compacted, pending (instants), instant, mode, table, base_path, action,
    operation, partitions, num_slices, num_log_files, log_bytes, num_files, num_writes, bytes_written,
    duration_s, warnings, rolled_back, metadata_table_removed.
    """

    job = "compact"

    template_fields: Sequence[str] = ("mode", "instant", *HoodieSparkOperator.template_fields)
    ui_color = "#e8dff5"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        mode: str = "run",
        instant: str | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        declared = HoodieTable.of(table)
        declared.options_for(self.job, options)
        if declared.table_type != "MERGE_ON_READ":
            raise HoodieConfigurationError(
                f"table {declared.name!r} is {declared.table_type}, which has no logs to compact; "
                'CompactionOperator is for tables with table_type="MERGE_ON_READ"'
            )
        if not (_is_deferred(mode) or _is_deferred(instant)):
            _check(mode, instant)
        self.mode = mode
        self.instant = instant

    def request(self) -> dict[str, Any]:
        """The job's `--request` from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        instant = (self.instant or "").strip() or None
        _check(self.mode, instant)
        return {
            "table": table.path,
            "operation": self.job,
            "mode": self.mode,
            **({"instant": instant} if instant else {}),
            "options": table.options_for(self.job, self.options),
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
        }


def _is_deferred(value: Any) -> bool:
    """Jinja, an XComArg or a mapped value, known when the task runs."""
    return is_template(value) if isinstance(value, str) else value is not None


def _check(mode: str, instant: str | None) -> None:
    if mode not in MODES:
        raise HoodieConfigurationError(f"mode is {mode!r}; use one of {', '.join(MODES)}")
    if instant and mode != "execute":
        raise HoodieConfigurationError(
            f"instant {instant!r} is for mode='execute', which runs that plan only; leave it out for {mode!r}"
        )
