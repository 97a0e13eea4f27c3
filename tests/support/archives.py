"""The archive of a table."""

from __future__ import annotations

from hoodie.timeline.layouts.one import ONE


def archive_folder(base_path: str) -> str:
    """Of a table with the default of hoodie.archivelog.folder."""
    return ONE.archive_folder(base_path, "archived")
