"""A metadata table that commits from here can't keep up to date: it is removed before they begin."""

from __future__ import annotations

from collections.abc import Mapping

from hoodie.format.names import join
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.table.participant import CommitParticipant
from hoodie.timeline.active import meta_path

_KEYS = (properties.METADATA_PARTITIONS, properties.METADATA_PARTITIONS_INFLIGHT)
_FOLDER = "metadata"


class MetadataTableRemoval(CommitParticipant):
    """Follows a commit by having no metadata table; `removed`: there was one."""

    removed = False

    def begin(self, table: Table) -> None:
        self.removed |= drop_metadata_table(table)


def has_metadata_table(table: Table) -> bool:
    """By the listing of `.hoodie`, or by the properties: those that named none when the table was opened are
    not read again.
    """
    if table.timeline.holds(_FOLDER):
        return True
    return _named(table.properties) and _named(table.read_properties())


def drop_metadata_table(table: Table) -> bool:
    """Was there one. Properties first: readers that see the entry gone list the folders themselves."""
    if not has_metadata_table(table):
        return False
    properties.update(table.storage, table.base_path, dict.fromkeys(_KEYS))
    table.storage.delete_tree(join(meta_path(table.base_path), _FOLDER))
    table.reopen()
    return True


def _named(props: Mapping[str, str]) -> bool:
    return any(props.get(name) for name in _KEYS)
