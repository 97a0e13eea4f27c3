"""Everything a write must know, checked before anything is written: settings, table, schema, plugins."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from hoodie.concurrency.early_conflict_detection import EarlyConflictDetection
from hoodie.concurrency.gate import check_concurrency, is_non_blocking, is_optimistic
from hoodie.concurrency.heartbeats import ATTEMPTS
from hoodie.config.key import Config
from hoodie.errors import ConfigError, ConflictError, TableNotFound
from hoodie.format.base_file import BaseFileFormat
from hoodie.format.evolution import evolve
from hoodie.format.meta_fields import with_meta
from hoodie.format.schema import canonical, record_full_name, to_avro_text
from hoodie.format.settings import NULL_FOR_MISSING
from hoodie.index import Index, PlacingIndex, index_for
from hoodie.index.settings import BUCKET_ENGINE, INDEX_CLASS, INDEX_TYPE, IndexType
from hoodie.keygen import KeyGenerator, key_generator
from hoodie.keygen.nonpartitioned import NonpartitionedKeys
from hoodie.merge import MERGERS, Merger
from hoodie.merge.by_mode import ByMode
from hoodie.merge.hard_delete import HardDelete
from hoodie.merge.settings import PAYLOAD_CLASS, PRECOMBINE_FIELD
from hoodie.read.settings import MERGE_BUDGET, SPILL_PATH
from hoodie.storage import Storage
from hoodie.table import new_table, properties
from hoodie.table.buckets import check_no_buckets, check_no_hash_rings
from hoodie.table.features import ROWS, UNKNOWN, check_features
from hoodie.table.handle import Table, layout_of
from hoodie.table.properties import TableProperties, TableType
from hoodie.table.settings import EXPECTED_INTERVAL_MS
from hoodie.table.table_schema import TableSchema
from hoodie.table.view import TimelineView
from hoodie.timeline.active import META_FOLDER, Timeline
from hoodie.timeline.commit import LATEST_SCHEMA_KEY, SCHEMA_KEY
from hoodie.timeline.instant import Action
from hoodie.write.assign.overwrite import overwriting
from hoodie.write.assign.workload import Parallelism, average_record_size, base_files_written
from hoodie.write.context import WriteContext
from hoodie.write.files.cdc import ChangeFormat, LogFormat, PartialSchema
from hoodie.write.input.delete_keys import Duplicates, dropping_inserts, keys_to_delete, unseen_copies
from hoodie.write.input.self_referencing import check_self_overwrite, completing, is_flagged, partial_columns
from hoodie.write.new_properties import check_version, new_properties
from hoodie.write.operation import Operation, WriteRequest
from hoodie.write.participants.metadata.column_stats import reported_columns
from hoodie.write.settings import (
    BULK_PARALLELISM,
    DELETE_PARALLELISM,
    DROP_DUPLICATES,
    DUPLICATE_POLICY,
    INSERT_PARALLELISM,
    SORT_MODE,
    TABLE_NAME,
    TABLE_TYPE,
    TABLE_VERSION,
    TIMELINE_ZONE,
    UPSERT_PARALLELISM,
    Known,
    TimelineZone,
)
from hoodie.write.table_options import (
    check_key_types,
    check_keys,
    check_new,
    check_ordering_type,
    merged,
    written_by,
)
from hoodie.write.tagging.key_encoding import with_key_encoding

_PARALLELISM = {
    Operation.UPSERT: UPSERT_PARALLELISM,
    Operation.INSERT: INSERT_PARALLELISM,
    Operation.BULK_INSERT: BULK_PARALLELISM,
    Operation.DELETE: DELETE_PARALLELISM,
    Operation.INSERT_OVERWRITE: INSERT_PARALLELISM,
    Operation.INSERT_OVERWRITE_TABLE: INSERT_PARALLELISM,
    Operation.DELETE_PARTITION: DELETE_PARALLELISM,
}


@dataclass(frozen=True)
class WritePlan:
    """A checked write. `new_properties` is set when the table has to be created. `request` is what was asked
    for, with the operation that it comes to.
    """

    request: WriteRequest
    table_name: str
    config: Config
    context: WriteContext
    storage: Storage
    extra_metadata: Mapping[str, str]
    new_properties: Mapping[str, str] | None
    timeline_utc: bool
    table_schema: TableSchema
    timeline: Timeline

    @property
    def action(self) -> Action:
        """What the commit is called on the timeline."""
        if self.context.operation.replaces:
            return Action.REPLACECOMMIT
        return Action.COMMIT if self.context.logs is None else Action.DELTACOMMIT

    @property
    def optimistic(self) -> bool:
        """Is it written beside other writers."""
        return is_optimistic(self.config)

    @property
    def sample_keys(self) -> bool:
        return self.context.sort

    @cached_property
    def record_size(self) -> int:
        """Bytes of a record, by which new rows are given to files; commits are read for it."""
        return average_record_size(self.config, base_files_written(self.timeline, self.storage))

    def create_table(self, table: Table) -> None:
        if self.new_properties is None:
            return
        for _ in range(ATTEMPTS):
            try:
                table.create(self.new_properties)  # of two first writers `outdated` or the gate finds one
            except ConflictError:
                continue  # it swept this one's unfinished file away, so its own is there
            return

    def outdated(self, table: Table) -> bool:
        """Did another writer commit, or create the table differently, since the plan was made?

        A compaction scheduled since then counts too: logs go to the slice that it began. The timeline is the
        one that was listed last. Beside other writers, commits are looked at later (concurrency).
        """
        if table.timeline.layout is not self.timeline.layout:  # files have other names there
            return True
        if not self.optimistic and self._overtaken(table):
            return True
        if self.new_properties is None:
            return False
        found = table.read_properties()
        return any(found.get(name) != text for name, text in self.new_properties.items())

    def _overtaken(self, table: Table) -> bool:
        now, known = table.view, self.context.snapshot
        return (now.committed, now.compacting) != (known.committed, known.compacting)

    def write_parallelism(self, input_partitions: int, cores: int) -> Parallelism:
        """At most MIN(input partitions, configured) tasks when configured."""
        configured = self.config[_PARALLELISM[self.context.operation]]
        return Parallelism(cores, max(1, min(input_partitions, configured)) if configured else None)


@dataclass(frozen=True)
class _Shape:
    """What the incoming rows make of the table: `schema` is its next one."""

    keys: KeyGenerator
    schema: pa.Schema
    merger: Merger


def resolve(table: Table, request: WriteRequest, incoming: pa.Schema) -> WritePlan:
    """Raises HoodieError for whatever is wrong with settings, table or schema; writes nothing.

    `incoming` has no columns where no rows come. Properties and timeline are those that `table` knows.
    """
    storage, path = table.storage, table.base_path
    given = Config.of(request.options)
    request, changed = _effective(request, given)
    operation, props = request.operation, _existing(table)
    config = _with_warnings(given if props is None else merged(given, props), changed)
    _check_supported(table, config, props, operation)
    name, duplicates = _table_name(config, path), Duplicates.of(config, operation)
    if props is not None:
        config = _with_warnings(config, unseen_copies(config, operation, duplicates.known))
    timeline = _timeline(table, config, props, request)
    snapshot = TimelineView.of(timeline, storage) if props is None else table.view_of(timeline)
    index = _opened(_index(config, operation, duplicates), config, table, props, snapshot, operation)
    _check_buckets(storage, props, timeline, snapshot, operation, index)
    config = with_key_encoding(config, props, timeline, storage)
    table_schema = _table_schema(storage, props, timeline)
    stored = table_schema.columns
    shape = _shape(path, request, config, props, stored, incoming)
    full_name = record_full_name(table_schema.avro) if table_schema.avro else None
    avro_text = to_avro_text(shape.schema, name, full_name=full_name)
    table_schema = table_schema.extended(shape.schema)
    context = WriteContext(
        table=table.ref,
        operation=operation,
        schema=shape.schema,
        avro_schema=avro_text,
        keys=shape.keys,
        merger=shape.merger,
        index=index,
        duplicates=duplicates,
        sort=operation.fills_new_groups and config[SORT_MODE].sorts,
        snapshot=snapshot,
        files=_files(config, index),
        logs=_logs(request, config, shape, props, index, table_schema, name),
        merge_budget=config[MERGE_BUDGET],
        spill_path=config[SPILL_PATH] or "",
        null_for_missing=config[NULL_FOR_MISSING],
        evolution=table_schema.evolution,
        early=EarlyConflictDetection.of(config, timeline),
        flagged=is_flagged(request.derived, shape.merger, shape.schema),
        changes=ChangeFormat.of(config, shape.schema, avro_text, snapshot.slicing.of_writes),
        log_only=is_non_blocking(config) and not operation.replaces and not operation.fills_new_groups,
    )
    return WritePlan(
        request=request,
        table_name=name,
        config=config,
        context=completing(context, request, props, config, incoming),
        storage=storage,
        extra_metadata=_extra(request, config, avro_text if operation.brings_rows or stored else ""),
        new_properties=_new(config, name, shape, index) if props is None else None,
        timeline_utc=_utc(config, props),
        table_schema=table_schema,
        timeline=timeline,
    )


def _new(config: Config, name: str, shape: _Shape, index: Index | None) -> dict[str, str]:
    return new_properties(config, name, shape.keys, shape.merger.java_class, index)


def _timeline(table: Table, config: Config, props: TableProperties | None, request: WriteRequest) -> Timeline:
    """The one that the write is planned by. Raises CommitConflict as `check_self_overwrite`."""
    if props is None:
        timeline = Timeline(table.base_path, (), {}, layout_of(config[TABLE_VERSION]), utc=_utc(config, None))
    else:
        timeline = table.timeline
    check_self_overwrite(table, timeline, request.derived)
    return timeline


def _with_warnings(config: Config, warnings: tuple[str, ...]) -> Config:
    return replace(config, warnings=(*config.warnings, *warnings))


def _table_schema(storage: Storage, props: TableProperties | None, timeline: Timeline) -> TableSchema:
    if props is None:
        return TableSchema(None)
    found = TableSchema.load(timeline, storage, props)
    found.check_fields(props)
    return found


def _index(config: Config, operation: Operation, duplicates: Duplicates) -> Index | None:
    """The index that the rows of the operation are looked up with, or placed, if they are."""
    known = duplicates.known is not Known.NONE
    named = config[INDEX_CLASS] or config[INDEX_TYPE] is IndexType.BUCKET
    if not (operation.tags or known or (named and operation.brings_rows)):
        return None
    index = index_for(config)
    if isinstance(index, PlacingIndex):
        if known:
            raise ConfigError(
                f"{DUPLICATE_POLICY.name} and {DROP_DUPLICATES.name} need the keys that the table has, and "
                f"the index {type(index).__name__} looks none up; leave them out",
                setting=DUPLICATE_POLICY.name,
            )
        return index
    tags = index.requires_tagging(operation)
    if tags == operation.tags or (tags and not operation.fills_new_groups):
        return index if tags or known else None
    raise ConfigError(
        f"{INDEX_CLASS.name}={config[INDEX_CLASS]} answers requires_tagging({operation.name}) with {tags}, "
        f"which is not supported; let it answer {not tags}, or use another index",
        value=str(config[INDEX_CLASS]),
    )


def _opened(
    index: Index | None,
    config: Config,
    table: Table,
    props: TableProperties | None,
    snapshot: TimelineView,
    operation: Operation,
) -> Index | None:
    """The index for this write. Raises ConfigError for one that the table's type can't have."""
    if not isinstance(index, PlacingIndex):
        return index if index is None or snapshot.last_commit is None else index.for_write(table, config)
    if index.merge_on_read_only and config[TABLE_TYPE] is not TableType.MERGE_ON_READ:
        raise ConfigError(
            f"the index {type(index).__name__} is for tables of {TABLE_TYPE.name}="
            f"{TableType.MERGE_ON_READ.value}, as Apache Hudi's is; make the table such, or leave "
            f"{BUCKET_ENGINE.name} out",
            value=config[TABLE_TYPE].value,
        )
    known = (
        new_table.complete({properties.VERSION: str(config[TABLE_VERSION])}) if props is None else props.texts
    )
    return index.for_table(known).opened(table.ref, snapshot, replaces=operation.replaces)


def _files(config: Config, index: Index | None) -> BaseFileFormat:
    """Where the index places keys a file group is never cut, whatever its size."""
    files = BaseFileFormat.of(config)
    return replace(files, max_file_size=sys.maxsize) if isinstance(index, PlacingIndex) else files


def _logs(
    request: WriteRequest,
    config: Config,
    shape: _Shape,
    props: TableProperties | None,
    index: Index | None,
    known: TableSchema,
    name: str,
) -> LogFormat | None:
    if config[TABLE_TYPE] is not TableType.MERGE_ON_READ:
        return None
    full_name = record_full_name(known.avro) if known.avro else None
    schema = to_avro_text(with_meta(shape.schema), name, full_name=full_name)
    ranges_of = reported_columns(config, props) if shape.merger.takes_whole_rows else None
    partial, columns = None, partial_columns(request.derived, config, props, shape.schema, index)
    if columns and known.evolution is None:
        some = with_meta(pa.schema([shape.schema.field(column) for column in columns]))
        partial = PartialSchema(tuple(some.names), to_avro_text(some, name, full_name=full_name))
    return LogFormat.of(config, schema, shape.merger.delete_ordering, ranges_of, partial)


def _check_buckets(
    storage: Storage,
    props: TableProperties | None,
    timeline: Timeline,
    snapshot: TimelineView,
    operation: Operation,
    index: Index | None,
) -> None:
    """Raises ConfigError for a table of the BUCKET index that rows are brought to with another index."""
    if props is not None and isinstance(index, PlacingIndex):
        check_no_hash_rings(storage, timeline, ringed=index.ringed)
    elif props is not None and operation.brings_rows:
        check_no_buckets(storage, props, timeline, snapshot)


def _shape(
    path: str,
    request: WriteRequest,
    config: Config,
    props: TableProperties | None,
    stored: pa.Schema | None,
    incoming: pa.Schema,
) -> _Shape:
    operation = request.operation
    if operation.brings_rows:
        return _of_rows(config, props, stored, incoming, derived=request.derived is not None)
    if props is not None:
        return _of_keys(config, props, stored, incoming, operation)
    raise TableNotFound(f"{path} is no Hudi table and has nothing to delete; check the path", path=path)


def _of_rows(
    config: Config,
    props: TableProperties | None,
    stored: pa.Schema | None,
    incoming: pa.Schema,
    *,
    derived: bool,
) -> _Shape:
    rows = canonical(incoming)
    keys = key_generator(config, rows)
    if props is not None:
        check_keys(keys, props)
    schema = rows
    if stored is not None and derived:
        schema = stored
    elif stored is not None:
        schema = evolve(stored, incoming, null_for_missing=config[NULL_FOR_MISSING])
        check_key_types(stored, schema, (*keys.record_key_fields, *keys.partition_fields))
        for path in (config[PRECOMBINE_FIELD] or "").split(","):
            check_ordering_type(stored, rows, schema, path.strip())
    merging = written_by(config, props, rows)
    if config[TABLE_TYPE] is TableType.MERGE_ON_READ:
        _check_logged(merging)
    return _Shape(keys, schema, merging)


def _of_keys(
    config: Config,
    props: TableProperties,
    stored: pa.Schema | None,
    incoming: pa.Schema,
    operation: Operation,
) -> _Shape:
    """Rows of a delete, which need the key's columns only; without any, partitions are deleted."""
    if not operation.tags:
        none: Any = NonpartitionedKeys((), ())
        return _Shape(none, stored or incoming, HardDelete())
    keys, rows = keys_to_delete(config, props, stored, incoming)
    return _Shape(keys, stored or rows, HardDelete())


