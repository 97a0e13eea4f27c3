"""Operators that write rows: upsert, insert, bulk insert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.base import HoodieSparkOperator
from airflow_hoodie.table import HoodieTable, is_template, option_texts

FORMATS = ("parquet", "csv", "json", "table", "sql")
_SUFFIXES = {".csv": "csv", ".csv.gz": "csv", ".json": "json", ".jsonl": "json", ".json.gz": "json"}


class HoodieWriteOperator(HoodieSparkOperator):
    """Base of the writing operators.

    source: path or glob of the incoming rows, or {"path", "format", "options"}. (templated) The format of
    a bare path follows its suffix (.csv, .json, .jsonl), else it is parquet; `table` reads another hoodie
    table, `sql` takes a Spark SQL query as its path.

    The XCom `return_value` is the job's WriteResult: status, table, base_path, action, instant, operation,
    partitions, num_inserts, num_updates, num_deletes, num_writes, num_files, bytes_written, duration_s,
    warnings, rolled_back, metadata_table_removed.
    """

    operation: ClassVar[str]

    template_fields: Sequence[str] = ("source", *HoodieSparkOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **HoodieSparkOperator.template_fields_renderers,
        "source": "json",
    }

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        source: str | Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        HoodieTable.of(table).options_for(self.operation, options)
        self.source = source if _is_deferred(source) else source_request(source)

    def request(self) -> dict[str, Any]:
        """The job's `--request` from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        return {
            "table": table.path,
            "operation": self.operation,
            "source": source_request(self.source),
            "options": table.options_for(self.operation, self.options),
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
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
    """Source argument -> {"path", "format", "options"}. Raises HoodieConfigurationError."""
    if isinstance(source, str):
        source = {"path": source}
    if not isinstance(source, Mapping):
        raise HoodieConfigurationError(
            f'source is {source!r}; pass a path, a glob, or {{"path": ..., "format": ..., "options": ...}}'
        )
    if unknown := sorted(set(source) - {"path", "format", "options"}):
        raise HoodieConfigurationError(
            f"source has no field {', '.join(map(repr, unknown))}; use path, format, options"
        )
    path = source.get("path")
    if not isinstance(path, str) or not path.strip():
        raise HoodieConfigurationError(f"source path is {path!r}; name the folder, file or glob to read")
    kind = source.get("format") or ("" if is_template(path) else _format_of(path))
    if kind and kind not in FORMATS and not is_template(kind):
        raise HoodieConfigurationError(f"source format is {kind!r}; use one of {', '.join(FORMATS)}")
    request: dict[str, Any] = {"path": path, "options": option_texts(source.get("options"))}
    return {**request, "format": kind} if kind else request


def _format_of(path: str) -> str:
    name = path.rstrip("/").lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if name.endswith(suffix)), "parquet")


def _is_deferred(source: Any) -> bool:
    """An XComArg or a mapped value, known when the task runs."""
    return hasattr(source, "resolve")
