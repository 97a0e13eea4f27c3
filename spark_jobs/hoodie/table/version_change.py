"""A change of a table between the layouts of its timeline, such that it can be read at every step.

1. the file `version_change` in `.hoodie`: from now on hoodie.properties says which instants count
2. what is left in the place of the other layout is deleted
3. the archived timeline, and all instants, are copied there; nothing of the present layout changes
4. hoodie.properties get the new version, by `properties.update`: the change itself
5. the instants of the former layout are deleted, then the file

A kill before 4 leaves the table as it was, one after it the table as it is going to be. `settle` deletes what
does not count; every process that takes the table for itself calls it. Apache Hudi moves its instants
instead, so that a table between its steps can't be read. The archive of layout one stays beside that of
layout two, as in Apache Hudi; that of layout two goes with its instants.
"""

from __future__ import annotations

from collections.abc import Mapping

from hoodie.table import properties
from hoodie.table.handle import Table, open_archive
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import meta_path
from hoodie.timeline.archive.lsm_archive import LsmArchive
from hoodie.timeline.instant import State
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.placement import VERSION_CHANGE
from hoodie.timeline.relayout import later_archive, later_files, older_archive, older_files
from hoodie.timeline.store import check_size


def change_layout(table: Table, changes: Mapping[str, str | None]) -> tuple[int, int]:
    """The numbers of instants, active and archived, that were copied. `changes`: of the properties, with the
    version.

    The caller has the table for itself, with no pending instant whose meaning differs between the layouts.
    Raises TableError for a torn file, with the table as it was.
    """
    storage, base_path, former = table.storage, table.base_path, table.layout
    other = TWO if former is ONE else ONE
    storage.write(_marker(base_path), f"{table.properties.version} {changes[properties.VERSION]}".encode())
    _remove(table, other)
    storage.make_dirs(f"{base_path}/{TWO.folder}/history")
    archived = _copy_archive(table, other, changes)
    timeline = table.refresh()
    files = later_files(timeline, storage) if other is TWO else older_files(timeline, storage)
    for instant, data in files:
        check_size(instant.time, len(data))
        storage.create(other.path(base_path, instant), data)
    properties.update(storage, base_path, changes)
    settle(table)
    return len(timeline.instants), archived


def settle(table: Table) -> None:
    """Delete the instants of the layout that does not count. The caller has the table for itself."""
    table.read_properties()
    _remove(table, TWO if table.layout is ONE else ONE)
    table.storage.delete_many([_marker(table.base_path)])
    table.reopen(moved=True)


def _copy_archive(table: Table, other: Layout, changes: Mapping[str, str | None]) -> int:
    """To where the properties say it lies after the changes."""
    texts = {**table.properties.texts, **changes}
    later = TableProperties({name: text for name, text in texts.items() if text is not None})
    present = open_archive(table.storage, table.layout, table.base_path, table.properties)
    made = open_archive(table.storage, other, table.base_path, later)
    if isinstance(present, LsmArchive):
        return older_archive(present, made)
    return later_archive(present, made, frozenset(item.time for item in table.timeline))


def _remove(table: Table, layout: Layout) -> None:
    """All of layout two; of layout one the instants, and not what else `.hoodie` has."""
    storage, base_path = table.storage, table.base_path
    folder = f"{base_path}/{layout.folder}"
    parsed = [(name, layout.parse(name)) for name in sorted(storage.names(folder))]
    found = [(name, instant.state) for name, instant in parsed if instant is not None]
    # pending states go first: none looks as if it had not been completed
    found.sort(key=lambda pair: pair[1] is State.COMPLETED)
    storage.delete_many([f"{folder}/{name}" for name, _ in found])
    if layout is TWO:
        storage.delete_tree(folder)


def _marker(base_path: str) -> str:
    return f"{meta_path(base_path)}/{VERSION_CHANGE}"
