"""What a new table has in `.hoodie`, by its version: the properties that nobody gave, and the folders.

Writers give the version; a table that is made without one is of the earliest.
Standard library only. Source: format.md sections 0, 1.4, 15.1, 15.2; Apache Hudi 0.15.0 and 1.2.0
HoodieTableMetaClient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hoodie.config import versions
from hoodie.config.versions import LayoutVersion
from hoodie.table.merge_rule import (
    DEFAULT_MERGER_STRATEGY,
    DEFAULT_PAYLOAD_CLASS,
    MERGER_STRATEGY,
    PAYLOAD_CLASS,
)

_TYPE = "hoodie.table.type"
_VERSION = "hoodie.table.version"
_ARCHIVE_FOLDER = "hoodie.archivelog.folder"

_DEFAULTS = {
    "hoodie.database.name": "",
    _TYPE: "COPY_ON_WRITE",
    _VERSION: str(versions.EARLIEST.number),
    "hoodie.timeline.layout.version": str(LayoutVersion.ONE.value),
    _ARCHIVE_FOLDER: "archived",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.populate.meta.fields": "true",
    "hoodie.table.cdc.enabled": "false",
    "hoodie.table.timeline.timezone": "LOCAL",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.partition.metafile.use.base.format": "false",
}
_MOR_DEFAULTS = {PAYLOAD_CLASS: DEFAULT_PAYLOAD_CLASS, MERGER_STRATEGY: DEFAULT_MERGER_STRATEGY}
#: since version 8
_LATER_DEFAULTS = {
    "hoodie.timeline.layout.version": str(LayoutVersion.TWO.value),
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    _ARCHIVE_FOLDER: "history",
    "hoodie.table.format": "native",
    "hoodie.table.multiple.base.file.formats.enable": "false",
}

#: in Apache Hudi's order
_FOLDERS = (
    ".schema",
    "{archive}",
    ".temp",
    ".aux",
    ".aux/.bootstrap/.partitions",
    ".aux/.bootstrap/.fileids",
)
_LATER_FOLDERS = (".schema", "timeline", "timeline/history", *_FOLDERS[2:])


def complete(props: Mapping[str, str]) -> dict[str, str]:
    """The properties, and the defaults of those that are not given."""
    texts = {**_DEFAULTS, **props}
    if _is_later(texts):
        return {**_DEFAULTS, **_LATER_DEFAULTS, "hoodie.table.initial.version": texts[_VERSION], **props}
    return {**_MOR_DEFAULTS, **texts} if texts[_TYPE] == "MERGE_ON_READ" else texts


def folders(texts: Mapping[str, str]) -> Iterator[str]:
    """Those inside `.hoodie` of a table with these properties, in the order in which they are made."""
    for name in _LATER_FOLDERS if _is_later(texts) else _FOLDERS:
        yield name.format(archive=texts[_ARCHIVE_FOLDER])


def _is_later(texts: Mapping[str, str]) -> bool:
    return not versions.is_of_layout(int(texts[_VERSION]), LayoutVersion.ONE)
