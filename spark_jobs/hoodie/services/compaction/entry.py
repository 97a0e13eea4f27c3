"""Compaction, as the planner knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.services.compaction import trigger
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.service_table import ServiceTable
from hoodie.table.properties import TableType
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action


class CompactionEntry(PlannerEntry):
    actions = frozenset({Action.COMPACTION})

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        logs, slices = result["num_log_files"], result["num_slices"]
        text = f"merge {plural(logs, 'log file')} of {plural(slices, 'file slice')}" if slices else ""
        return Work(text, logs, result["log_bytes"], [instant for instant in result["files"] if instant])

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return trigger.due(timeline, target.config, target.next_time(timeline)).reason

    def not_for(self, target: ServiceTable) -> str:
        if target.props.table_type is TableType.MERGE_ON_READ:
            return ""
        return f"a {target.props.table_type.value} table has no logs"
