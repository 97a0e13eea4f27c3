"""The repair of a table, as the planner knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.service_table import ServiceTable
from hoodie.text import plural


class RepairEntry(PlannerEntry):
    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        failed = [item["instant"] for item in result["failed"]]
        parts = [f"roll back {plural(len(failed), 'failed write')}"] if failed else []
        left = [plural(len(result[name]), name[:-1]) for name in ("markers", "heartbeats") if result[name]]
        parts += [f"sweep what is left of {' and '.join(left)}"] if left else []
        return Work(", ".join(parts), result["num_files"], result["bytes"], failed)
