"""ConditionTrigger: waits for a condition on a table's timeline in the triggerer, for a deferred sensor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from airflow.triggers.base import (
    BaseTrigger,
    TaskFailedEvent,
    TaskSkippedEvent,
    TaskSuccessEvent,
    TriggerEvent,
)

from airflow_hoodie.arguments import table_path
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import Condition, condition, situation
from airflow_hoodie.exceptions import HoodieException, from_error, from_report
from airflow_hoodie.hooks.hoodie import storage_options
from airflow_hoodie.polling import MAX_FAILURES, pause
from hoodie.errors import ConfigError, HoodieError, TableNotFound
from hoodie.storage import normalize
from hoodie.text import visible
from hoodie.timeline.active import Timeline

#: a task that ends in the triggerer times out so much before Airflow would wake it on a worker to say so
_BEFORE_TIMEOUT = timedelta(seconds=1)


class _TimedOut(Exception):
    """The task's time is over."""


class ConditionTrigger(BaseTrigger):
    """Polls until the condition holds; its arguments are its only state, so that it survives any restart.

    Polls that fail are tried again after growing pauses, up to five minutes; the tenth in a row is the task's
    failure.

    :param kind: see `airflow_hoodie.conditions.condition`.
    :param arguments: the condition's. They are attributes too, which Airflow renders when the task starts
        from the trigger.
    :param table: path of the table.
    :param missing: `wait` for a table that does not exist yet, or `fail`.
    :param poke_interval: seconds between polls.
    :param end_task: end the task in the triggerer, with the found value as XCom `return_value`. Otherwise an
        event resumes the sensor: {"status": "success", "value": ...} or {"status": "error", "report": ...}.
    :param skip_on_failure: with `end_task`, skip the task instead of failing it.
    :param hoodie_conn_id: connection of type `hoodie`, whose storage settings are looked up in the triggerer.
    :param options: further storage settings, none of them secret.
    """

    def __init__(
        self,
        *,
        kind: str,
        table: Any,
        missing: Literal["wait", "fail"] = "wait",
        poke_interval: float = 60.0,
        end_task: bool = False,
        skip_on_failure: bool = False,
        hoodie_conn_id: str | None = None,
        options: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kind = kind
        self.table = table
        self.missing = missing
        self.poke_interval = poke_interval
        self.end_task = end_task
        self.skip_on_failure = skip_on_failure
        self.hoodie_conn_id = hoodie_conn_id
        self.options = dict(options or {})
        self.timeout_after: datetime | None = None  # the triggerer sets it
        self._names = tuple(arguments)
        for name, value in arguments.items():
            setattr(self, name, value)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "kind": self.kind,
                "table": self.table,
                "missing": self.missing,
                "poke_interval": self.poke_interval,
                "end_task": self.end_task,
                "skip_on_failure": self.skip_on_failure,
                **({"hoodie_conn_id": self.hoodie_conn_id} if self.hoodie_conn_id else {}),
                **({"options": self.options} if self.options else {}),
                **{name: getattr(self, name) for name in self._names},
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            value = await self._wait()
        except HoodieError as error:
            self.log.error("%s", visible(error))
            yield self._failed(error.to_dict())
        except HoodieException as error:
            self.log.error("%s", visible(error))
            yield self._failed({"code": error.code or "configuration", "message": error.message})
        except _TimedOut:
            self.log.error("The sensor has timed out")
            yield self._failed({"message": "the sensor has timed out"})
        else:
            done = {"status": "success", "value": value}
            yield TaskSuccessEvent(xcoms={"return_value": value}) if self.end_task else _event(done)

    def _failed(self, report: dict[str, Any]) -> TriggerEvent:
        if not self.end_task:
            return _event({"status": "error", "report": report})
        return TaskSkippedEvent() if self.skip_on_failure else TaskFailedEvent()

    async def _wait(self) -> dict[str, Any]:
        """What the condition found. Raises HoodieError, HoodieException, and _TimedOut with end_task."""
        wanted = condition(self.kind, {name: getattr(self, name) for name in self._names})
        path = normalize(table_path(self.table))
        reader: TableReader | None = None
        failures = 0
        said: Timeline | str | None = ""
        while True:
            try:
                if reader is None:
                    options = await storage_options(self.hoodie_conn_id, path, self.options)
                    reader = TableReader(path, options)
                found = await asyncio.to_thread(look, reader, wanted, self.missing)
                failures = 0
                if found is None and reader.last is not said:
                    said = reader.last
                    now = await asyncio.to_thread(situation, reader)
                    self.log.info("Waiting on %s for %s; %s", path, wanted.words(), now)
            except (OSError, HoodieError) as error:
                failures += 1
                if isinstance(error, (ConfigError, TableNotFound)) or failures >= MAX_FAILURES:
                    raise _known(error, path) from error
                self.log.warning("Poll %d of %s failed: %s", failures, path, visible(error))
                found = None
                if self.hoodie_conn_id:
                    reader = None  # its credentials may be others by now
            if found is not None:
                return found
            end = self.timeout_after if self.end_task else None
            wait = pause(self.poke_interval, failures, end, _BEFORE_TIMEOUT)
            if wait is None:
                raise _TimedOut
            await asyncio.sleep(wait)


def look(reader: TableReader, wanted: Condition, missing: str) -> dict[str, Any] | None:
    """One poll: what the condition found, or None. Raises TableNotFound if `missing` is "fail"."""
    try:
        found = wanted.find(reader, reader.poll())
    except TableNotFound:
        if missing == "fail":
            raise
        return None
    return None if found is None else found.to_dict()


def _event(payload: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]


def value_of(event: Mapping[str, Any] | None) -> dict[str, Any]:
    """The value in a trigger's event. Raises the exception of the error that it reports."""
    if event is not None and event.get("status") == "success":
        value: dict[str, Any] = event["value"]
        return value
    raise from_report((event or {}).get("report") or {"message": f"the trigger ended with {event!r}"})


def _known(error: Exception, path: str) -> HoodieException:
    if isinstance(error, HoodieError):
        return from_error(error)
    return HoodieException(f"{path} can't be read: {error}", code="storage")
