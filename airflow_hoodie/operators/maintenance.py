"""All services of a table in one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_hoodie.exceptions import HoodieConfigurationError, from_report
from airflow_hoodie.operators.base import HoodieSparkOperator
from airflow_hoodie.operators.services import HoodieLocalOperator, is_deferred
from airflow_hoodie.table import HoodieTable

if TYPE_CHECKING:
    from airflow.sdk import Context

#: in the order in which they run (hoodie.services, by their turns)
SERVICES = ("restore", "repair", "compaction", "clustering", "clean", "archive")


class MaintenanceOperator(HoodieLocalOperator):
    """Roll back what has failed, finish what is stuck, and run every service of a table that is due.

    services: names of those to run, in whatever order; None means all: `restore` finishes a restore that was
    begun, `repair` rolls back failed writes and sweeps what killed jobs have left, `compaction`,
    `clustering`, `clean`, `archive`. Clustering is left out unless it is named, or the table's options ask
    for it (`hoodie.clustering.async.enabled`). (templated)
    engine: `spark` submits the job, which starts Spark's executors only when a compaction or clustering has
    work; `local` runs it on the worker in a process of its own, without a JVM, see HoodieLocalOperator.
    options: of all services, over the table's.

    A service that fails does not keep the others from running; the task fails afterwards, with the exception
    of the first failure. Services that need the table to themselves wait for a writer at work
    (wait_for_writer), and go before writers that wait.

    The XCom `return_value`, also of a task that failed, is the job's ServicesResult: status (done, skipped or
    failed), done, skipped and failed (names of services), services (each one's result by name, as those of
    CleanOperator and the others), reason, instant, table, base_path, mode, action, operation, dry_run,
    duration_s, warnings, rolled_back, metadata_table_removed.
    """

    job = "services"

    template_fields: Sequence[str] = ("services", *HoodieSparkOperator.template_fields)
    ui_color = "#e8ecdd"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        services: Sequence[str] | str | None = None,
        engine: str = "spark",
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, engine=engine, **kwargs)
        if isinstance(services, (list, tuple)) or not is_deferred(services):
            _checked(services)
        self.services = services

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields; raises HoodieConfigurationError."""
        return {
            **super().request(),
            "services": _checked(self.services),
            "engine": self.engine,
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
        }

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job; returns its result. Raises the exception of the first service that failed."""
        result = super().execute(context)
        raise_failed(result, context)
        return result


def raise_failed(result: Mapping[str, Any], context: Context) -> None:
    """Fail the task where a service has failed; what all of them did is its XCom all the same."""
    failed = [name for name in result.get("failed") or () if name in result["services"]]
    if not failed:
        return
    if "ti" in context:
        context["ti"].xcom_push(key="return_value", value=dict(result))
    told = "; ".join(
        f"{name} of {result.get('table')}: {result['services'][name]['reason']}" for name in failed
    )
    done = f" (done: {', '.join(result['done'])})" if result.get("done") else ""
    raise from_report({**result["services"][failed[0]]["error"], "message": f"{told}{done}"})


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
