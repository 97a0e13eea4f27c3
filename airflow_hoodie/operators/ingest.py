"""IngestOperator: the files of a folder or prefix that are new since its last commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_hoodie.arguments import check_path, is_later, known_options, option_texts
from airflow_hoodie.engines import Choice, choose, size_of
from airflow_hoodie.exceptions import HoodieConfigurationError, from_error
from airflow_hoodie.operators.base import HoodieJobOperator
from airflow_hoodie.operators.write import source_request, transform_text
from airflow_hoodie.publication import emitting
from airflow_hoodie.runs import check_services, services_option
from airflow_hoodie.table import HoodieTable, check_options
from hoodie.concurrency.queue import Rank
from hoodie.config.error_table import NAME, ErrorTable
from hoodie.config.error_table import error_table as errors_of
from hoodie.config.functions import Function
from hoodie.errors import HoodieError, SourceNotFound
from hoodie.source import Source, source_files

if TYPE_CHECKING:
    from airflow.sdk import Context

OPERATIONS = ("upsert", "insert", "bulk_insert")
#: status of a run that found no new file
NOTHING_NEW = "nothing_new"


class IngestOperator(HoodieJobOperator):
    """Writes the files of a folder, prefix or glob that are new since its last run, by one commit.

    How far the files are taken is in the commit, as Apache Hudi's streamer keeps it: no file is taken twice
    or lost, whichever run, try or cleared task takes it, and whatever is killed. A data interval has no part
    in it. Files must appear whole, and stay as they are; one that is replaced is a new one.

    The XCom `return_value` is the job's IngestResult (docs/results.md). Without a new file its status is
    `nothing_new`, and no asset gets an event. Other parameters: HoodieJobOperator.

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
    :param transform: one SELECT over the rows, or a function, as of HoodieWriteOperator. (templated)
    :param error_table: absolute path of a Hudi table that gets the records that can't be written, by a commit
        before that of the others, as the `options` `hoodie.errortable.*` name one, too. Without one such a
        record fails the task. The result's `num_bad_rows` counts them. (templated)
    :param max_bad_rows: with an error table, the task fails with more of them in one run, and writes nothing;
        None: 1000.
    :param max_bad_files: so many files of a run that can't be read or written are left out: the commit goes
        past them, and it, the result's `bad_files` and the asset's event name them with the reason. With
        more, and with None for any, the task fails and writes nothing.
    :param skip_if_empty: without a new file the task is skipped, and what is downstream of it.
    :param services: `on`, `off` or `auto`, as of HoodieCommitOperator.
    :param emit_asset: see HoodieCommitOperator.
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = "ingest"
    changes_rows = makes_table = True
    needs_source = False
    rank = Rank.WRITER

    template_fields: Sequence[str] = (
        "source",
        "transform",
        "error_table",
        *HoodieJobOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **HoodieJobOperator.template_fields_renderers,
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
        transform: str | Function | None = None,
        error_table: str | None = None,
        max_bad_rows: int | None = None,
        max_bad_files: int | None = None,
        skip_if_empty: bool = False,
        services: str = "auto",
        emit_asset: bool = True,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if operation not in OPERATIONS:
            raise HoodieConfigurationError(f"operation is {operation!r}; use one of {', '.join(OPERATIONS)}")
        super().__init__(table=table, options=options, **emitting(self, table, emit_asset, kwargs))
        self.error_table = error_table
        self.max_bad_rows = _positive("max_bad_rows", max_bad_rows)
        self.max_bad_files = _positive("max_bad_files", max_bad_files)
        if not is_later(options):
            known = known_options(options)
            check_options(operation, table, known if is_later(error_table) else self._errors(known)[1])
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
        self.transform: Any = transform
        if transform is not None and not is_later(transform):
            self.transform = transform_text(transform)
        self.skip_if_empty = skip_if_empty
        self.services = check_services(services)

    def auto_choice(self) -> Choice:
        """By all files below the source, or by `max_bytes` if that is less."""
        limit = size_of("local_max_size", self.local_max_size)
        options = {**self.table["options"], **self._errors(self.options)[1]}
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
        errors, options = self._errors(self.options)
        own = {
            "max_files": self.max_files,
            "max_bytes": self.max_bytes,
            "lookback_s": self.lookback_s or None,
            "start_after": self.start_after,
            "transform": transform_text(self.transform),
            "error_table": errors.path if errors else None,
            "max_bad_rows": errors.max_rows if errors else None,
            "max_bad_files": self.max_bad_files,
        }
        return {
            "table": table.path,
            "operation": self.job,
            "source": _files(self.source),
            "write_operation": self.operation,
            "options": {**table.options_for(self.operation, options), **_named(errors)},
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
            **{name: value for name, value in own.items() if value is not None},
        }

    def _errors(self, options: Any) -> tuple[ErrorTable | None, dict[str, Any]]:
        """The error table, and the settings without its own. Raises HoodieConfigurationError."""
        try:
            found, rest = errors_of(option_texts(options), self.error_table, self.max_bad_rows)
        except HoodieError as error:
            raise from_error(error) from error
        if found is not None:
            check_path(found.path)
        return found, rest

    def change(self, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None if result.get("status") == NOTHING_NEW else result

    def check_result(self, result: Mapping[str, Any], context: Context) -> None:
        """Raises AirflowSkipException without a new file, if asked to."""
        if self.skip_if_empty and result.get("status") == NOTHING_NEW:
            raise AirflowSkipException(f"no file of {source_request(self.source)['path']} is new")


def _files(source: Any) -> dict[str, Any]:
    """The request's source. Raises HoodieConfigurationError for one that is not of files."""
    request = source_request(source)
    if request.get("format") in ("table", "sql"):
        raise HoodieConfigurationError(
            f"IngestOperator takes files, no {request['format']}; use parquet, csv, json, avro or orc"
        )
    return request


def _named(errors: ErrorTable | None) -> dict[str, str]:
    return {NAME: errors.name} if errors is not None else {}


def _seconds(lookback: Any) -> float:
    seconds = lookback.total_seconds() if isinstance(lookback, timedelta) else lookback
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
        raise HoodieConfigurationError(f"lookback is {lookback!r}; give a timedelta or seconds, 0 or more")
    return float(seconds)


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise HoodieConfigurationError(f"{name} is {value!r}; give a whole number, 1 or more, or None")
    return value
