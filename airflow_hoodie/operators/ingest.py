"""IngestOperator: the files of a folder or prefix that are new since its last commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowSkipException

from airflow_hoodie.backfill import check_services, services_option
from airflow_hoodie.engines import Choice, choose, size_of
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.base import check_options
from airflow_hoodie.operators.emitting import HoodieEmittingOperator
from airflow_hoodie.operators.write import source_request, transform_text
from airflow_hoodie.paths import is_later
from airflow_hoodie.table import HoodieTable
from hoodie.errors import HoodieError, SourceNotFound
from hoodie.source import Source, source_files

if TYPE_CHECKING:
    from airflow.sdk import Context

OPERATIONS = ("upsert", "insert", "bulk_insert")
#: status of a run that found no new file
NOTHING_NEW = "nothing_new"


class IngestOperator(HoodieEmittingOperator):
    """Writes the files of a folder, prefix or glob that are new since its last run, by one commit.

    How far the files are taken is in the commit, as Apache Hudi's streamer keeps it: no file is taken twice
    or lost, whichever run, try or cleared task takes it, and whatever is killed. A data interval has no part
    in it. Files must appear whole, and stay as they are; one that is replaced is a new one.

    The XCom `return_value` is the job's IngestResult (docs/results.md). Without a new file its status is
    `nothing_new`, and no asset gets an event. Other parameters: HoodieEmittingOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param source: folder, prefix or glob of files, a list of them, or {"path", "format", "options"}, as of
        HoodieWriteOperator, without the formats `table` and `sql`. The table knows how far it came by these
        paths: others are another source, which begins anew. (templated)
    :param operation: `upsert`, `insert` or `bulk_insert`.
    :param max_files: the most files of one run, the oldest first; the next run takes the others.
    :param max_bytes: the most bytes of the files of one run, such as 512m; a larger file is taken alone.
    :param lookback: timedelta or seconds by which a file may be older than the newest one that was taken, if
        it appears later, as after an upload of several parts or a move. Older ones are not seen.
    :param start_after: epoch milliseconds; of a source that the table does not know yet, the files after
        this time are new. None: all are, or those after the checkpoint of Apache Hudi's streamer, if the
        table has one.
    :param transform: one SELECT over the rows, as of HoodieWriteOperator. (templated)
    :param skip_if_empty: without a new file the task is skipped, and what is downstream of it.
    :param services: `on`, `off` or `auto`, as of HoodieCommitOperator.
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = "ingest"

    template_fields: Sequence[str] = ("source", "transform", *HoodieEmittingOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **HoodieEmittingOperator.template_fields_renderers,
        "source": "json",
        "transform": "sql",
    }

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        source: str | Sequence[str] | Mapping[str, Any],
        operation: str = "upsert",
        max_files: int | None = None,
        max_bytes: str | int | None = None,
        lookback: timedelta | float = 0,
        start_after: int | None = None,
        transform: str | None = None,
        skip_if_empty: bool = False,
        services: str = "auto",
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if operation not in OPERATIONS:
            raise HoodieConfigurationError(f"operation is {operation!r}; use one of {', '.join(OPERATIONS)}")
        super().__init__(table=table, options=options, **kwargs)
        check_options(operation, table, options)
        self.source = source if is_later(source) else _files(source)
        self.operation = operation
        self.max_files = _positive("max_files", max_files)
        self.max_bytes = (
            None if max_bytes is None else _positive("max_bytes", size_of("max_bytes", max_bytes))
        )
        self.lookback_s = _seconds(lookback)
        if start_after is not None and (isinstance(start_after, bool) or not isinstance(start_after, int)):
            raise HoodieConfigurationError(
                f"start_after is {start_after!r}; give epoch milliseconds, or None"
            )
        self.start_after = start_after
        self.transform = transform
        if transform is not None and not is_later(transform):
            transform_text(transform)
        self.skip_if_empty = skip_if_empty
        self.services = check_services(services)

    def auto_choice(self) -> Choice:
        """By all files below the source, or by `max_bytes` if that is less."""
        limit = size_of("local_max_size", self.local_max_size)
        options = {**self.table["options"], **self.options}
        path, described = self.table["path"], _files(self.source)
        if self.max_bytes is not None and self.max_bytes <= limit:
            return choose(path, {self.operation}, None, limit, options, self.transform)
        try:
            source_files(Source.of(described, options))
        except SourceNotFound:  # the job says whether that is an error
            return choose(path, {self.operation}, None, limit, options, self.transform)
        except HoodieError:
            pass
        return choose(path, {self.operation}, described, limit, options, self.transform)

    def run_options(self, context: Context) -> dict[str, str]:
        return {**super().run_options(context), **services_option(self.services, context)}

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        own = {
            "max_files": self.max_files,
            "max_bytes": self.max_bytes,
            "lookback_s": self.lookback_s or None,
            "start_after": self.start_after,
            "transform": transform_text(self.transform),
        }
        return {
            "table": table.path,
            "operation": self.job,
            "source": _files(self.source),
            "write_operation": self.operation,
            "options": table.options_for(self.operation, self.options),
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
            **{name: value for name, value in own.items() if value is not None},
        }

    def check_before_spark(self, source: Mapping[str, Any]) -> None:
        """A source without files is no error."""

    def change(self, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None if result.get("status") == NOTHING_NEW else result

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job; returns its result. Raises AirflowSkipException without a new file, if asked to."""
        result = super().execute(context)
        if self.skip_if_empty and result.get("status") == NOTHING_NEW:
            raise AirflowSkipException(f"no file of {source_request(self.source)['path']} is new")
        return result


def _files(source: Any) -> dict[str, Any]:
    """The request's source. Raises HoodieConfigurationError for one that is not of files."""
    request = source_request(source)
    if request.get("format") in ("table", "sql"):
        raise HoodieConfigurationError(
            f"IngestOperator takes files, no {request['format']}; use parquet, csv or json"
        )
    return request


def _seconds(lookback: Any) -> float:
    seconds = lookback.total_seconds() if isinstance(lookback, timedelta) else lookback
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
        raise HoodieConfigurationError(f"lookback is {lookback!r}; give a timedelta or seconds, 0 or more")
    return float(seconds)


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise HoodieConfigurationError(f"{name} is {value!r}; give a whole number, 1 or more, or None")
    return value
