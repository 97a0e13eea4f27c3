"""A table as a query sees it: which slices, which rows of them, in which schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.config.versions import LayoutVersion
from hoodie.errors import ConfigError, TableBusy
from hoodie.format.base_file import BaseFileReader
from hoodie.format.meta_fields import with_meta, without_meta
from hoodie.format.schema import from_avro
from hoodie.merge import Merger
from hoodie.metadata.queries import (
    MetadataTableUnavailable,
    QueryListing,
    check_still_there,
    for_queries,
    ignored,
)
from hoodie.metadata.table import MetadataTable
from hoodie.read.binding import Predicate
from hoodie.read.log_merge import SliceContext
from hoodie.read.log_merger import check_mergeable, table_merger
from hoodie.read.partition_skipping import PartitionSkipping
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import ANY, Node
from hoodie.read.pruning import possible, possible_folder
from hoodie.read.query import Query, QueryType, Span
from hoodie.read.readable_range import (
    check_begin,
    completed_between,
    completions,
    file_history,
    last_before_pending,
)
from hoodie.read.settings import (
    DATA_SKIPPING,
    FROM_PATH,
    HOLES_POLICY,
    INCREMENTAL_FORMAT,
    MERGE_BUDGET,
    RECORD_INDEX,
    SPILL_PATH,
    VERIFY_FILES,
    IncrementalFormat,
)
from hoodie.read.skipping import IndexUse, Skipping, Step
from hoodie.read.verify import agreeing, check_agreement, sound
from hoodie.storage import Storage
from hoodie.table import properties
from hoodie.table.bootstrap import check_sources
from hoodie.table.features import Feature, check_features, warn_of_unknown
from hoodie.table.handle import Table, TableRef
from hoodie.table.listing import FileListing, Possible
from hoodie.table.properties import TableProperties
from hoodie.table.skeleton import open_base
from hoodie.table.table_schema import TableSchema
from hoodie.table.view import (
    BaseFile,
    FileSlice,
    Listing,
    TimelineView,
    latest_base_files,
    merged_slices,
)
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit_details import head_of
from hoodie.timeline.instant import Instant
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: (partition path, file id) of touched file groups; None: any
Touched = frozenset[tuple[str, str]] | None


@dataclass(frozen=True)
class TableView:
    """A table as a query sees it. `schema` has the meta columns first, where the table fills them.

    `path_columns` have the value of their rows' partition path, whatever files hold. `span` picks rows by
    commit time. `predicate` is what is known of the one that rows are filtered by; `steps` say which slices
    of the partitions that it leaves were left out, `left_out` which partitions by their statistics, and
    `indexes` what became of the indexes. `metadata_table`: it said which files there are.
    """

    ref: TableRef
    props: TableProperties
    timeline: Timeline
    slices: tuple[FileSlice, ...]
    context: SliceContext
    path_columns: PathColumns
    span: Span | None = None
    predicate: Node = ANY
    steps: tuple[Step, ...] = ()
    left_out: frozenset[str] = frozenset()
    indexes: tuple[IndexUse, ...] = ()
    metadata_table: bool = False

    @classmethod
    def load(
        cls,
        table: Table,
        query: Query | None = None,
        config: Config | None = None,
        where: Predicate | None = None,
    ) -> TableView:
        """`where` leaves out partitions and files that it rules out; the rows of the others are not filtered.

        Files are listed after the timeline; by the metadata table, where the table has one. One that can't be
        used is a MetadataTableIgnored warning, and the folders are listed. Raises TableNotFound,
        TornProperties, UnsupportedVersion, TableError for a table that can't be read, and ConfigError, which
        says what is there, for a query that the table can't answer, and for files of other formats.
        """
        query, config = query or Query(), config or Config()
        check_features(table.properties, "read", "read", Feature.OTHER_BASE_FILES, Feature.OTHER_FORMAT)
        try:
            return cls._by_either(table, query, config, where)
        except TableBusy:
            former = table.timeline.layout
            table.reopen()  # its version may have changed
            if table.timeline.layout is former:
                raise
        return cls._by_either(table, query, config, where)

    @classmethod
    def _by_either(cls, table: Table, query: Query, config: Config, where: Predicate | None) -> TableView:
        try:
            return cls._load(table, query, config, where, for_queries(table, config))
        except MetadataTableUnavailable as why:
            found = cls._load(table, query, config, where, None)
            ignored(table, f"{why}; its folders are listed instead")
            return found

    @classmethod
    def _load(
        cls,
        table: Table,
        query: Query,
        config: Config,
        where: Predicate | None,
        metadata: MetadataTable | None,
    ) -> TableView:
        seen = _seen(table, query, config, where, metadata)
        if seen is None:
            return cls.load(table, query, config, where)
        storage, props, found = table.storage, table.properties, list(seen.slices)
        table_schema, text, span = seen.schema, seen.schema.avro, seen.span
        warn_of_unknown(props)
        check_sources(storage, found)
        table_schema.check_read_fields(props, merged=any(file_slice.logs for file_slice in found))
        schema, path_columns = read_schema(props, text, found, storage, config[FROM_PATH])
        made: Merger | None = None
        if any(file_slice.logs for file_slice in found):
            check_mergeable(table.base_path, props, text)
            made = table_merger(props, config, without_meta(schema))
            found = _without_old_rows(found, made, span)
        node = _bound(where, schema)
        context = SliceContext(
            schema=schema,
            snapshot=seen.snapshot,
            merger=made,
            ordering=props.precombine_field,
            budget=config[MERGE_BUDGET],
            spill_path=config[SPILL_PATH] or "",
            evolution=table_schema.evolution,
        )
        skipping = Skipping(
            table=table,
            metadata=metadata if config[DATA_SKIPPING] else None,
            node=node,
            path_columns=path_columns,
            context=context,
            filtered=where is not None,
            no_places=_no_places(query, config),
            reason="" if config[DATA_SKIPPING] else f"{DATA_SKIPPING.name}=false",
        )
        left, steps, indexes = skipping.left(found)
        return cls(
            ref=table.ref,
            props=props,
            timeline=table.timeline,
            slices=tuple(left),
            context=context,
            path_columns=path_columns,
            span=span,
            predicate=node,
            steps=steps,
            left_out=seen.left_out,
            indexes=(*seen.indexes, *indexes),
            metadata_table=metadata is not None,
        )

    @property
    def base_path(self) -> str:
        return self.ref.uri

    @property
    def schema(self) -> pa.Schema:
        return self.context.schema

    @property
    def files(self) -> tuple[BaseFile, ...]:
        """Base files that have the rows of their slices as they are."""
        return tuple(item.base for item in self.plain if item.base is not None)

    @property
    def plain(self) -> list[FileSlice]:
        """The slices of `files`."""
        return [item for item in self.slices if self._plain(item)]

    @property
    def merged(self) -> tuple[FileSlice, ...]:
        """Slices whose rows are put together: those with logs, skeletons, files of other column names."""
        return tuple(item for item in self.slices if not self._plain(item))

    def moved(self, item: FileSlice) -> bool:
        """May the slice's base file have columns of other names."""
        evolution = self.context.evolution
        return evolution is not None and item.base is not None and evolution.moved(item.base.instant)

    def _plain(self, item: FileSlice) -> bool:
        return item.plain and not self.moved(item)

    def columns(self, columns: Sequence[str] | None, meta: bool) -> list[str]:
        """Names to return, in the order asked for; one text is one name.

        Raises ConfigError for unknown columns, the same one twice, or none at all.
        """
        if columns is None:
            return list(self.schema.names if meta else without_meta(self.schema).names)
        return chosen(self.schema.names, columns, self.base_path)

    def referenced(self, names: Sequence[str], where: Predicate | None) -> list[str]:
        """Columns to read: those asked for and those that the predicate may look at."""
        wanted = frozenset([*names, *(where.columns(self.schema) if where else ())])
        return [name for name in self.schema.names if name in wanted]


