"""What a rollback's file says of the write that it took back, which is nowhere else afterwards.

Apache Hudi's record of a rollback names the instant and the deleted files alone. Ours has a text more in the
header of its Avro container, where readers of the record pass it over: the rows of the write, as it planned
them if it did not complete, and its task run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hoodie.codec.avro_container import header_text
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import RUN_KEY, TOKEN_KEY, TaskRun

#: of the container's header
TAKEN_BACK_KEY = "hoodie.taken.back"
#: above Java's longs
_LONG = 2**63


@dataclass(frozen=True, kw_only=True)
class RolledBackCommit:
    """Rows of a write that was taken back; `planned`: it did not come to its end, and meant to write them.
    `task`: texts by which its extra metadata names the task run.
    """

    instant: InstantTime
    action: str
    operation: str
    inserts: int
    updates: int
    deletes: int
    planned: bool
    task: Mapping[str, str]

    @classmethod
    def of(cls, target: Instant, wrote: CommitMetadata) -> RolledBackCommit:
        """`wrote`: what a commit's file says, or an inflight one, which counts inserts by partition."""
        planned = not target.completed
        stats = [stat for stat in wrote.write_stats if not (planned and stat.file_id)]
        return cls(
            instant=target.time,
            action=target.action.value,
            operation=wrote.operation_type.lower(),
            inserts=sum(stat.num_inserts for stat in stats),
            updates=wrote.num_updates,
            deletes=wrote.num_deletes,
            planned=planned,
            task={key: text for key in (RUN_KEY, TOKEN_KEY) if (text := wrote.extra_metadata.get(key))},
        )

    @property
    def run(self) -> TaskRun | None:
        return TaskRun.of(self.task)

    def to_text(self) -> str:
        return json.dumps({**vars(self), "task": dict(self.task)}, sort_keys=True)

    @classmethod
    def read(cls, data: bytes) -> RolledBackCommit | None:
        """Of a completed rollback's file; None where it says nothing, such as that of Apache Hudi."""
        try:
            text = header_text(data, TAKEN_BACK_KEY)
            value: Any = json.loads(text) if text else None
            found = cls(**value) if isinstance(value, dict) else None
        except (ValueError, TypeError, RecursionError):
            return None
        return found if found is not None and found._whole() else None

    def _whole(self) -> bool:
        """Whether the values have their types: the text comes from a file."""
        counts = (self.inserts, self.updates, self.deletes)
        return (
            all(type(count) is int and 0 <= count < _LONG for count in counts)
            and all(isinstance(text, str) for text in (self.instant, self.action, self.operation))
            and isinstance(self.planned, bool)
            and isinstance(self.task, dict)
            and all(isinstance(text, str) for text in self.task.values())
        )
