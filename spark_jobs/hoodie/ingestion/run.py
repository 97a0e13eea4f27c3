"""One run of an ingestion: it commits the new files of a source, and the commit has the new checkpoint.

Two runs never commit one file. The token of a commit (hoodie.timeline.tokens) is the checkpoint with which
the run began. Of several runs with the same beginning one commits, and the others look for new files again.

The error table has a row for each record that can't be written. Its rows are committed before the others. A
run that is killed between the two commits writes its error rows again. No row is twice in the table, because
the key of an error row consists of the table, the file with its content, the place and the record. These keys
also make the token of the commit. So the same error rows are not written again.

A file that can't be written is left out where the caller admits such files. The commit that goes past it
names it, with the reason, so that a file is named if and only if it is left out. Which files these are is
found by dry runs of parts of the files, once the write of all has failed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from hoodie.backend import Backend
from hoodie.backend.local import LocalBackend
from hoodie.config.error_table import ErrorTable
from hoodie.config.key import Config
from hoodie.errors import CommitConflict, ConfigError, InputError, SourceNotFound, TableNotFound
from hoodie.ingestion.checkpoint import (
    Checkpoint,
    Chosen,
    DatedFile,
    Known,
    Limits,
    choose,
    dated_files,
    is_there,
    known,
    source_name,
)
from hoodie.keygen.settings import PARTITIONPATH_FIELD, RECORDKEY_FIELD
from hoodie.merge.settings import PRECOMBINE_FIELD
from hoodie.pipeline import write
from hoodie.progress import ProgressCallback, silent
from hoodie.shown import Shown
from hoodie.source import Format, Source
from hoodie.source.rejected_records import Required
from hoodie.source.target import target_schema
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table, TableRef
from hoodie.table.settings import WAIT_MS
from hoodie.text import argument, plural
from hoodie.timeline.tokens import FINGERPRINT_KEY, RUN_KEY, TOKEN_KEY, TokenCommit
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from hoodie.write.settings import TABLE_NAME

#: of the commit of the good rows: how many were bad
BAD_ROWS_KEY = "airflow.bad_rows"
#: of a commit that goes past files that can't be written: JSON, a list of {"file", "reason"}
BAD_FILES_KEY = "airflow.bad_files"
#: characters of a reason that are kept
_REASON = 500

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


#: operations that add the rows of files to a table
OPERATIONS = (Operation.UPSERT, Operation.INSERT, Operation.BULK_INSERT)
_ATTEMPTS = 20


@dataclass(frozen=True, kw_only=True)
class IngestRequest:
    """New files of `source` into the table at `path`. `start_after`: epoch milliseconds; of a source that the
    table has no checkpoint of, files that are not younger are left out. `errors`: where records go that
    can't be written; None: such a record fails the run.
    """

    path: str
    source: Source
    operation: Operation = Operation.UPSERT
    limits: Limits = field(default_factory=Limits)
    start_after: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    errors: ErrorTable | None = None

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            names = ", ".join(item.value for item in OPERATIONS)
            raise ConfigError(f"an ingestion can't {self.operation.value}; use one of {names}")
        if self.source.format in (Format.TABLE, Format.SQL):
            raise ConfigError(
                f"an ingestion takes files, no {self.source.format.value}; use parquet, csv, json, avro or "
                "orc",
                format=self.source.format.value,
            )


@dataclass(frozen=True, kw_only=True, repr=False)
class IngestResult(Shown):
    """What a run wrote, and what it read.

    `write`: its status is `committed`; `nothing_new`, without an instant, where no file was new;
    `already_committed` where none was new since the commit of the same task run; `planned` of a dry run.
    num_source_files, source_bytes: of the files that were taken. files_left: new files that the limits left
    to the next run. checkpoint: that of Apache Hudi after the run, "" where nothing was ever taken.
    num_bad_rows: records that can't be written; error_table: where they are, error_instant: by which commit
    ("": none, or of a dry run). bad_files: {"file", "reason"} of each file that was left out because it can't
    be written; num_source_files does not count them.
    """

    write: WriteResult
    num_source_files: int = 0
    source_bytes: int = 0
    files_left: int = 0
    checkpoint: str = ""
    num_bad_rows: int = 0
    error_table: str = ""
    error_instant: str = ""
    bad_files: list[dict[str, str]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; the write's fields and the own ones side by side."""
        own = {name: value for name, value in vars(self).items() if name != "write"}
        return {**self.write.to_dict(), **own}


