"""File slices of a plan, read as a query reads them and rewritten: shared by compaction and clustering."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.engine import Engine
from hoodie.engine.task import BatchFunction
from hoodie.errors import JobError, TableError
from hoodie.format.base_file import BaseFileFormat
from hoodie.format.meta_fields import OPERATION, carried, with_meta, without_meta
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.format.schema import from_avro, record_full_name, to_avro_text
from hoodie.read.log_merge import SliceContext
from hoodie.read.log_merger import table_merger
from hoodie.read.settings import MERGE_BUDGET, SPILL_PATH
from hoodie.services.service_table import ServiceTable
from hoodie.storage import Storage
from hoodie.table.handle import TableRef
from hoodie.table.properties import TableType
from hoodie.table.slicing import first_instant
from hoodie.table.table_schema import TableSchema
from hoodie.table.view import BaseFile, FileSlice, LogFile
from hoodie.timeline.commit import LATEST_SCHEMA_KEY, SCHEMA_KEY
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.blobs import BLOB_SCHEMA, answers


@dataclass(frozen=True)
class RewriteContext:
    """What every task of a rewrite needs. Picklable; built once on the driver. `instant` is the service's."""

    table: TableRef
    instant: InstantTime
    avro_schema: str
    files: BaseFileFormat
    slices: SliceContext

    @property
    def base_path(self) -> str:
        return self.table.uri

    @property
    def file_schema(self) -> pa.Schema:
        """Schema of base files: meta columns first."""
        return self.slices.schema

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The entries of the service's commit about the schema of its files."""
        known = {SCHEMA_KEY: self.avro_schema}
        evolution = self.slices.evolution
        return known if evolution is None else {**known, LATEST_SCHEMA_KEY: evolution.schema.to_json()}

    def carried(self, *others: str) -> list[str]:
        """The columns that are read of rows to be rewritten, and these."""
        return carried(self.file_schema, *others)


def rewrite_context(
    target: ServiceTable, instant: InstantTime, verb: str, engine: Engine | None = None
) -> RewriteContext:
    """The context for the table as it is now, for tasks of the engine if there are any. `verb` is what the
    service does, for the errors: raises TableError for a table whose schema is unknown, or that keeps a
    change log.
    """
    config, timeline = target.config, target.timeline()
    table_schema = TableSchema.load(timeline, target.storage, target.props)
    if table_schema.evolution is not None:
        # readers take the service's files for those of the schema at its instant: that of its plan
        table_schema = TableSchema.load(timeline, target.storage, target.props, as_of=instant or None)
        table_schema.check_fields(target.props)
    text = table_schema.avro
    if text is None:
        raise TableError(f"no commit of {target.base_path} has the table's schema", path=target.base_path)
    stored = from_avro(text)
    if OPERATION in stored.names:
        raise TableError(
            f"{target.base_path} keeps a change log ({OPERATION}), which is not supported; {verb} it with "
            "Apache Hudi",
            path=target.base_path,
        )
    schema = without_meta(stored)
    merged = target.props.table_type is TableType.MERGE_ON_READ
    slices = SliceContext(
        schema=with_meta(schema),
        snapshot=target.table.view,
        merger=table_merger(target.props, config, schema) if merged else None,
        ordering=target.props.precombine_field,
        budget=config[MERGE_BUDGET] if engine is None else engine.task_memory(config[MERGE_BUDGET]),
        spill_path=config[SPILL_PATH] or "",
        evolution=table_schema.evolution,
    )
    avro_schema = to_avro_text(schema, target.props.name, full_name=record_full_name(text))
    files = BaseFileFormat.of(config)
    return RewriteContext(target.table.ref, instant, avro_schema, files, slices)


@dataclass(frozen=True)
class PlanSlice:
    """A file slice as a plan names it; `service` and `verb` ("compaction", "compact") are for errors.

    `instant` is the slice's base instant; None: that of its base file or first log.
    """

    service: str
    verb: str
    partition: str
    file_id: str
    instant: InstantTime | None
    base: str | None
    logs: tuple[str, ...]

    def found(self, storage: Storage, base_path: str) -> FileSlice:
        """The slice with its files' sizes, its logs in the plan's order. Raises TableError when one is
        missing.
        """
        base = None
        if self.base:
            path, size = self._file(storage, base_path, self.base)
            base_name = BaseFileName.parse(self.base)
            if base_name is None:
                raise self._unknown(path, "Parquet base file")
            base = BaseFile(self.partition, path, self.base, self.file_id, base_name.instant, size)
        found = []
        for name in self.logs:
            path, size = self._file(storage, base_path, name)
            log = LogFileName.parse(name)
            if log is None:
                raise self._unknown(path, "log file")
            found.append((path, replace(log, file_id=self.file_id), size))
        instant = self.instant or (
            base.instant if base else first_instant(log for _, log, _ in found) or NO_TIME
        )
        logs = tuple(LogFile.of(self.partition, path, log, size, instant) for path, log, size in found)
        return FileSlice(self.partition, self.file_id, instant, base, logs)

    def _file(self, storage: Storage, base_path: str, name: str) -> tuple[str, int]:
        path = join(base_path, self.partition, name)
        info = storage.info(path)
        if info is None:
            raise TableError(
                f"{path} is in the plan of a {self.service} and is not there; restore the file, or cancel "
                f"the {self.service} (hoodie cancel)",
                path=path,
            )
        return path, info.size

    def _unknown(self, path: str, kind: str) -> TableError:
        return TableError(f"{path} is no name of a {kind}; {self.verb} it with Apache Hudi", path=path)


def run_tasks(engine: Engine, function: BatchFunction, count: int, what: str) -> list[dict[str, Any]]:
    """One call of `function` for each number below `count`; the answers, one a task, in no order.

    Raises what a task raised, or JobError when one did not answer. `what` names what is counted.
    """
    if not count:
        return []
    frame = engine.map_batches(engine.tasks(count), function, BLOB_SCHEMA)
    found = answers(engine, frame)
    if len(found) != count:
        raise JobError(f"{count} {what}, {len(found)} tasks answered", slices=count)
    return found