def _existing(table: Table) -> TableProperties | None:
    storage, path = table.storage, table.base_path
    try:
        return table.properties
    except TableNotFound:
        info = storage.info(path)
        if info is not None and not info.is_dir:
            raise TableNotFound(
                f"{path} is a file; a table is a folder: choose another path", path=path
            ) from None
        others = [item.name for item in storage.list(path) if item.name != META_FOLDER]
        if others:
            with contextlib.suppress(TableNotFound):  # another first writer has made it meanwhile
                return table.read_properties()
            raise TableNotFound(
                f"{path} holds {others[0]!r} and is no Hudi table; write to an empty or new folder", path=path
            ) from None
        return None


def _effective(request: WriteRequest, given: Config) -> tuple[WriteRequest, tuple[str, ...]]:
    """The request with the operation that its settings make of it, and a warning for each change. Raises
    ConfigError for settings that contradict it.
    """
    _check_operation(given, request.operation)
    request, inserted = dropping_inserts(request, given)
    request, replaced = overwriting(request, given)
    return request, tuple(warning for warning in (inserted, replaced) if warning)


def _check_operation(given: Config, operation: Operation) -> None:
    asked = given.text(_OPERATION)
    if asked is not None and asked.strip().lower() != operation.value:
        raise ConfigError(
            f"{_OPERATION}={asked!r} contradicts the operation {operation.value} that was called; leave it "
            "out, or call the operation you mean",
            value=asked,
        )


