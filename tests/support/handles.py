"""Handles of tables on the local storage."""

from __future__ import annotations

from pathlib import Path

from hoodie.storage import Storage
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef


def table_at(path: str | Path, storage: Storage | None = None) -> Table:
    """The table at a path, of which nothing is read yet."""
    return Table(TableRef(str(path)), storage or LocalStorage())
