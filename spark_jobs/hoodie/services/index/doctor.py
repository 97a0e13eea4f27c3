"""The findings of `hoodie doctor` about a table's metadata table: does it agree with the table.

The files that it lists are compared with the folders. The records of its other indexes are compared with
those that the data files would give now. Memory: the names of the table's files; of an index, the records of
some files, and the keys of one of its file groups.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import pc, whole
from hoodie.config import versions
from hoodie.config.key import Config
from hoodie.errors import HoodieError, InputError, TableError
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.format.log_file import LogFileReader
from hoodie.format.meta_fields import with_meta, without_meta
from hoodie.format.names import LogFileName, join
from hoodie.format.schema import from_avro
from hoodie.metadata.index_definitions import index_definitions, is_of_each_partition
from hoodie.metadata.keys import column_key
from hoodie.metadata.merging import fields_of
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import BYTES
from hoodie.metadata.partitions.column_stats import STATS, ColumnStats, decoded
from hoodie.metadata.partitions.expression_index import FILTERS
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.partitions.partition_stats import PARTITION_TYPE
from hoodie.metadata.partitions.record_index import file_ids, last_places
from hoodie.metadata.settings import COLUMN_STATS_COLUMNS
from hoodie.metadata.table import DEFINED, EXPRESSION_INDEX, SECONDARY_INDEX, MetadataTable, Partition
from hoodie.read.bounds import comparable
from hoodie.read.column_bounds import stored_decimal
from hoodie.table.checkup import ERROR, NOTE, OK, WARNING, Finding
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.view import FileSlice, TimelineView, file_slices, merged_slices
from hoodie.write.participants.metadata import MetadataPartition, schema_of
from hoodie.write.participants.metadata.expression_index import ExpressionIndexPartition, missing_results
from hoodie.write.participants.metadata.footers import Files
from hoodie.write.participants.metadata.initialization import initial_records, making_now
from hoodie.write.participants.metadata.registry import partitions_of

#: without a record there a key is taken for a new one; the others are asked again in the file itself
MISSING_LOSES = frozenset({Partition.RECORD_INDEX})


def differing(partition: Partition, truth: Any, said: Any) -> Iterable[int]:
    """The places of those of the stored records `said` by which a file is left out, or a record looked for,
    wrongly. `truth` has the records of the same keys, in the same order.
    """
    if partition.startswith(EXPRESSION_INDEX):
        return _wrong_joined(truth, said)
    return (
        _wrong_keys(truth, said)
        if partition.startswith(SECONDARY_INDEX)
        else _COMPARED[partition](truth, said)
    )


def described(partition: Partition, key: Any, truth: Any, said: Any = None) -> str:
    """What a record is of, and which place is stored instead. Each is an array of one."""
    if partition == Partition.COLUMN_STATS or partition.startswith(EXPRESSION_INDEX):
        return f"column {truth.field('columnName')[0]} of {truth.field('fileName')[0]}"
    if partition == Partition.RECORD_INDEX and said is not None:
        home, away = (item.field("partitionName")[0].as_py() or "." for item in (truth, said))
        return f"a key in {home} {file_ids(truth)[0]} is said to be in {away} {file_ids(said)[0]}"
    return f"key {key[0].as_py()!r}"


def _wrong_filters(truth: Any, said: Any) -> Iterable[int]:
    right, stored = truth.field("bloomFilter").to_pylist(), said.to_pylist()
    for place, (filter_, record) in enumerate(zip(right, stored, strict=True)):
        if record is None or record["isDeleted"] or record["bloomFilter"] != filter_:
            yield place


def _wrong_places(truth: Any, said: Any) -> Iterable[int]:
    same = pc.and_(
        pc.equal(truth.field("partitionName"), said.field("partitionName")),
        pc.equal(file_ids(truth), file_ids(said)),
    )
    return np.flatnonzero(np.asarray(pc.invert(pc.fill_null(same, False))))


def _wrong_stats(truth: Any, said: Any, of_bytes: bool = True) -> Iterable[int]:
    """of_bytes: bounds of bytes are compared, too."""
    marks = [None] * len(truth)
    pairs = zip(decoded(truth, marks), decoded(said, marks), strict=True)
    for place, ((_, _, _, right), (_, _, deleted, stored)) in enumerate(pairs):
        if not of_bytes and BYTES in (right.kind, stored.kind):
            stored = replace(stored, low=None, high=None)
        if deleted or _narrower(stored, right):
            yield place


def _wrong_keys(_: Any, said: Any) -> Iterable[int]:
    """Of secondary indexes: those that are said to be deleted."""
    return np.flatnonzero(np.asarray(pc.fill_null(said.field("isDeleted"), True)))


def _wrong_joined(truth: Any, said: Any) -> Iterable[int]:
    """Apache Hudi orders bytes of log records as signed numbers. No query here goes by bounds of bytes."""
    return _wrong_stats(truth, said, of_bytes=False)


def _of_base_files(rows: pa.Table, column: str) -> pa.Table:
    """Statistics of a log file are made here of all rows of its slice, and Apache Hudi's of its own rows."""
    records: Any = whole(rows.column(column))
    names = records.field("fileName")
    return rows.filter(pc.invert(pc.starts_with(names, ".")))