_OPERATION = "hoodie.datasource.write.operation"


def _check_supported(
    table: Table, config: Config, props: TableProperties | None, operation: Operation
) -> None:
    check_concurrency(table, config)
    if props is None:
        check_new(config)
        check_version(config)
    if props is not None:
        table.for_writing()
        touches_rows = operation is not Operation.DELETE_PARTITION
        check_features(props, "write", "written", *(ROWS if touches_rows else UNKNOWN))


def _check_logged(merging: Merger) -> None:
    """Readers merge the rows of logs, so every reader must have the merger."""
    if not isinstance(merging, ByMode) and not MERGERS.includes(type(merging)):
        raise ConfigError(
            f"{PAYLOAD_CLASS.name}={merging.java_class!r} is a merger of your own, which other readers "
            f"of a {TableType.MERGE_ON_READ.value} table lack; use a payload of Apache Hudi's, or "
            f"{TABLE_TYPE.name}={TableType.COPY_ON_WRITE.value}",
            value=merging.java_class,
        )


def _table_name(config: Config, path: str) -> str:
    return config[TABLE_NAME] or path.rsplit("/", 1)[-1]


def _utc(config: Config, props: TableProperties | None) -> bool:
    return config[TIMELINE_ZONE] is TimelineZone.UTC if props is None else props.timeline_utc


def _extra(request: WriteRequest, config: Config, avro_text: str) -> dict[str, str]:
    for name in (SCHEMA_KEY, LATEST_SCHEMA_KEY):
        if name in request.extra_metadata:
            raise ConfigError(f"extra metadata {name!r} is the writer's own; choose another name", key=name)
    stated = {EXPECTED_INTERVAL_MS.name: str(gap)} if (gap := config[EXPECTED_INTERVAL_MS]) else {}
    return {**stated, **request.extra_metadata, SCHEMA_KEY: avro_text}
