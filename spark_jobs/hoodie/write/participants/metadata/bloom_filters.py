"""The partition `bloom_filters` of the metadata table: those of the record keys in base files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from hoodie.config.key import Config
from hoodie.format.bloom import BLOOM_FILTER_KEY, BLOOM_TYPE_KEY, LEGACY_BLOOM_FILTER_KEY
from hoodie.format.settings import BloomType
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.bloom_filters import Filter, deleted_filters, filter_records
from hoodie.metadata.settings import BLOOM_FILTER_ENABLE, BLOOM_FILTER_GROUPS
from hoodie.metadata.table import Partition
from hoodie.write.participants.metadata import Changed, Making, MetadataPartition, Moment
from hoodie.write.participants.metadata.footers import BaseFooter, Files, is_base


class BloomFiltersPartition(MetadataPartition):
    """A file without a filter in its footer has no record: it is looked into."""

    partition = Partition.BLOOM_FILTERS
    reads_footers = True

    def asked(self, config: Config) -> bool | None:
        return config[BLOOM_FILTER_ENABLE]

    def file_groups(self, making: Making, files: Files) -> int:
        return making.config[BLOOM_FILTER_GROUPS]

    def changes(self, changed: Changed) -> Iterable[Records]:
        return _of_gone(changed, changed.deleted)

    def caught_up(self, then: Moment, now: Moment) -> Iterable[Records]:
        return _of_gone(now.making, now.lacks(then))

    def of_base_files(self, making: Making, files: Sequence[BaseFooter]) -> Records:
        found = []
        for item in files:
            texts = item.texts
            text = texts.get(BLOOM_FILTER_KEY) or texts.get(LEGACY_BLOOM_FILTER_KEY)
            if text:
                kind = texts.get(BLOOM_TYPE_KEY, BloomType.SIMPLE.value)
                found.append(Filter(item.file.partition, item.file.name, text, kind))
        return filter_records(making.instant, found)


def _of_gone(making: Making, files: Mapping[str, Collection[str]]) -> list[Records]:
    """Of files that were deleted: names by partition path."""
    gone = [(partition, name) for partition, names in files.items() for name in names if is_base(name)]
    return [deleted_filters(making.instant, gone, making.data.layout.version)] if gone else []
