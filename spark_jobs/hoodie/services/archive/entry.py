"""Archiving, as the planner knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.services.archive import policy
from hoodie.services.archive.settings import MAX_COMMITS
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.service_table import ServiceTable
from hoodie.text import plural
from hoodie.timeline.active import Timeline


class ArchiveEntry(PlannerEntry):
    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        instants = [item["instant"] for item in result["archived"]]
        text = "mend archive files" if result["mended"] else "merge archive files"
        text = f"archive {plural(len(instants), 'instant')}" if instants else text
        return Work(text, result["num_files"], result["bytes"], instants)

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return policy.counts(timeline, target.config[MAX_COMMITS])
