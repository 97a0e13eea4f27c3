"""A table's timeline without data files, written with hoodie's own functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep

from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.timeline.clock import format_millis, instant_millis, new_instant_time
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import InstantTime
from tests.support.stores import store_at

STORAGE = LocalStorage()
STATES = (State.REQUESTED, State.INFLIGHT, State.COMPLETED)


@dataclass
class WrittenTimeline:
    """The table at `path`. `commits` are the instants of rows, in the order in which they completed."""

    path: str
    commits: list[str] = field(default_factory=list)
    _last: str = "20260101000000000"

    @classmethod
    def create(cls, folder: Path, name: str = "orders") -> WrittenTimeline:
        properties.create(STORAGE, str(folder / name), {properties.NAME: name})
        return cls(str(folder / name))

    def begin(self, action: Action = Action.COMMIT) -> Instant:
        """Requested and inflight files of a new instant."""
        self._last = new_instant_time(InstantTime(self._last), utc=True)
        for state in (State.REQUESTED, State.INFLIGHT):
            store_at(self.path).create(Instant(self._last, action, state))
        return Instant(self._last, action, State.INFLIGHT)

    def complete(self, begun: Instant, metadata: CommitMetadata) -> str:
        sleep(0.002)  # the order of completion is told by times in milliseconds
        store_at(self.path).create(begun.with_state(State.COMPLETED), metadata.to_json())
        return begun.time

    def commit(
        self,
        partition: str = "2026-01-01",
        action: Action = Action.COMMIT,
        begun: Instant | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> str:
        """A commit of rows; `extra` is its extra metadata. Returns its instant."""
        stat = WriteStat(
            path=f"{partition}/f", file_id="f-0", num_writes=3, num_inserts=2, num_update_writes=1
        )
        metadata = CommitMetadata(
            {partition: (stat,)}, extra_metadata=dict(extra or {}), operation_type="UPSERT"
        )
        time = self.complete(begun or self.begin(action), metadata)
        self.commits.append(time)
        return time

    def fill(self, count: int, partition: str = "2026-01-01") -> None:
        """Many commits at once, a minute apart, completed files only."""
        metadata = CommitMetadata(
            {partition: (WriteStat(path=f"{partition}/f", file_id="f-0", num_writes=3, num_inserts=3),)},
            operation_type="INSERT",
        ).to_json()
        first = instant_millis(self._last, utc=True)
        for number in range(1, count + 1):
            self._last = format_millis(first + 60_000 * number, utc=True)
            Path(self.path, ".hoodie", f"{self._last}.commit").write_bytes(metadata)
            self.commits.append(self._last)

    def overwrite(self, partition: str = "2026-01-01") -> str:
        """A replace commit of rows."""
        groups: Mapping[str, tuple[str, ...]] = {partition: ("f-0",)}
        metadata = ReplaceCommitMetadata(
            {}, operation_type="INSERT_OVERWRITE", partition_to_replace_file_ids=groups
        )
        time = self.complete(self.begin(Action.REPLACECOMMIT), metadata)
        self.commits.append(time)
        return time

    def compact(self) -> str:
        metadata = CommitMetadata(compacted=True, operation_type="COMPACT")
        return self.complete(self.begin(Action.COMPACTION), metadata)

    def cluster(self) -> str:
        metadata = ReplaceCommitMetadata({}, operation_type="CLUSTER")
        return self.complete(self.begin(Action.REPLACECOMMIT), metadata)

    def clean(self) -> str:
        begun = self.begin(Action.CLEAN)
        store_at(self.path).create(begun.with_state(State.COMPLETED), b"Obj\x01")
        return begun.time

    def serve(self, number: int) -> None:
        """One table service or another."""
        (self.compact, self.clean, self.cluster)[number % 3]()

    def archive(self, time: str) -> None:
        """Take an instant's files away."""
        for path in Path(self.path, ".hoodie").glob(f"{time}.*"):
            path.unlink()
