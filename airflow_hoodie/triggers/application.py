"""ApplicationTrigger: waits in the triggerer until an application on a cluster has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_hoodie.clusters import State, Status
from airflow_hoodie.clusters.worker import manager_at
from airflow_hoodie.exceptions import HoodieException, HoodieJobError
from airflow_hoodie.polling import MAX_FAILURES, pause

#: an application is killed so much before Airflow ends the task's deferral
_BEFORE_TIMEOUT = timedelta(seconds=5)
#: state of the event of a trigger whose time was over, and of one that could not ask the cluster
TIMED_OUT, LOST = "timed_out", "lost"
#: of the event
EVENT_FIELDS = frozenset({"state", "said", "application", "cluster", "before"})


class ApplicationTrigger(BaseTrigger):
    """Polls an application on a cluster until it has ended; its arguments are its only state.

    Its one event is {"state": ..., "said": text, "application": id, "cluster", "before" and "tag": as given}.
    The state is `succeeded`, `failed`, `killed` or `unknown`;
    `timed_out` where the task's time was over, and the application was killed; `lost` where the cluster
    could not be asked, and the application may run.

    :param cluster: where it runs: ClusterManager.place().
    :param application_id: the cluster's id of the application.
    :param before: what the task that is resumed has to know.
    :param tag: the application's, by which the task finds the job's result.
    :param poll_interval: seconds between polls.
    :param cancel_on_kill: killing or clearing the deferred task kills the application. Otherwise it runs on.
    """

    def __init__(
        self,
        *,
        cluster: Mapping[str, str],
        application_id: str,
        before: str = "",
        tag: str = "",
        poll_interval: float = 30.0,
        cancel_on_kill: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster = dict(cluster)
        self.application_id = application_id
        self.before = before
        self.tag = tag
        self.poll_interval = poll_interval
        self.cancel_on_kill = cancel_on_kill
        self.timeout_after: datetime | None = None  # the triggerer sets it

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "cluster": self.cluster,
                "application_id": self.application_id,
                "before": self.before,
                "tag": self.tag,
                "poll_interval": self.poll_interval,
                "cancel_on_kill": self.cancel_on_kill,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            status = await self._ended()
        except HoodieException as error:
            self.log.error("%s", error.message)
            yield self._event(LOST, error.message)
        else:
            if status is None:
                self.log.error("The task's time is over; killing %s", self.application_id)
                await self._kill()
                yield self._event(TIMED_OUT, "")
            else:
                yield self._event(status.state.value, status.said)

    async def on_kill(self) -> None:
        """Airflow calls it when a person ends the deferred task, and not when a triggerer stops."""
        if self.cancel_on_kill:
            await self._kill()
        else:
            self.log.info("%s runs on; a retry of the task waits for its end", self.application_id)

    async def _kill(self) -> None:
        """Kill the application; a failure is logged."""
        try:
            cluster = await manager_at(self.cluster)
            await sync_to_async(cluster.kill, thread_sensitive=False)(self.application_id)
        except HoodieException as error:
            self.log.error("%s may be running still: %s", self.application_id, error.message)

    async def _ended(self) -> Status | None:
        """Of the application once it has ended; None where the task's time is over first."""
        cluster, failures, last = await manager_at(self.cluster), 0, Status(State.UNKNOWN)
        # a thread in which hooks of Airflow find their connections
        ask = sync_to_async(cluster.status, thread_sensitive=False)
        while True:
            try:
                found = await ask(self.application_id)
                failures = 0
                if found != last:
                    said = f" ({found.said})" if found.said else ""
                    self.log.info("%s: %s%s", self.application_id, found.state.value, said)
                if found.state is State.UNKNOWN and last.state is State.ENDING:
                    return Status(State.KILLED)
                last = found
                if found.ended:
                    return found
            except HoodieJobError as error:
                failures += 1
                if failures >= MAX_FAILURES:
                    raise
                self.log.warning("Poll %d of %s failed: %s", failures, self.application_id, error.message)
            wait = pause(self.poll_interval, failures, self.timeout_after, _BEFORE_TIMEOUT)
            if wait is None:
                return None
            await asyncio.sleep(wait)

    def _event(self, state: str, said: str) -> TriggerEvent:
        payload = {
            "state": state,
            "said": said,
            "application": self.application_id,
            "cluster": self.cluster,
            "before": self.before,
            "tag": self.tag,
        }
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]
