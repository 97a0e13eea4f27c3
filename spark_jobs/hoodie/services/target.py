"""The table a service works on, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.config.key import Config
from hoodie.storage import Storage, normalize, storage_for
from hoodie.storage.settings import FSYNC
from hoodie.table import properties
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.write.operation import check_extra
from hoodie.write.persisted import merged


@dataclass(frozen=True)
class Target:
    """`config` is what was asked for with what the table persists; `extra` is for the commits' metadata."""

    storage: Storage
    base_path: str
    props: TableProperties
    config: Config
    extra: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(
        cls, path: str, options: Mapping[str, Any], extra_metadata: Mapping[str, str] | None = None
    ) -> Target:
        """Raises ConfigError for wrong settings, TableMismatch where they contradict it, TableError."""
        base_path = normalize(path)
        check_extra(extra_metadata or {})
        given = Config.of(options)
        storage = storage_for(base_path, given[FSYNC])
        props = properties.load(storage, base_path)
        return cls(storage, base_path, props, merged(given, props), dict(extra_metadata or {}))

    def timeline(self) -> Timeline:
        return Timeline.load(self.base_path, self.storage)

    def next_time(self, timeline: Timeline) -> str:
        """A new instant, later than all on the timeline."""
        return new_instant_time(timeline.last_time, self.props.timeline_utc)