@dataclass(frozen=True)
class _Seen:
    """The slices that a query sees in the partitions that its predicate leaves; `left_out` are those that
    statistics ruled out.
    """

    slices: Sequence[FileSlice]
    snapshot: TimelineView
    schema: TableSchema
    span: Span | None
    left_out: frozenset[str]
    indexes: tuple[IndexUse, ...]


def _seen(
    table: Table, query: Query, config: Config, where: Predicate | None, metadata: MetadataTable | None
) -> _Seen | None:
    """None where the table has changed meanwhile: look again. Raises MetadataTableUnavailable."""
    storage, props, timeline = table.storage, table.properties, table.timeline
    listing = table.listing() if metadata is None else QueryListing(metadata, table.base_path)
    as_of, span = _period(query, config, table)
    by_completion = span is not None and span.by_completion
    touched = _touched(table, span)
    past = None
    if as_of is not None and (span is None or REQUESTED.before(span.begin, span.end)):
        name = "as_of" if span is None else "end"
        past = file_history(table, name, as_of, touched, by_completion)
    snapshot = table.view if as_of is None else TimelineView.of(timeline, storage, as_of, by_completion)
    known_as = as_of if query.type is QueryType.TIME_TRAVEL else None
    schema = TableSchema.load(timeline, storage, props, known_as)
    known, path_columns = read_schema(props, schema.avro, [], storage, config[FROM_PATH])
    node = _bound(where, known)
    wanted = None if node == ANY else partial(possible_folder, node, path_columns)
    partitions = _places(listing, touched, wanted)
    if past is not None:
        partitions = sorted({*partitions, *past.partitions})
    possibly = possible(node, path_columns, partitions)
    skipping = PartitionSkipping(
        table=table,
        metadata=metadata,
        query=query,
        config=config,
        node=node,
        path_columns=path_columns,
        schema=known,
        evolved=schema.evolution is not None,
    )
    partitions, indexes = skipping.left(possibly)
    left_out = frozenset(possibly).difference(partitions)
    listed = listing.many(partitions)
    if past is not None:
        with agreeing(metadata):
            past.check(listed)
    found = _slices(query, snapshot, listed.__getitem__, partitions, touched)
    asked = (partitions, touched, query.type is QueryType.READ_OPTIMIZED)
    checked = asked if config[VERIFY_FILES] else None
    if metadata is not None:
        check_still_there(table)

        def looked_at(more: Sequence[str]) -> list[str]:
            return [name for name in possible(node, path_columns, more) if name not in left_out]

        check_agreement(table, snapshot, found, checked, looked_at)
        checked = None
    if not sound(table, snapshot, found, checked):
        return None
    return _Seen(found, snapshot, schema, span, left_out, indexes)


