"""Commits that are in the archive."""

from __future__ import annotations

from collections.abc import Iterator

from hoodie.services.service_table import ServiceTable
from hoodie.timeline.archived import read_archived
from hoodie.timeline.instant import COMMIT_ACTIONS, Instant


def archived_commits(target: ServiceTable) -> Iterator[Instant]:
    """The completed commits of the archived timeline, in the order of its files."""
    folder = target.table.archive_folder
    for entry in read_archived(target.storage, folder):
        if entry.instant.completed and entry.instant.comparable_action in COMMIT_ACTIONS:
            yield entry.instant
