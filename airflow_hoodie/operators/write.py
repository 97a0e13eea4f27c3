"""Operators that write rows: upsert, insert, bulk insert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hoodie.assets.events import record_commit, with_outlets
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.base import HoodieSparkOperator
from airflow_hoodie.table import HoodieTable, is_template, option_texts
from airflow_hoodie.tokens import committed_before, task_token
from hoodie.storage import normalize

if TYPE_CHECKING:
    from airflow.sdk import Context

FORMATS = ("parquet", "csv", "json", "table", "sql")


class HoodieWriteOperator(HoodieSparkOperator):
    """Base of the writing operators.

    source: path or glob of the incoming rows, a list of them, or {"path", "format", "options"}. (templated)
    Without a format the suffix decides (.csv, .json, .jsonl; else parquet); `table` reads another hoodie
    table, `sql` takes a Spark SQL query as its path.
    exactly_once: a retry, a cleared task or another run of the same data interval finds the commit of the
    first and returns its result with the status `already_committed`, before or after a job is submitted. A
    source that changed since is written again, with a warning.
    token: instead of the one made of DAG, task, map index and data interval. (templated)
    force: write again in any case.
    emit_asset: add the table's asset to the outlets (not for a templated path). Its event says what was
    committed: instant, partitions, counts and operation. With `table.partitions` among the outlets each
    written partition gets an event of its own.

    The XCom `return_value` is the job's WriteResult: status, table, base_path, action, instant, operation,
    partitions, num_inserts, num_updates, num_deletes, num_writes, num_files, bytes_written, duration_s,
    warnings, rolled_back, metadata_table_removed.
    """

    operation: ClassVar[str]

    template_fields: Sequence[str] = ("source", "token", *HoodieSparkOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **HoodieSparkOperator.template_fields_renderers,
        "source": "json",
    }

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        source: str | Sequence[str] | Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        exactly_once: bool = True,
        token: str | None = None,
        force: bool = False,
        emit_asset: bool = True,
        outlets: Any = None,
        **kwargs: Any,
    ) -> None:
        declared = HoodieTable.of(table)
        if emit_asset and not is_template(declared.path):
            outlets = with_outlets(outlets, declared.asset)
        super().__init__(table=table, options=options, outlets=outlets, **kwargs)
        declared.options_for(self.operation, options)
        self.exactly_once = exactly_once
        self.token = token
        self.force = force
        self.source = source if _is_deferred(source) else source_request(source)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job; returns the WriteResult dict, which the assets' events tell too."""
        if self.exactly_once and not self.token:
            self.token = task_token(context)
        result = self._already(context) or super().execute(context)
        self.outlets = record_commit(context, self.outlets, result, self.table["path"])
        return result

    def _already(self, context: Context) -> dict[str, Any] | None:
        """The result of this write's commit, when there is one: no job is submitted then."""
        if not self.token or self.force:
            return None
        table, source = HoodieTable.from_dict(self.table), source_request(self.source)
        found = committed_before(table.path, self.token, self.operation, source)
        if found is None:
            return None
        self.log.info("%s was committed at %s; nothing is submitted", self.token, found.instant)
        return found.result(table.name, normalize(table.path))

    def request(self) -> dict[str, Any]:
        """The job's `--request` from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        return {
            "table": table.path,
            "operation": self.operation,
            "source": source_request(self.source),
            "options": table.options_for(self.operation, self.options),
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
            **({"token": self.token, "force": self.force} if self.token else {}),
        }


class UpsertOperator(HoodieWriteOperator):
    """Insert new rows and update those whose key the table holds."""

    job = operation = "upsert"


class InsertOperator(HoodieWriteOperator):
    """Append rows, packed into small files, without looking for their keys."""

    job = operation = "insert"


class BulkInsertOperator(HoodieWriteOperator):
    """Append many rows into new files: the fastest first load."""

    job = operation = "bulk_insert"


def source_request(source: Any) -> dict[str, Any]:
    """Source argument -> the request's source. Raises HoodieConfigurationError."""
    described = source if isinstance(source, Mapping) else {"path": source}
    if unknown := sorted(set(described) - {"path", "format", "options"}):
        raise HoodieConfigurationError(
            f"source has no field {', '.join(map(repr, unknown))}; use path, format, options"
        )
    path = described.get("path")
    paths = [path] if isinstance(path, str) else path
    if not isinstance(paths, (list, tuple)) or not paths or not all(_is_text(item) for item in paths):
        raise HoodieConfigurationError(
            f'source path is {path!r}; pass a path or glob, a list of them, or {{"path": ..., "format": ...}}'
        )
    request: dict[str, Any] = {"path": path if isinstance(path, str) else list(paths)}
    if kind := described.get("format"):
        if kind not in FORMATS and not (isinstance(kind, str) and is_template(kind)):
            raise HoodieConfigurationError(f"source format is {kind!r}; use one of {', '.join(FORMATS)}")
        request["format"] = kind
    if options := option_texts(described.get("options")):
        request["options"] = options
    return request


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_deferred(source: Any) -> bool:
    """An XComArg or a mapped value, known when the task runs."""
    return hasattr(source, "resolve")