_COMPARED = {
    Partition.COLUMN_STATS: _wrong_stats,
    Partition.PARTITION_STATS: _wrong_joined,
    Partition.BLOOM_FILTERS: _wrong_filters,
    Partition.RECORD_INDEX: _wrong_places,
}


def _narrower(stored: ColumnStats, right: ColumnStats) -> bool:
    """Do the stored statistics leave out values that the file has."""
    if (stored.values == 0 and right.values) or (stored.nulls == 0 and right.nulls):
        return True
    if stored.low is None or stored.high is None or right.low is None or right.high is None:
        return False
    ends = [_comparable(value) for value in (stored.low, right.low, right.high, stored.high)]
    if any(isinstance(value, bytes) for value in ends) and any(isinstance(value, Decimal) for value in ends):
        scale = stored.scale
        ends = [stored_decimal(value, scale) if isinstance(value, bytes) else value for value in ends]
    try:
        return bool(ends[0] > ends[1] or ends[2] > ends[3])
    except TypeError:
        return True


def _comparable(value: Any) -> Any:
    """Days and microseconds as numbers, which Apache Hudi's compaction of a metadata table makes of them."""
    if isinstance(value, dt.date):
        return comparable(value)
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value


@dataclass(frozen=True)
class Disagreement:
    """What an index says otherwise than the table. loses: queries or writes that go by it take other rows
    than the table has.
    """

    index: str
    loses: bool
    text: str


def compare(table: Table, metadata: MetadataTable, config: Config, deep: bool) -> Iterator[Disagreement]:
    """The list of files against the folders; `deep`: also the indexes beside it against the data files."""
    listing, walked = MetadataListing(metadata, table.base_path), table.listing()
    yield from _compare_files(table, listing, walked)
    if deep:
        yield from _compare_indexes(table, metadata, config, _files(listing, walked))


def _compare_files(table: Table, listing: FileListing, walked: FileListing) -> Iterator[Disagreement]:
    """Every data file of the timeline's commits, and every one that is listed, by its size."""
    view, index = table.view, Partition.FILES.value
    partitions = sorted({*walked.partitions(), *listing.partitions()})
    listing.many(partitions)  # one look at the index for all of them
    for partition in partitions:
        there = {item.name: item.size for item in walked.files(partition) if not item.is_dir}
        listed = {item.name: item.size for item in listing.files(partition)}
        needed = _sizes(merged_slices(view, walked.files, partition))
        offered = _sizes(merged_slices(view, listing.files, partition))
        groups = file_slices(view, walked.files, partition).values()
        for name, size in _sizes([item for group in groups for item in group]).items():
            path = join(partition, name)
            if listed.get(name) == size or not _has_rows(table, path, view):
                continue
            said = (
                f"is listed with {listed[name]} bytes and has {size}" if name in listed else "is not listed"
            )
            yield Disagreement(index, name in needed, f"{path} is committed, and {said}")
        for name in listed.keys() - there.keys():
            yield Disagreement(index, name in offered, f"{join(partition, name)} is listed, and not there")


