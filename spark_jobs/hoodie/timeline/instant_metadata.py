"""What the completed file of an instant says, of whichever action: for callers that follow all of them."""

from __future__ import annotations

from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.timeline.models.indexing import IndexMetadata
from hoodie.timeline.models.restore import RestoreMetadata
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata
from hoodie.timeline.models.savepoint import SavepointMetadata

#: of commits of writes, compactions and clusterings, and of the other actions in the order of their names
Metadata = (
    CommitMetadata | CleanMetadata | RestoreMetadata | RollbackMetadata | SavepointMetadata | IndexMetadata
)


def deleted_files(metadata: Metadata) -> dict[str, frozenset[str]]:
    """Names of the data files that a clean, a rollback or a restore deleted, by partition path.

    Files that another process had deleted before are among them: an action that is repeated after a kill
    names what it planned to delete.
    """
    found: dict[str, frozenset[str]] = {}
    if isinstance(metadata, CleanMetadata):
        for path, cleaned in metadata.partitions.items():
            found[path] = frozenset(cleaned.deleted)
    for rollback in _rollbacks(metadata):
        for path, undone in rollback.partitions.items():
            names = (file.rpartition("/")[2] for file in undone.deleted)
            found[path] = found.get(path, frozenset()).union(names)
    return {path: names for path, names in found.items() if names}


def instants_rolled_back(metadata: Metadata) -> tuple[InstantInfo, ...]:
    """The instants that a rollback or a restore took back."""
    if isinstance(metadata, (RollbackMetadata, RestoreMetadata)):
        return metadata.instants
    return ()


def _rollbacks(metadata: Metadata) -> tuple[RollbackMetadata, ...]:
    if isinstance(metadata, RollbackMetadata):
        return (metadata,)
    if isinstance(metadata, RestoreMetadata):
        return tuple(item for group in metadata.rollbacks.values() for item in group)
    return ()
