"""Clustering, as the planner knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.format.names import join
from hoodie.services.clustering import trigger
from hoodie.services.clustering.settings import ASYNC, INLINE, SCHEDULE_INLINE
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.service_table import ServiceTable
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action


class ClusteringEntry(PlannerEntry):
    actions = frozenset({Action.REPLACECOMMIT})

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        text = f"rewrite {plural(result['num_replaced'], 'file group')} as {result['num_outputs']}"
        storage, base_path = target.storage, target.base_path
        files = [join(base_path, file) for group in result["files"].values() for file in group]
        read = sum(info.size for info in map(storage.info, files) if info)
        return Work(text, len(files), read, [instant for instant in result["files"] if instant])

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return trigger.due(timeline, target.storage, target.config).reason

    def unasked(self, target: ServiceTable) -> str:
        """A clustering rewrites a whole table, which not every table wants."""
        if any(target.config[switch] for switch in (INLINE, SCHEDULE_INLINE, ASYNC)):
            return ""
        return f"no setting asks for it: name the service, or set {ASYNC.name}"