def _compare_indexes(
    table: Table, metadata: MetadataTable, config: Config, files: Files
) -> Iterator[Disagreement]:
    """Each base file is read as far as the index needs it."""
    for kept in partitions_of(metadata.partitions):
        if kept.partition.startswith(DEFINED):
            yield from _compare_defined(table, metadata, config, files, kept)
        elif kept.partition in _COMPARED:
            counts = _Counts(kept.partition)
            asked = config
            if kept.partition == Partition.COLUMN_STATS:
                asked = _with_indexed_columns(table, metadata, config)
            for records in initial_records(table, asked, kept, files):
                counts.add_of(metadata, records)
            if kept.partition == Partition.RECORD_INDEX and not _has_no_groups(table, files):
                counts.stored = _live(metadata, kept.partition)
            yield from counts.found()


def _has_no_groups(table: Table, files: Files) -> bool:
    """Is the record index one of each partition of a table that has none."""
    later = table.layout.has_completion_time and not any(files.values())
    return later and is_of_each_partition(index_definitions(table))


def _compare_defined(
    table: Table, metadata: MetadataTable, config: Config, files: Files, kept: MetadataPartition
) -> Iterator[Disagreement]:
    """An index of a column, as far as its results are known here."""
    name = kept.partition.value
    if kept.unfollowed(table, config):
        return
    if name.startswith(SECONDARY_INDEX):
        keys = _Counts(kept.partition, missing_loses=True)
        for records in initial_records(table, config, kept, files):
            keys.add(metadata, records.rows)
        keys.stored = _live(metadata, kept.partition)
        yield from keys.found()
    elif index_definitions(table)[name].kind == FILTERS:
        for partition, file in missing_results(making_now(table, config), name, files, metadata):
            yield Disagreement(name, True, f"the filter of {join(partition, file)} in {name} lacks results")
    else:
        of_files, of_partitions = _Counts(kept.partition), _Counts(kept.partition, missing_loses=True)
        certain = ExpressionIndexPartition(name, certain=True)
        for records in initial_records(table, config, certain, files):
            whole_files = _of_base_files(_of_rows(records.rows), STATS)
            joined = pc.equal(whole_files.column("type"), PARTITION_TYPE)
            of_files.add(metadata, whole_files.filter(pc.invert(joined)))
            of_partitions.add(metadata, whole_files.filter(joined))
        yield from (*of_files.found(), *of_partitions.found())


def _of_rows(rows: pa.Table) -> pa.Table:
    """Statistics of files that have some: Apache Hudi has none of others in an index of an expression."""
    records: Any = whole(rows.column(STATS))
    return rows.filter(pc.greater(records.field("valueCount"), 0))


def _with_indexed_columns(table: Table, metadata: MetadataTable, config: Config) -> Config:
    """With the columns that the index has statistics of in some file: it may have been made of a few, and
    nothing says which. As it is where the settings name columns, or the index has none that is known.
    """
    schema = schema_of(table)
    if config[COLUMN_STATS_COLUMNS] or schema is None:
        return config
    length, begins = len(column_key("")), set[str]()
    for item in metadata.slices(Partition.COLUMN_STATS):
        keys: Any = metadata.records(item, lambda reader: reader.scan(), []).column(KEY_FIELD)
        begins.update(pc.unique(pc.utf8_slice_codeunits(keys.cast(pa.string()), 0, length)).to_pylist())
    names = [
        name for name in _paths(with_meta(without_meta(from_avro(schema)))) if column_key(name) in begins
    ]
    if not names or any("," in name for name in names):
        return config
    return Config.of({**config.texts, COLUMN_STATS_COLUMNS.name: ",".join(names)})


