"""The partition `files` of the metadata table."""

from __future__ import annotations

from collections.abc import Iterable

from hoodie.config.key import Config
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.files import of_clean, of_commit, of_listing, of_rollback
from hoodie.metadata.table import Partition
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.write.participants.metadata import Changed, Making, MetadataPartition
from hoodie.write.participants.metadata.footers import Files


class FilesPartition(MetadataPartition):
    partition = Partition.FILES

    def asked(self, config: Config) -> bool | None:
        return True

    def file_groups(self, making: Making, files: Files) -> int:
        return 1

    def initial(self, making: Making, files: Files) -> Iterable[Records]:
        return [of_listing(files)]

    def changes(self, changed: Changed) -> Iterable[Records] | None:
        """Not of a restore, before which the metadata table went."""
        metadata = changed.commit.metadata
        if isinstance(metadata, CommitMetadata):
            return [of_commit(metadata)]
        if isinstance(metadata, CleanMetadata):
            return [of_clean(metadata)]
        if isinstance(metadata, RollbackMetadata):
            return [of_rollback(metadata, changed.deleted)]
        return None
