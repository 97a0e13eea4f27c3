"""Archive files of earlier releases, mended such that Apache Hudi 1.x loads them; each file atomically.

Apache Hudi 1.x reads all of the archive when it upgrades a table, after it has moved the active timeline: a
file that it can't load leaves the table in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hoodie.errors import HalfUpgraded
from hoodie.services.service_table import ServiceTable
from hoodie.storage import FileInfo, Storage
from hoodie.timeline.archived import mended, unmended


def mend(storage: Storage, files: Iterable[FileInfo], check: Callable[[], None]) -> list[str]:
    """Mend what `unmended` found, in its order, and return the names.

    `check` raises when the claim on the table is lost.
    """
    names = []
    for item in files:
        data = mended(storage, item.path)
        check()
        storage.write(item.path, data)
        names.append(item.name)
    return names


def mend_archive(path: str, options: Mapping[str, Any] | None = None) -> list[str]:
    """Mend all archive files of a table that need it; their names.

    Raises HoodieError, ConflictError while a writer is at work. What was mended before an error stays so. A
    half-upgraded table has no writers but Apache Hudi.
    """
    target = ServiceTable.open(path, options or {})
    folder = target.table.archive_folder
    files = unmended(target.storage, folder)
    if not files:
        return []
    try:
        target.timeline()
    except HalfUpgraded:
        return mend(target.storage, files, lambda: None)
    with target.transaction() as transaction:
        transaction.claim(repair=False)
        target.storage.sweep_partial(folder)
        return mend(target.storage, unmended(target.storage, folder), transaction.check_claim)