def _paths(fields: Iterable[pa.Field[Any]], above: str = "") -> Iterator[str]:
    """Of columns, and of the parts of structs."""
    for field in fields:
        path = f"{above}{field.name}"
        yield path
        if isinstance(field.type, pa.StructType):
            yield from _paths(field.type, f"{path}.")


@dataclass
class _Counts:
    """Of the records of one index: `stored` are all that it has, where it has one for each record key.
    missing_loses: queries that find none take other rows than the table has. missing, wrong: the first one of
    those that are counted, as a text.
    """

    partition: Partition
    expected: int = 0
    stored: int | None = None
    missing_loses: bool = False
    missing: str = ""
    wrong: str = ""
    num_missing: int = 0
    num_wrong: int = 0

    def add_of(self, metadata: MetadataTable, records: Records) -> None:
        """Of an index of each partition the keys of each partition by themselves."""
        if records.rows_in is None:
            if records.rows.num_rows:
                self.add(metadata, records.rows)
            return
        groups = metadata.record_index_slices()
        for partition in pc.unique(records.rows_in).to_pylist():
            mine = records.rows.filter(pc.equal(records.rows_in, partition))
            last: Any = pa.array(last_places(whole(mine.column(KEY_FIELD))))
            self.add(metadata, mine.take(last), groups.get(partition, []))

    def add(self, metadata: MetadataTable, rows: pa.Table, groups: Sequence[FileSlice] | None = None) -> None:
        """`groups`: the file groups that can have the keys, where not all of the index can."""
        column = fields_of(self.partition)[0]
        if self.partition == Partition.COLUMN_STATS:
            rows = _of_base_files(rows, column)
        keys: Any = whole(rows.column(KEY_FIELD))
        by_key = not self.partition.startswith(SECONDARY_INDEX)
        slices = metadata.slices(self.partition) if groups is None else groups
        there = metadata.look_up_in([slices], keys, [column], hashed=by_key)
        found = _newest(there, column)
        places = pc.index_in(keys, value_set=whole(found.column(KEY_FIELD)))
        known = places.is_valid()
        records: Any = whole(rows.column(column))
        self.expected += len(keys)
        if known.false_count:
            place = pa.array([pc.index(known, False).as_py()])
            self.missing = self.missing or described(self.partition, keys.take(place), records.take(place))
            self.num_missing += known.false_count
        if known.true_count:
            there, truth = keys.filter(known), records.filter(known)
            said: Any = whole(found.column(column)).take(places.filter(known))
            self._compare(there, truth, said)

    def _compare(self, keys: Any, truth: Any, said: Any) -> None:
        places = pa.array(differing(self.partition, truth, said), pa.int64())
        first = places[:1]
        if len(places) and not self.wrong:
            self.wrong = described(self.partition, *(item.take(first) for item in (keys, truth, said)))
        self.num_wrong += len(places)

    def found(self) -> Iterator[Disagreement]:
        name = self.partition.value
        if self.num_wrong:
            text = f"{self.num_wrong} records of {name} say otherwise than the files: {self.wrong}"
            yield Disagreement(name, True, text)
        if self.num_missing:
            text = f"{self.num_missing} records of {name} are missing: {self.missing}"
            yield Disagreement(name, self.missing_loses or self.partition in MISSING_LOSES, text)
        more = 0 if self.stored is None else self.stored - (self.expected - self.num_missing)
        if more > 0:
            text = f"{more} keys of {name} are of no record in the table"
            yield Disagreement(name, False, text)


def _newest(tables: Sequence[pa.Table], column: str) -> pa.Table:
    """The last record of each key."""
    if not tables:
        return pa.table({KEY_FIELD: pa.array([], pa.string()), column: pa.nulls(0)})
    rows = pa.concat_tables(tables)
    last: Any = pa.array(last_places(whole(rows.column(KEY_FIELD))))
    return rows.take(last)