def _no_places(query: Query, config: Config) -> str:
    if not config[RECORD_INDEX]:
        return f"{RECORD_INDEX.name} is not true"
    if query.type is not QueryType.SNAPSHOT:
        return f"it is of the latest state, and the query is {query.type.value}"
    return ""


def chosen(names: Sequence[str], columns: Sequence[str], base_path: str) -> list[str]:
    """Those of a query's columns that were asked for; see `TableView.columns`."""
    if isinstance(columns, str):
        columns = [columns]
    if not isinstance(columns, Sequence) or not all(isinstance(name, str) for name in columns):
        raise ConfigError(f"columns are {columns!r}; name columns, or leave them out for all of them")
    if not columns or len(set(columns)) < len(columns):
        raise ConfigError(
            f"columns {list(columns)}: name each column once, or leave columns out for all of them"
        )
    there = frozenset(names)
    unknown = [name for name in columns if name not in there]
    if unknown:
        raise ConfigError(
            f"no column {', '.join(unknown)} in {base_path}; it has {', '.join(names)}",
            columns=", ".join(unknown),
        )
    return list(columns)


def query_schema(table: Table, query: Query, config: Config) -> pa.Schema:
    """The schema of a query's rows. Files are listed only where the timeline has none. Raises as `load`."""
    as_of, _ = _period(query, config, table)
    known_as = as_of if query.type is QueryType.TIME_TRAVEL else None
    text = TableSchema.load(table.timeline, table.storage, table.properties, known_as).avro
    if not text:
        return TableView.load(table, query, config).schema
    return read_schema(table.properties, text, [], table.storage, config[FROM_PATH])[0]


def file_schemas(view: TableView, storage: Storage) -> Mapping[BaseFile, pa.Schema]:
    """Schema of the data columns of each of `files`: its commit's, or its footer's when that is archived."""
    by_text: dict[str, pa.Schema] = {}
    by_instant: dict[str, pa.Schema] = {}
    wanted = {file.instant for file in view.files}
    for instant in view.timeline.commits():
        text = _stored_schema(view.timeline, instant, storage) if instant.time in wanted else None
        if text:
            if text not in by_text:
                by_text[text] = without_meta(from_avro(text))
            by_instant[instant.time] = by_text[text]
    out: dict[BaseFile, pa.Schema] = {}
    for file in view.files:
        if file.instant in by_instant:
            out[file] = by_instant[file.instant]
            continue
        with BaseFileReader(storage, file.path) as reader:
            out[file] = without_meta(reader.schema)
    return out


def _stored_schema(timeline: Timeline, instant: Instant, storage: Storage) -> str | None:
    found = head_of(timeline.read(instant, storage))
    return (found or timeline.commit(instant, storage)).schema_text()