def ingest(backend: Backend, request: IngestRequest, progress: ProgressCallback = silent) -> IngestResult:
    """Write the new files of the source by one commit; none is new: no commit. Raises HoodieError; what was
    not committed is new to the next run.
    """
    started = time.monotonic()
    source = request.source
    source.check_no_table()
    if request.errors is not None:
        check(request.errors, request.path, request.options)
    for _ in range(_ATTEMPTS):
        table = _opened(request)
        found = known(table, source_name(source)) if table is not None else Known()
        before, warnings = _beginning(request, found)
        files = dated_files(source)
        if not files and found.own is None and not is_there(source):
            raise source.no_such()
        chosen = choose(files, before, source_name(source), request.limits)
        if chosen is None:
            return _nothing(request, table, found.own, time.monotonic() - started)
        progress("ingest", f"{plural(len(chosen.files), 'new file')}, {chosen.left} left to the next run")
        result = _left_out(backend, request, before, chosen, progress)
        if result.write.status != "already_committed":
            return replace(
                result,
                write=replace(result.write, warnings=[*warnings, *result.write.warnings]),
                num_source_files=len(chosen.files) - len(result.bad_files),
                source_bytes=chosen.bytes - _bytes(chosen, result.bad_files),
                files_left=chosen.left,
                checkpoint=str(chosen.checkpoint.hudi),
            )
        progress("ingest", f"another run took files at {result.write.instant}; looking for new ones again")
    raise CommitConflict(
        f"other runs took the new files of {source} in {_ATTEMPTS} attempts; run one at a time",
        path=request.path,
    )


def _opened(request: IngestRequest) -> Table | None:
    try:
        return Table.open(request.path, Config.of(request.options))
    except TableNotFound:
        return None