def _live(metadata: MetadataTable, partition: Partition) -> int:
    """Keys that have a record."""
    count = 0
    of_keys = partition == Partition.RECORD_INDEX
    groups = metadata.record_index_slices().values() if of_keys else [metadata.slices(partition)]
    for item in chain.from_iterable(groups):
        rows = metadata.records(item, lambda reader: reader.scan(), [])
        count += len(pc.unique(rows.column(KEY_FIELD)))
    return count


def _files(listing: FileListing, walked: FileListing) -> Files:
    """Those that are listed, and there."""
    found: dict[str, Mapping[str, int]] = {}
    for partition in listing.partitions():
        there = {item.name for item in walked.files(partition)}
        found[partition] = {item.name: item.size for item in listing.files(partition) if item.name in there}
    return found


def _sizes(slices: Sequence[FileSlice]) -> dict[str, int]:
    bases = {item.base.name: item.base.size for item in slices if item.base}
    return bases | {log.name: log.size for item in slices for log in item.logs}


def _has_rows(table: Table, path: str, view: TimelineView) -> bool:
    """False of a log file in which no block is of a completed write."""
    if LogFileName.parse(path.rpartition("/")[2]) is None:
        return True
    with LogFileReader(table.storage, join(table.base_path, path)) as log:
        return any(block.instant is not None and view.shows(block.instant) for block in log.blocks())


_CHECK = "metadata table"
_BY_HUDI = "delete it with Apache Hudi (call delete_metadata_table), whose next write makes it anew"
#: findings of one look
_LISTED = 100
#: looks at a table that changes meanwhile
_ROUNDS = 3


def check_metadata_table(path: str, deep: bool, options: Mapping[str, Any]) -> list[Finding]:
    """Its list of files against the folders; `deep`: also its other indexes against the data files. None
    where the table has none, or base files that are not Parquet. Raises nothing: what can't be read is a
    finding.
    """
    config = Config.of(options)
    try:
        for _ in range(_ROUNDS):
            table = Table.open(path, config)
            before = table.timeline
            props = table.properties
            if Partition.FILES.value not in props.metadata_partitions or props.base_file_format != "PARQUET":
                return []
            found = list(islice(_findings(table, deep, config), _LISTED))
            if all(item.status == OK for item in found) or before.instants == table.refresh().instants:
                return found
    except (HoodieError, OSError) as error:
        return [Finding(_CHECK, ERROR, str(error))]
    text = "whether it agrees with the table is not known: the table changes while it is looked at"
    return [Finding(_CHECK, NOTE, text, "run hoodie doctor again while no process writes")]


def _findings(table: Table, deep: bool, config: Config) -> Iterator[Finding]:
    here = versions.is_writable(table.properties.version)
    remedy = f"hoodie index rebuild --table {table.base_path}" if here else _BY_HUDI
    try:
        metadata = MetadataTable.open(table)
        assert metadata is not None
        if metadata.lacks:
            text = f"it lacks instant {metadata.lacks}: queries list the folders instead"
            yield Finding(_CHECK, WARNING, text, remedy)
            return
        clean = True
        for item in compare(table, metadata, config, deep):
            clean = False
            one = here and item.index != Partition.FILES.value
            why = f"{remedy} --indexes {item.index}" if one else remedy
            status = ERROR if item.loses else WARNING
            yield Finding(_CHECK, status, item.text, why)
    except (TableError, InputError, FileNotFoundError) as error:
        text = error.message if isinstance(error, HoodieError) else f"{error.filename or error} is gone"
        said = f"it can't be read: {text}"
        yield Finding(_CHECK, ERROR, said, remedy)
        return
    if clean:
        what = "agree with the table's files" if deep else "lists the files that are there"
        names = ", ".join(sorted(metadata.partitions))
        yield Finding(_CHECK, OK, f"{names}: {what}" if deep else f"it {what}")
