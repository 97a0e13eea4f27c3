"""The error table of an ingestion: a row for each record that can't be written, committed before the others.

A run that is killed between the two commits writes its error rows again: they have keys of their own, made of
the table, the file with its content, the place and the record, so that each is there once. The commit's token
is made of these keys: where the same rows are bad again, nothing is written.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hoodie.backend.local import LocalBackend
from hoodie.config.error_table import ErrorTable
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.ingestion.checkpoint import DatedFile
from hoodie.keygen.settings import PARTITIONPATH_FIELD, RECORDKEY_FIELD
from hoodie.merge.settings import PRECOMBINE_FIELD
from hoodie.pipeline import write
from hoodie.progress import ProgressCallback
from hoodie.source.rejected_records import Required
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table, TableRef
from hoodie.table.settings import WAIT_MS
from hoodie.timeline.tokens import RUN_KEY, TOKEN_KEY
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from hoodie.write.settings import TABLE_NAME

#: of the commit of the good rows: how many were bad
BAD_ROWS_KEY = "airflow.bad_rows"

#: `position`: the line of the record in its file, from 1, null where it is not known; `token`: that of the
#: commit of the good rows, in its extra metadata
_FIELDS: dict[str, pa.DataType] = {
    "error_id": pa.string(),
    "table_path": pa.string(),
    "file": pa.string(),
    "position": pa.int64(),
    "record": pa.string(),
    "error": pa.string(),
    "token": pa.string(),
}
SCHEMA = pa.schema(_FIELDS)


def required(table: Table | None, options: Mapping[str, Any]) -> Required:
    """The fields of the table that no row may lack, or of one that is made by these settings."""
    config = Config.of(options)
    if table is None:
        keys, parts, ordering = config[RECORDKEY_FIELD], config[PARTITIONPATH_FIELD], config[PRECOMBINE_FIELD]
    else:
        found = table.properties
        keys, parts = found.record_key_fields, found.partition_fields
        ordering = found.precombine_field or config[PRECOMBINE_FIELD]
    names = tuple(name.partition(":")[0] for name in parts)
    return Required(record_key=tuple(keys), partition=names, ordering=ordering or None)


def check(errors: ErrorTable, path: str, options: Mapping[str, Any]) -> None:
    """Raises ConfigError for an error table in the place of the table, or below or above it."""
    config = Config.of(_options(errors, options))
    own, others = (f"{TableRef.of(place, config).uri.rstrip('/')}/" for place in (errors.path, path))
    if own.startswith(others) or others.startswith(own):
        raise ConfigError(
            f"the error table {errors.path} and the table {path} share a folder; give them one each",
            path=errors.path,
        )


def write_errors(
    errors: ErrorTable,
    bad: pa.Table,
    files: tuple[DatedFile, ...],
    asked: WriteRequest,
    progress: ProgressCallback,
) -> WriteResult:
    """Commit them, each once, whatever was committed of them before. `asked`: the write of the good rows."""
    rows = _rows(bad, {file.path: file.mark for file in files}, asked)
    known = hashlib.sha256(
        "\n".join(sorted(map(str, rows.column("error_id").to_pylist()))).encode()
    ).hexdigest()[:32]
    extra = {TOKEN_KEY: f"errors {known} of {asked.token}"}
    if run := asked.extra_metadata.get(RUN_KEY):
        extra[RUN_KEY] = run
    progress("errors", f"{bad.num_rows} bad rows into {errors.path}")
    request = WriteRequest(errors.path, Operation.UPSERT, _options(errors, asked.options), extra)
    backend = LocalBackend()
    return write(backend.engine(), backend.frame(rows), request, progress)


def _rows(bad: pa.Table, marks: Mapping[str, str], asked: WriteRequest) -> pa.Table:
    seen: Counter[tuple[Any, ...]] = Counter()
    found = []
    for row in bad.to_pylist():
        place = (asked.path, row["file"], marks.get(row["file"], ""), row["position"], row["record"])
        seen[place] += 1
        text = "\n".join(map(str, (*place, seen[place])))
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        found.append({**row, "error_id": name, "table_path": asked.path, "token": asked.token})
    return pa.Table.from_pylist(found, SCHEMA)


def _options(errors: ErrorTable, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the error table's write: storage and patience are those of the ingestion."""
    waits = {name: value for name, value in options.items() if name == WAIT_MS.name}
    return {
        **options_of(options),
        **waits,
        TABLE_NAME.name: errors.name,
        RECORDKEY_FIELD.name: "error_id",
        PARTITIONPATH_FIELD.name: "",
    }
