"""What a table's metadata table consists of, for people: reads listings and timelines only."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from hoodie.format.names import HFILE, relative_path
from hoodie.metadata.instants import NEW_TABLE
from hoodie.metadata.table import FOLDER
from hoodie.metadata.written_table import WrittenTable
from hoodie.table.handle import Table
from hoodie.table.properties import METADATA_PARTITIONS_INFLIGHT, TableProperties
from hoodie.table.view import FileSlice, file_slices
from hoodie.timeline.clock import FORMAT_DIGITS

#: readers use it; its making was begun
READY, UNFINISHED = "ready", "unfinished"
_DATA = re.compile(r"\.hfile$|\.log\.")


@dataclass(frozen=True, kw_only=True)
class IndexState:
    """One partition of a metadata table. index: its name. state: `ready`, or `unfinished`: named by the
    properties as begun, which readers pass over. file_groups: those that are there; num_files, bytes: of all
    files, of which num_logs are log files of the latest slices. compacted_to: the instant of the table up to
    which base files have all records, "" for none.
    """

    index: str
    state: str
    file_groups: int
    num_files: int
    bytes: int
    num_logs: int
    compacted_to: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def begun_indexes(props: TableProperties) -> tuple[str, ...]:
    """Those whose making was begun, by a table's properties; readers pass them over."""
    names = props.get(METADATA_PARTITIONS_INFLIGHT, "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def index_states(data: Table) -> tuple[list[IndexState], list[str]]:
    """(what the properties of a table name, instants of the metadata table that are pending).

    Raises TableError where the metadata table is not there or damaged.
    """
    ready, begun = data.properties.metadata_partitions, begun_indexes(data.properties)
    if not (ready or begun):
        return [], []
    table = WrittenTable(data)
    if not ready and not data.timeline.holds(FOLDER):
        return [_state(name, UNFINISHED, [], []) for name in begun], []
    table.table.read_properties()
    view, listing = table.view(), table.listing()
    found: list[IndexState] = []
    for name in dict.fromkeys((*ready, *begun)):
        relative_path(name, "an index that the table's properties name")
        groups = file_slices(view, listing.files, name, HFILE)
        sizes = [item.size for item in listing.files(name) if _DATA.search(item.name)]
        state = READY if name in ready else UNFINISHED
        found.append(_state(name, state, [slices[0] for slices in groups.values()], sizes))
    return found, [instant.time for instant in table.timeline.pending()]


def _state(name: str, state: str, latest: list[FileSlice], sizes: list[int]) -> IndexState:
    begun = [item.instant for item in latest]
    return IndexState(
        index=name,
        state=state,
        file_groups=len(latest),
        num_files=len(sizes),
        bytes=sum(sizes),
        num_logs=sum(len(item.logs) for item in latest),
        compacted_to=min(
            ("" if time.startswith(NEW_TABLE) else time[:FORMAT_DIGITS] for time in begun), default=""
        ),
    )
