"""A metadata table as queries use it: one with an error is `MetadataTableUnavailable`, and queries list
folders instead.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence

from hoodie.config.key import Config
from hoodie.errors import InputError, TableError
from hoodie.mask import masked
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.settings import METADATA_ENABLE
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.storage import FileInfo
from hoodie.table.handle import Table, TableRef
from hoodie.table.listing import Possible


class MetadataTableUnavailable(Exception):
    """A metadata table can't be used; the text says why."""


class MetadataTableIgnored(UserWarning):
    """A query, or the look-up of keys, did without the metadata table, or without an index in it."""


@contextlib.contextmanager
def using() -> Iterator[None]:
    """Turns errors of reading a metadata table into MetadataTableUnavailable."""
    try:
        yield
    except FileNotFoundError as error:
        raise MetadataTableUnavailable(f"its file {error.filename or error} is gone") from None
    except (TableError, InputError) as error:
        raise MetadataTableUnavailable(error.message) from None


def ignored(table: Table | TableRef, why: str) -> None:
    path = table.ref.uri if isinstance(table, Table) else table.uri
    text = masked(f"the metadata table of {path} can't be used: {why}")
    warnings.warn(MetadataTableIgnored(text), stacklevel=2)


def for_queries(table: Table, config: Config) -> MetadataTable | None:
    """The table's metadata table, as of the table's timeline; None where there is none, or queries are not to
    use it. Raises MetadataTableUnavailable.
    """
    if config[METADATA_ENABLE] is False or not _named(table.properties.metadata_partitions):
        return None
    table.timeline  # noqa: B018  what is wrong with it is not the metadata table's fault
    with using():
        metadata = MetadataTable.open(table)
    if metadata is not None and metadata.lacks:
        raise MetadataTableUnavailable(f"it lacks instant {metadata.lacks}")
    return metadata


def check_still_there(table: Table) -> None:
    """Raises MetadataTableUnavailable where the metadata table is being removed: its entry in the properties
    goes first, so that what was read before the entry is seen here was whole.
    """
    with using():
        texts = Table(table.ref, table.storage).read_properties()
    if not _named(texts.metadata_partitions):
        raise MetadataTableUnavailable("it was removed meanwhile")


class QueryListing(MetadataListing):
    """Raises MetadataTableUnavailable."""

    def partitions(self, possible: Possible | None = None) -> list[str]:
        with using():
            return super().partitions(possible)

    def many(self, partitions: Iterable[str]) -> dict[str, Sequence[FileInfo]]:
        with using():
            return super().many(partitions)


def _named(partitions: Sequence[str]) -> bool:
    return Partition.FILES.value in partitions
