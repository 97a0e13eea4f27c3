"""Cleaning, as the planner knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.services.clean.policy import Retention
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.service_table import ServiceTable
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action


class CleanEntry(PlannerEntry):
    actions = frozenset({Action.CLEAN})

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        files, partitions = result["num_files"], len(result["partitions"])
        text = f"delete {plural(files, 'file')} in {plural(partitions, 'partition')}" if files else ""
        return Work(text, files, result["bytes"], [instant for instant in result["files"] if instant])

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return Retention.of(target.config, 0, target.props.timeline_utc).text