def _beginning(request: IngestRequest, found: Known) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint that the run begins with, and what the caller should know of it."""
    name = source_name(request.source)
    if found.own is not None:
        return found.own, []
    if request.start_after is not None:
        return Checkpoint.after(name, request.start_after), []
    if found.hudi is None:
        return None, []
    commit = found.hudi.instant.time if found.hudi.instant is not None else ""
    return Checkpoint.after(name, found.hudi.until), [
        f"the source goes on from Apache Hudi's checkpoint {found.hudi.until} of the commit {commit}; "
        f"if that is of another source, roll back and give {argument('start_after')}, after which files are "
        "new (0: all)"
    ]


def _left_out(
    backend: Backend,
    request: IngestRequest,
    before: Checkpoint | None,
    chosen: Chosen,
    progress: ProgressCallback,
) -> IngestResult:
    """The write of the chosen files, without those that can't be written, where the request admits such.

    Raises the error of the write where no file alone is the cause, and where no table has columns for a
    commit without files; InputError for more of them than the request admits.
    """
    try:
        return _write(backend, request, before, chosen, progress)
    except InputError as error:
        if not request.limits.max_bad_files or isinstance(error, SourceNotFound):
            raise
        progress("ingest", f"looking for the files that can't be written: {error.message}")
        probe = replace(request, dry_run=True)
        bad = _bad(backend, probe, before, chosen, [])
        whole = len(bad) == len(chosen.files) and target_schema(request.path, request.options) is None
        if not bad or whole:
            raise
    result = _write(backend, request, before, chosen, progress, bad)
    done = "would be" if request.dry_run else "were"
    warnings = [f"{plural(len(bad), 'file')} can't be written and {done} left out: {_texts(bad)}"]
    return replace(
        result, bad_files=bad, write=replace(result.write, warnings=[*warnings, *result.write.warnings])
    )


def _bad(
    backend: Backend,
    probe: IngestRequest,
    before: Checkpoint | None,
    chosen: Chosen,
    found: list[dict[str, str]],
) -> list[dict[str, str]]:
    """Those of the files whose write, alone, fails for their content, by halves; `found`, with them added."""
    try:
        _write(backend, probe, before, chosen, silent)
    except SourceNotFound:
        raise
    except InputError as error:
        files = chosen.files
        if len(files) > 1:
            for half in (files[: len(files) // 2], files[len(files) // 2 :]):
                _bad(backend, probe, before, replace(chosen, files=half), found)
            return found
        found.append({"file": files[0].path, "reason": error.message[:_REASON]})
        most = probe.limits.max_bad_files
        if len(found) > most:
            raise InputError(
                f"more than {argument('max_bad_files')}={most} files can't be written; nothing was written. "
                f"The first: {_texts(found[:3])}",
                file=found[0]["file"],
            ) from None
    return found


def _texts(bad: Sequence[Mapping[str, str]]) -> str:
    return "; ".join(f"{item['file']}: {item['reason']}" for item in bad)


def _bytes(chosen: Chosen, bad: Sequence[Mapping[str, str]]) -> int:
    names = {item["file"] for item in bad}
    return sum(file.size for file in chosen.files if file.path in names)


def _write(
    backend: Backend,
    request: IngestRequest,
    before: Checkpoint | None,
    chosen: Chosen,
    progress: ProgressCallback,
    bad: Sequence[Mapping[str, str]] = (),
) -> IngestResult:
    names = {item["file"] for item in bad}
    source = replace(request.source, only=tuple(file.path for file in chosen.files if file.path not in names))
    name = hashlib.sha256(chosen.checkpoint.source.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    given = {key: text for key, text in request.extra_metadata.items() if key != FINGERPRINT_KEY}
    asked = WriteRequest(
        request.path,
        request.operation,
        request.options,
        {
            **given,
            **chosen.checkpoint.texts(),
            TOKEN_KEY: f"ingest {name} after {before.state() if before is not None else 'nothing'}",
            **({BAD_FILES_KEY: json.dumps(list(bad), ensure_ascii=False)} if bad else {}),
        },
        dry_run=request.dry_run,
    )
    known = target_schema(request.path, request.options)
    if not source.only and known is not None:  # no file is left: the checkpoint alone is committed
        backend = LocalBackend()
        return IngestResult(
            write=write(backend.engine(), backend.frame(known.empty_table()), asked, progress)
        )
    if request.errors is None:
        rows = backend.read_source(source, known)
        return IngestResult(write=write(backend.engine(), backend.frame(rows), asked, progress))
    needed = required(_opened(request), request.options)
    found = backend.screened(source, known, needed, request.errors.max_rows)
    count, instant = found.bad.num_rows, ""
    if count:
        asked = replace(asked, extra_metadata={**asked.extra_metadata, BAD_ROWS_KEY: str(count)})
        if not request.dry_run:
            instant = write_errors(request.errors, found.bad, chosen.files, asked, progress).instant
    result = write(backend.engine(), backend.frame(found.rows), asked, progress)
    where = f"{plural(count, 'bad row')} {'would go' if request.dry_run else 'went'} to {request.errors.path}"
    return IngestResult(
        write=replace(result, warnings=[*result.warnings, where]) if count else result,
        num_bad_rows=count,
        error_table=request.errors.path,
        error_instant=instant,
    )


def _named(text: str | None) -> list[dict[str, str]]:
    """The files that a commit names; none where its text is damaged."""
    try:
        found = json.loads(text or "[]")
        return [{"file": str(item["file"]), "reason": str(item["reason"])} for item in found]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _nothing(
    request: IngestRequest, table: Table | None, before: Checkpoint | None, seconds: float
) -> IngestResult:
    """No commit; but where this task run made the last one, and died afterwards, that is the result."""
    base_path = TableRef.of(request.path).uri
    name = table.properties.name if table is not None else ""
    checkpoint = str(before.hudi) if before is not None else ""
    run = request.extra_metadata.get(RUN_KEY)
    if before is not None and before.instant is not None and before.metadata is not None and run:
        commit = TokenCommit.of(before.instant, before.metadata)
        if commit is not None and before.metadata.extra_metadata.get(RUN_KEY) == run:
            return IngestResult(
                write=WriteResult(**commit.result(name, base_path)),
                checkpoint=checkpoint,
                num_bad_rows=int(before.metadata.extra_metadata.get(BAD_ROWS_KEY) or 0),
                bad_files=_named(before.metadata.extra_metadata.get(BAD_FILES_KEY)),
                error_table=request.errors.path if request.errors is not None else "",
            )
    return IngestResult(
        write=WriteResult(
            status="nothing_new",
            table=name,
            base_path=base_path,
            action="",
            instant="",
            completion="",
            operation=request.operation.value,
            partitions=[],
            num_inserts=0,
            num_updates=0,
            num_deletes=0,
            num_writes=0,
            num_files=0,
            bytes_written=0,
            duration_s=seconds,
            warnings=[],
        ),
        checkpoint=checkpoint,
    )
