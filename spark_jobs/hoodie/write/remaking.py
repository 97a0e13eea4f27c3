"""Indexes of a metadata table that go, and are made again: after a restore, or where they are wrong.

1. the table's properties name them as begun, and no more as ready: readers go without, 2. their folders go,
3. they are made (hoodie.write.kept.making), and named as ready, 4. the properties name none as begun. A kill,
or an instant that is pending, leaves their names in the properties, by which the next writer goes on. Only
the process that has the table for itself calls this.
"""

from __future__ import annotations

from collections.abc import Collection

from hoodie.config.key import Config
from hoodie.metadata.indexing import forget_plans, indexes_under_way
from hoodie.metadata.state import begun_indexes
from hoodie.metadata.table import Partition
from hoodie.progress import ProgressCallback
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.timeline.instant import Action
from hoodie.write.kept.making import make_partitions, take_out
from hoodie.write.kept.partitions import begun_partitions, kept_partitions

_FILES = Partition.FILES.value


def begin_remaking(table: Table, names: Collection[str]) -> None:
    """Steps 1 and 2. With `files` all that the table has go. Those that are not kept here go for good. Plans
    to build one of them are void, and go first.
    """
    props = table.read_properties()
    there, begun = props.metadata_partitions, begun_indexes(props)
    gone = {*names, *there, *begun} if _FILES in names else {*names}
    forget_plans(table, gone)
    again = [kept.partition.value for kept in kept_partitions({*begun, *gone})]
    take_out(table, gone, again)


def finish_remaking(table: Table, config: Config, progress: ProgressCallback) -> bool:
    """Steps 3 and 4, as far as the properties say that something is begun; nothing while instants of the
    table are pending, whose files would be missing. Was there something to do.
    """
    begun = begun_partitions(table)
    if not begun or any(item.action is not Action.INDEXING for item in table.timeline.pending()):
        return False
    ready = table.properties.metadata_partitions
    wanted = [
        kept
        for kept in begun
        if kept.partition.value not in ready
        and kept.asked(config) is not False
        and not kept.unfollowed(table, config)
    ]
    if wanted and (_FILES in ready or wanted[0].partition is Partition.FILES):
        make_partitions(table, config, wanted, progress)
    left = ",".join(sorted(indexes_under_way(table)))
    done = {properties.METADATA_PARTITIONS_INFLIGHT: left or None}
    properties.update(table.storage, table.base_path, done)
    table.reopen()
    return True
