"""Restores that were begun, as the planner finishes them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from hoodie.errors import TableError
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.request import Request
from hoodie.services.restore.plan import begun, last
from hoodie.services.restore.run import restore, skipped
from hoodie.services.restore.service import RestoreRequest
from hoodie.services.results import ServiceResult
from hoodie.services.service_table import ServiceTable
from hoodie.text import plural
from hoodie.timeline.instant import Action
from hoodie.timeline.time import NO_TIME


class RestoreEntry(PlannerEntry):
    actions = frozenset({Action.RESTORE})

    @property
    def request(self) -> type[Request]:
        return Request

    def run(self, request: Request) -> ServiceResult:
        return finish_restore(request)

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        undone = [item["instant"] for item in result["undone"]]
        text = f"take the table back to {result['restored_to']}, {plural(len(undone), 'instant')}"
        return Work(text, result["num_files"], result["bytes"], undone)


def finish_restore(request: Request) -> ServiceResult:
    """Finish a restore that was begun; without one the result names the last restore.

    Raises TableError where its plan has no commit to go to.
    """
    started = time.monotonic()
    target = ServiceTable.open(request.table, request.options)
    timeline = target.timeline()
    found = begun(timeline, target)
    if found is None:
        past, seconds = last(timeline, target), time.monotonic() - started
        point = past.point if past else NO_TIME
        return skipped(target, point, past, request.dry_run, "no restore is pending", seconds)
    if found.point is None:
        raise TableError(
            f"the plan of restore {found.instant.time} does not name the commit that it goes to; finish it "
            "with Apache Hudi",
            instant=found.instant.time,
        )
    return restore(
        RestoreRequest(
            table=request.table,
            instant=found.point,
            options=request.options,
            dry_run=request.dry_run,
            progress=request.progress,
        )
    )
