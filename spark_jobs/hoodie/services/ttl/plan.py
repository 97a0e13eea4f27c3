"""Which partitions are over their time, by one state of the table.

KEEP_BY_TIME counts from the last write: the newest base instant of a partition's latest file slices, as
Apache Hudi 1.2.0 (KeepByTimeStrategy), and, unlike it, the modification time of their log files: rows that
were appended yesterday keep their partition. KEEP_BY_CREATION_TIME counts from the instant in the partition's
metadata file. What has no such time, or a bootstrap's, lives on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from hoodie.config.key import Config
from hoodie.format.names import join
from hoodie.services.ttl.settings import DAYS, MAX_PARTITIONS, SELECTED, STRATEGY, Strategy
from hoodie.storage import Storage
from hoodie.table.listing import FileListing
from hoodie.table.partition import PARTITION_FILE
from hoodie.table.view import FileSlice, TimelineView, merged_slices
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.instant import BOOTSTRAPS
from hoodie.timeline.time import REQUESTED

_DAY_MS = 86_400_000
_THREADS = 8
_CREATED = re.compile(rb"^commitTime=(\d{14}(?:\d{3})?)\s*$", re.MULTILINE)


class NothingExpired(Exception):
    """No partition is over its time in the state that a commit would replace."""


@dataclass(frozen=True, kw_only=True)
class Expired:
    """Partitions to delete, the oldest first. since: the time that each one's days are counted from, epoch
    milliseconds. left: those over the limit of one run. bytes, groups: of the files that go out of sight.
    """

    since: Mapping[str, int]
    left: int
    bytes: int
    groups: int

    @property
    def partitions(self) -> list[str]:
        return list(self.since)


@dataclass
class Chooser:
    """Says which partitions go, for `WriteRequest.choose`; `found` is its last answer.

    now_ms: the storage's time at the begin of the run, epoch milliseconds. utc: the timeline's zone.
    """

    storage: Storage
    base_path: str
    config: Config
    utc: bool
    now_ms: int
    found: Expired = field(default_factory=lambda: Expired(since={}, left=0, bytes=0, groups=0))

    def __call__(self, listing: FileListing, snapshot: TimelineView) -> list[str]:
        """Raises NothingExpired."""
        config = self.config
        bound_ms = self.now_ms - config[DAYS] * _DAY_MS
        selected = {path.strip("/") for path in config[SELECTED]}
        wanted = [path for path in listing.partitions() if not selected or path in selected]
        listing.many(wanted)
        slices = {path: merged_slices(snapshot, listing.files, path) for path in wanted}
        slices = {path: group for path, group in slices.items() if group}
        with ThreadPoolExecutor(_THREADS) as pool:
            times = dict(zip(slices, pool.map(self._since, slices, slices.values()), strict=True))
        over = sorted((time, path) for path, time in times.items() if time is not None and time < bound_ms)
        since = {path: time for time, path in over[: config[MAX_PARTITIONS]]}
        if not since:
            raise NothingExpired
        gone = [item for path in since for item in slices[path]]
        self.found = Expired(
            since=since,
            left=len(over) - len(since),
            bytes=sum(item.size for item in gone),
            groups=len(gone),
        )
        return self.found.partitions

    def _since(self, partition: str, slices: Sequence[FileSlice]) -> int | None:
        if self.config[STRATEGY] is Strategy.KEEP_BY_CREATION_TIME:
            return self._created(partition)
        instants = {item.instant for item in slices} | {item.base.instant for item in slices if item.base}
        if not instants.isdisjoint(BOOTSTRAPS):
            return None
        newest = instant_millis(max(instants, key=REQUESTED.key), self.utc)
        if newest >= self.now_ms - self.config[DAYS] * _DAY_MS:
            return newest
        logs = [self.storage.info(log.path) for item in slices for log in item.logs]
        return max([newest, *(log.mtime_ms if log else self.now_ms for log in logs)])

    def _created(self, partition: str) -> int | None:
        try:
            text = self.storage.read(join(self.base_path, partition, PARTITION_FILE))
        except FileNotFoundError:
            return None
        made = _CREATED.search(text)
        time = made[1].decode() if made else BOOTSTRAPS[0]
        return None if time in BOOTSTRAPS else instant_millis(time, self.utc)
