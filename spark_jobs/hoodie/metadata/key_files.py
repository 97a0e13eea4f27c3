"""Which base files may have some record keys, as the metadata table knows it: the range of a file's keys by
the statistics of their column, then its bloom filter. No base file is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoodie.codec.arrays import Array, Bools
from hoodie.format.bloom import KeyHashes, in_range
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.metadata.bloom_filters import bloom_filters
from hoodie.metadata.column_stats import ColumnStats, File, column_stats
from hoodie.metadata.records.column_ranges import STRING
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.metadata.text_bounds import text_bounds


@dataclass(frozen=True)
class KeyFiles:
    """`ranges`: whether the statistics are asked, where the metadata table has them. Picklable."""

    metadata: MetadataTable
    ranges: bool = True

    def possible(self, files: Sequence[File], keys: Array, hashes: KeyHashes) -> dict[File, bool]:
        """Whether a base file may have one of the keys, `hashes` are theirs; files that the metadata table
        can't tell of are not there. Memory: some filters at a time.

        Raises TableError, and FileNotFoundError for a metadata table that is being changed.
        """
        bounds = self._bounds(files)
        found = {file: False for file, ends in bounds.items() if not in_range(keys, *ends).any()}
        left = [file for file in files if file not in found]
        for file, bloom in bloom_filters(self.metadata, left):
            mask: Bools | None = in_range(keys, *bounds[file]) if file in bounds else None
            found[file] = bloom.any_might_contain(hashes, mask)
        return found

    def _bounds(self, files: Sequence[File]) -> dict[File, tuple[str, str | None]]:
        if not self.ranges or Partition.COLUMN_STATS.value not in self.metadata.partitions:
            return {}
        found = column_stats(self.metadata, [RECORD_KEY], files)
        whole = {file: stats[0] for (file, _), stats in found.items() if _is_whole(stats)}
        return {file: text_bounds(stats.low, stats.high) for file, stats in whole.items()}


def _is_whole(stats: Sequence[ColumnStats]) -> bool:
    """Do they bound all keys. Keys are never null: where a row group has no statistics, since a key is long,
    Apache Hudi counts nulls of -1.
    """
    if len(stats) != 1 or stats[0].kind != STRING:
        return False
    there = stats[0].low is not None and stats[0].high is not None
    return there and bool(stats[0].values) and stats[0].nulls == 0
