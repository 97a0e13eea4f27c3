"""All services of a table in one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_hoodie.assets.events import changed_by
from airflow_hoodie.engines import SPARK, Choice, choose, size_of
from airflow_hoodie.exceptions import HoodieConfigurationError, from_report
from airflow_hoodie.operators.base import DEFAULT_MEMORY, HoodieJobOperator
from airflow_hoodie.operators.services import HoodieLocalOperator, is_deferred
from airflow_hoodie.publication import emitting
from airflow_hoodie.table import HoodieTable

if TYPE_CHECKING:
    from airflow.sdk import Context

#: in the order in which they run (hoodie.services, by their turns)
SERVICES = ("restore", "repair", "compaction", "log_compaction", "clustering", "clean", "archive")


class MaintenanceOperator(HoodieLocalOperator):
    """Rolls back failed writes, finishes interrupted services, and runs every service that is due.

    After a service that failed the others run; then the task fails with the exception of the first failure.
    A service that excludes writers waits for a writer at work (`wait_for_writer`), and precedes waiting
    writers.

    A restore that is finished changes rows, so that the table's asset gets one event of it: the next try
    emits it where another service failed the task. No other service changes rows.

    The XCom `return_value`, also of a failed task, is the job's ServicesResult (docs/results.md). Other
    parameters: HoodieJobOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param services: names of the services to run, in any order; None means all. `restore` finishes a restore
        that was begun; `repair` rolls back failed writes and deletes leftovers of killed jobs; `compaction`,
        `log_compaction`, `clustering`, `clean`, `archive`. Log compaction and clustering run only if they are
        named or the table's options enable them (`hoodie.log.compaction.enable`,
        `hoodie.clustering.async.enabled`). (templated)
    :param engine: `spark` submits the job, which starts Spark's executors only if a compaction or clustering
        has work; `local` runs it on the worker without a JVM; `auto` submits it if compactions or clusterings
        are large, see HoodieJobOperator. (templated)
    :param local_memory: bytes that a local job may allocate; None: no bound of its own.
    :param emit_asset: see HoodieCommitOperator.
    """

    job = "services"
    distributed = changes_rows = True

    template_fields: Sequence[str] = ("services", *HoodieJobOperator.template_fields)
    ui_color = "#e8ecdd"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        services: Sequence[str] | str | None = None,
        engine: str = SPARK,
        local_memory: str | int | None = DEFAULT_MEMORY,
        emit_asset: bool = True,
        **kwargs: Any,
    ) -> None:
        arguments = emitting(self, table, emit_asset, kwargs)
        super().__init__(table=table, engine=engine, local_memory=local_memory, **arguments)
        if isinstance(services, (list, tuple)) or not is_deferred(services):
            _checked(services)
        self.services = services

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields; raises HoodieConfigurationError."""
        return {
            **super().request(),
            "services": _checked(self.services),
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
        }

    def change(self, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return changed_by((result.get("services") or {}).get("restore") or {})

    def auto_choice(self) -> Choice:
        """By the last compactions and clusterings, as far as the table may have any."""
        wanted = set(_checked(self.services) or SERVICES)
        table = HoodieTable.from_dict(self.table)
        asked = {"compact": "compaction", "log_compact": "log_compaction", "cluster": "clustering"}
        rewrites = {operation for operation, service in asked.items() if service in wanted}
        if table.table_type != "MERGE_ON_READ":
            rewrites &= {"cluster"}
        limit = size_of("local_max_size", self.local_max_size)
        return choose(table.path, rewrites, None, limit, {**table.options, **self.options})

    def check_result(self, result: Mapping[str, Any], context: Context) -> None:
        """Raises the exception of the first service that failed; what all of them did is the task's XCom all
        the same.
        """
        failed = [name for name in result.get("failed") or () if name in result["services"]]
        if not failed:
            return
        if "ti" in context:
            context["ti"].xcom_push(key="return_value", value=dict(result))
        failures = "; ".join(
            f"{name} of {result.get('table')}: {result['services'][name]['reason']}" for name in failed
        )
        done = f" (done: {', '.join(result['done'])})" if result.get("done") else ""
        raise from_report({**result["services"][failed[0]]["error"], "message": f"{failures}{done}"})


def _checked(services: Sequence[str] | str | None) -> list[str] | None:
    """Names of services; None for all. A text has them separated by commas."""
    if services is None:
        return None
    names = services.split(",") if isinstance(services, str) else services
    wanted = [str(name).strip() for name in names if str(name).strip()]
    unknown = sorted(set(wanted) - set(SERVICES))
    if unknown or not wanted:
        raise HoodieConfigurationError(
            f"services are {services!r}; name some of {', '.join(SERVICES)}, or leave them out for all"
        )
    return wanted
