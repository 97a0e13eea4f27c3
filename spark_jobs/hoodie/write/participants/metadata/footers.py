"""Footers of base files, read once for all partitions of the metadata table that are made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.errors import TableError
from hoodie.format.names import PARQUET, BaseFileName, join
from hoodie.format.parquet_guard import Footer
from hoodie.metadata.partitions.column_stats import FileRanges
from hoodie.storage import Storage
from hoodie.timeline.commit import CommitMetadata

#: sizes of data files by name, by partition path
Files: TypeAlias = Mapping[str, Mapping[str, int]]
_THREADS = 8
#: footers in memory; that of a file of a million rows has 8 MiB of bloom filter
_TOGETHER = 16


@dataclass(frozen=True)
class DataFile:
    """A base file."""

    partition: str
    name: str


@dataclass(frozen=True)
class BaseFooter:
    """`ranges`: what was found in it, by the columns; None where a column has no bounds."""

    file: DataFile
    metadata: pq.FileMetaData
    ranges: dict[frozenset[str], FileRanges | None] = field(default_factory=dict, compare=False)

    @property
    def texts(self) -> dict[str, str]:
        """The footer's own entries."""
        found = self.metadata.metadata or {}
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in found.items()}


def listed(files: Files) -> Iterator[DataFile]:
    """The base files among those of a table."""
    for partition, names in files.items():
        yield from (DataFile(partition, name) for name in names if is_base(name))


def written(metadata: CommitMetadata) -> Iterator[DataFile]:
    """The base files that a commit writes."""
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            if is_base(stat.file_name):
                yield DataFile(partition, stat.file_name)


def is_base(name: str) -> bool:
    return name.endswith(PARQUET) and BaseFileName.parse(name) is not None


def footers(storage: Storage, base_path: str, files: Iterator[DataFile]) -> Iterator[Sequence[BaseFooter]]:
    """Some files at a time, read side by side. Raises TableError for one that is damaged, and
    FileNotFoundError.
    """

    def read(file: DataFile) -> BaseFooter:
        path = join(base_path, file.partition, file.name)
        opened: Any = storage.open_input(path)
        with pa.PythonFile(opened, "r") as source:
            try:
                return BaseFooter(file, Footer(source).metadata())
            except (ValueError, pa.ArrowException) as error:
                raise TableError(
                    f"base file {path} is damaged: {error}; restore it from a copy, or take the table back "
                    "to a state without it (hoodie restore)",
                    path=path,
                ) from None

    with ThreadPoolExecutor(_THREADS) as pool:
        while some := list(islice(files, _TOGETHER)):
            yield list(pool.map(read, some))
