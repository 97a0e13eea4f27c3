"""The partitions of the metadata table that are kept up to date. Others are dropped by the first write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hoodie.config.key import Config
from hoodie.metadata.state import begun_indexes, indexes_under_way
from hoodie.metadata.table import EXPRESSION_INDEX, SECONDARY_INDEX, Partition
from hoodie.table.handle import Table
from hoodie.table.properties import TableProperties
from hoodie.write.participants.metadata import ASKED_TO_GO, MetadataPartition
from hoodie.write.participants.metadata.bloom_filters import BloomFiltersPartition
from hoodie.write.participants.metadata.column_stats import ColumnStatsPartition
from hoodie.write.participants.metadata.expression_index import ExpressionIndexPartition
from hoodie.write.participants.metadata.files import FilesPartition
from hoodie.write.participants.metadata.partition_stats import PartitionStatsPartition
from hoodie.write.participants.metadata.record_index import RecordIndexPartition
from hoodie.write.participants.metadata.secondary_index import SecondaryIndexPartition

#: in the order in which they are made
ALL_PARTITIONS: tuple[MetadataPartition, ...] = (
    FilesPartition(),
    BloomFiltersPartition(),
    ColumnStatsPartition(),
    RecordIndexPartition(),
    PartitionStatsPartition(),
)
#: of those of definitions a table may have several
_OF_DEFINITIONS: Mapping[str, Callable[[str], MetadataPartition]] = {
    EXPRESSION_INDEX: ExpressionIndexPartition,
    SECONDARY_INDEX: SecondaryIndexPartition,
}


def partitions_of(names: Iterable[str]) -> list[MetadataPartition]:
    """Those of the names that are kept up to date."""
    wanted = frozenset(names)
    found = [kept for kept in ALL_PARTITIONS if kept.partition.value in wanted]
    for begin, of_definition in _OF_DEFINITIONS.items():
        found += [of_definition(name) for name in sorted(wanted) if name.startswith(begin)]
    return found


def made_of(name: str) -> str | None:
    """The index without which readers can't use an index of this name."""
    if name.startswith(SECONDARY_INDEX):
        return Partition.RECORD_INDEX
    return Partition.COLUMN_STATS if name == Partition.PARTITION_STATS else None


def named(props: TableProperties) -> set[str]:
    """The partitions that a table has, finished or not."""
    return {*props.metadata_partitions, *begun_indexes(props)}


def due_to_go(table: Table, config: Config) -> dict[str, str]:
    """The partitions of a table that a write drops, with the reason of each. All of them where `files` is not
    there, as nothing can be read without.
    """
    begun = {kept.partition.value for kept in begun_partitions(table)}
    under_way, whole = indexes_under_way(table), table.properties.metadata_partitions
    there = named(table.properties) - begun - under_way
    if Partition.FILES.value not in {*whole, *begun}:
        return dict.fromkeys(named(table.properties), "there is no list of files")
    known = {kept.partition.value: kept for kept in partitions_of(there)}
    found = {}
    for name in sorted(there):
        if name not in known or name not in whole:
            found[name] = "it is not kept up to date here"
        elif known[name].asked(config) is False:
            found[name] = ASKED_TO_GO
        elif why := known[name].unfollowed(table, config):
            found[name] = why
    for name in there:
        if (base := made_of(name)) in found:
            found.setdefault(name, f"{base} is dropped, without which it is not used")
    return found


def begun_partitions(table: Table) -> list[MetadataPartition]:
    """Those that are to be made again, by `hoodie.write.participants.metadata_table`, as the properties were
    read. Apache Hudi's indexer names those that it makes in the same way; its instant is pending then.
    """
    begun = begun_indexes(table.properties)
    return partitions_of(set(begun) - indexes_under_way(table)) if begun else []


def to_make(table: Table, config: Config) -> list[MetadataPartition]:
    """Those that a table lacks and the settings ask for, and that can be kept up to date."""
    there = frozenset(table.properties.metadata_partitions)
    return [
        kept
        for kept in ALL_PARTITIONS
        if kept.partition.value not in there and kept.asked(config) and not kept.unfollowed(table, config)
    ]


def left_out(table: Table, config: Config) -> dict[str, str]:
    """Those that the settings name and that a table can't have, with the reason of each."""
    there, found = named(table.properties), dict[str, str]()
    for kept in ALL_PARTITIONS:
        if kept.partition.value not in there and kept.insisted(config):
            why = kept.unfollowed(table, config)
            if why not in ("", ASKED_TO_GO):
                found[kept.partition.value] = why
    return found


def asks_for_index(config: Config) -> list[MetadataPartition]:
    """Those beside the list of files that the settings ask for."""
    return [kept for kept in ALL_PARTITIONS[1:] if kept.asked(config)]
