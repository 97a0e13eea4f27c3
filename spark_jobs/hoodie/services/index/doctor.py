"""What `hoodie doctor` says of a table's metadata table: does it agree with the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import HoodieError, InputError, TableError
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.services.index.comparison import compare
from hoodie.table.checkup import ERROR, NOTE, OK, WARNING, Finding
from hoodie.table.handle import Table

_CHECK = "metadata table"
#: findings of one look
_LISTED = 100
#: looks at a table that changes meanwhile
_ROUNDS = 3


def check_metadata_table(path: str, deep: bool, options: Mapping[str, Any]) -> list[Finding]:
    """Its list of files against the folders; `deep`: also its other indexes against the data files. None
    where the table has none. Raises nothing: what can't be read is a finding.
    """
    config = Config.of(options)
    try:
        for _ in range(_ROUNDS):
            table = Table.open(path, config)
            before = table.timeline
            if Partition.FILES.value not in table.properties.metadata_partitions:
                return []
            found = list(islice(_findings(table, deep, config), _LISTED))
            if all(item.status == OK for item in found) or before.instants == table.refresh().instants:
                return found
    except (HoodieError, OSError) as error:
        return [Finding(_CHECK, ERROR, str(error))]
    text = "whether it agrees with the table is not known: the table changes while it is looked at"
    return [Finding(_CHECK, NOTE, text, "run hoodie doctor again while no process writes")]


def _findings(table: Table, deep: bool, config: Config) -> Iterator[Finding]:
    remedy = f"hoodie index rebuild --table {table.base_path}"
    try:
        metadata = MetadataTable.open(table)
        assert metadata is not None
        if metadata.lacks:
            text = f"it lacks instant {metadata.lacks}: queries list the folders instead"
            yield Finding(_CHECK, WARNING, text, remedy)
            return
        clean = True
        for item in compare(table, metadata, config, deep):
            clean = False
            why = f"{remedy} --indexes {item.index}" if item.index != Partition.FILES.value else remedy
            yield Finding(_CHECK, ERROR if item.loses else WARNING, item.text, why)
    except (TableError, InputError, FileNotFoundError) as error:
        text = error.message if isinstance(error, HoodieError) else f"{error.filename or error} is gone"
        yield Finding(_CHECK, ERROR, f"it can't be read: {text}", remedy)
        return
    if clean:
        what = "agree with the table's files" if deep else "lists the files that are there"
        names = ", ".join(sorted(metadata.partitions))
        yield Finding(_CHECK, OK, f"{names}: {what}" if deep else f"it {what}")