def _period(query: Query, config: Config, table: Table) -> tuple[InstantTime | None, Span | None]:
    """(instant of the state to be read, None for the newest; commit times of the rows)"""
    policy = config[HOLES_POLICY]
    if query.type is QueryType.TIME_TRAVEL:
        return last_before_pending(table, policy, query.as_of or NO_TIME), None
    if query.type is not QueryType.INCREMENTAL:
        return None, None
    if config[INCREMENTAL_FORMAT] is IncrementalFormat.CDC:
        raise ConfigError(
            f"{INCREMENTAL_FORMAT.name}=cdc is answered by read_table, read_batches and Spark's batch "
            "reader, not here; leave it out for the rows that were written",
            query=query.type.value,
        )
    props = table.properties
    if not props.populate_meta_fields:
        raise ConfigError(
            f"table {props.name} keeps no meta columns ({properties.POPULATE_META_FIELDS}=false), so that "
            "the time of a row's commit is unknown; it has no incremental queries",
            query=query.type.value,
        )
    if table.layout.version is not LayoutVersion.ONE:
        return _by_completion(query, table)
    last = table.timeline.last_commit
    newest = last.time if last else NO_TIME
    end = last_before_pending(table, policy, min(query.end or newest, newest, key=REQUESTED.key))
    begin = query.begin or NO_TIME
    check_begin(table, begin)
    return end, Span(begin, end)


def _by_completion(query: Query, table: Table) -> tuple[InstantTime | None, Span]:
    """As `_period`, of a table whose incremental queries go by completion times (format.md 15.9): a write in
    flight will be completed later than all that is there.
    """
    newest = next(reversed(completions(table.timeline)), NO_TIME)
    end = min(query.end or newest, newest, key=REQUESTED.key)
    begin = query.begin or NO_TIME
    if not begin:
        return end, Span(begin, end, by_completion=True)
    instants, archived = completed_between(table, begin, end)
    return end, Span(begin, end, instants, by_completion=True, every_group=archived)


def _touched(table: Table, span: Span | None) -> Touched:
    """File groups that the commits of a span wrote to; None where all have to be looked at."""
    if span is None or not span.begin or span.every_group:
        return None
    timeline = table.timeline

    def groups(instant: Instant) -> set[tuple[str, str]]:
        commit = timeline.commit(instant, table.storage)
        return {
            (partition, stat.file_id)
            for partition, stats in commit.partition_to_write_stats.items()
            for stat in stats
        }

    commits = timeline.commits()
    if span.instants is None:
        within = timeline.between(span.begin, span.end, commits)
    else:
        within = [instant for instant in commits if instant.time in span.instants]
    return frozenset(group for instant in within for group in groups(instant))


def _bound(where: Predicate | None, schema: pa.Schema) -> Node:
    return ANY if where is None else where.bound(schema)


def _places(listing: FileListing, touched: Touched, wanted: Possible | None) -> list[str]:
    """Partitions to look at."""
    return listing.partitions(wanted) if touched is None else sorted({place for place, _ in touched})


def _slices(
    query: Query, snapshot: TimelineView, listing: Listing, partitions: Sequence[str], touched: Touched
) -> list[FileSlice]:
    look = _base_slices if query.type is QueryType.READ_OPTIMIZED else merged_slices
    found = [item for partition in partitions for item in look(snapshot, listing, partition)]
    if touched is None:
        return found
    return [item for item in found if (item.partition, item.file_id) in touched]


def _base_slices(snapshot: TimelineView, listing: Listing, partition: str) -> list[FileSlice]:
    return [
        FileSlice(partition, base.file_id, base.instant, base)
        for base in latest_base_files(snapshot, listing, partition)
    ]


def _without_old_rows(slices: list[FileSlice], made: Merger, span: Span | None) -> list[FileSlice]:
    """Slices without base files that a span's rows neither come from nor are merged with."""
    if span is None or span.by_completion or not made.ignores_stored:
        return slices
    return [
        replace(item, base=None)
        if item.logs and item.base and REQUESTED.until(item.base.instant, span.begin)
        else item
        for item in slices
    ]


def read_schema(
    props: TableProperties, text: str | None, slices: Sequence[FileSlice], storage: Storage, asked: bool
) -> tuple[pa.Schema, PathColumns]:
    """(the table's schema, columns that are in paths only included; those in paths, nullable in it)"""
    bases = [item.base for item in slices if item.base is not None]
    if text:
        schema = with_meta(from_avro(text))
    elif bases:
        with open_base(storage, bases[0], pa.schema([])) as reader:
            schema = with_meta(reader.schema)
    else:
        schema = with_meta(pa.schema([]))
    if not props.populate_meta_fields:
        schema = without_meta(schema)
    dropped = props.partition_fields if props.drop_partition_columns else ()
    absent = [pa.field(name, pa.string()) for name in dropped if name not in schema.names]
    schema = pa.schema([*schema, *absent])
    path_columns = PathColumns.of(props, schema, asked)
    fields = [field.with_nullable(field.nullable or field.name in path_columns.types) for field in schema]
    return pa.schema(fields), path_columns
