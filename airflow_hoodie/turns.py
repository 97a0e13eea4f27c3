"""Whose turn it is at a table: a task whose job would wait for other writers waits in the triggerer before,
without a worker slot.

The job waits in the queue of its table in any case (hoodie.concurrency.queue). The task only does so before,
in the same place: by a look at the table where `deferrable` says so, and TurnTrigger. After the trigger's one
event the job runs, whatever the table is like by then, so that no task is deferred for ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_hoodie.arguments import default_deferrable
from airflow_hoodie.compat.task_sdk import executing
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.hooks.hoodie import HoodieHook
from airflow_hoodie.runs import WAIT_FOR_WRITER, WAIT_PLACE
from airflow_hoodie.storage_conn import trigger_storage
from airflow_hoodie.triggers.turn import TurnTrigger
from hoodie.concurrency.place import Place, heartbeat_settings, patience_ms
from hoodie.concurrency.queue import new_place
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.storage import normalize
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table, TableRef
from hoodie.text import visible
from hoodie.timeline.tokens import RUN_KEY, TOKEN_KEY

#: of a service that carries plans out, which it does beside writers
_EXECUTE = "execute"


class TableTurn:
    """Of one run of an operator. `event`: of the trigger, where the task has waited; else None."""

    def __init__(self, operator: Any, event: Mapping[str, Any] | None) -> None:
        self._operator = operator
        self._event = event
        self._place: Place | None = None

    def take(self, request: dict[str, Any]) -> None:
        """Before the request's job runs on this worker: raises TaskDeferred while the job would wait. After
        that wait the request gets the place, and what is left of the time.
        """
        operator, rank = self._operator, self._operator.rank
        if not (self._event or self._is_deferrable()) or rank is None or operator.only_planned:
            return
        config = Config.of(request["options"])
        patience = timedelta(milliseconds=patience_ms(config))
        if not patience or getattr(operator, "mode", "") == _EXECUTE:
            return
        extra = dict(operator.extra_metadata) | ({TOKEN_KEY: operator.token} if operator.token else {})
        extra = {key: str(extra[key]) for key in (RUN_KEY, TOKEN_KEY) if extra.get(key)}
        table = Table(TableRef.of(request["table"], config))
        if self._event:
            self._place = Place(table, config, rank, self._event["place"], extra)
            left = datetime.fromisoformat(self._event["until"]) - datetime.now(timezone.utc)
            milliseconds = max(0, round(left / timedelta(milliseconds=1)))
            request["options"] |= {WAIT_FOR_WRITER: str(milliseconds), WAIT_PLACE: self._event["place"]}
            return
        try:
            storage = storage_of(operator)
            digits = new_place(table)
            place = Place(table, config, rank, digits, extra)
            if not (found := place.state()):
                return
            place.hold()
        except (OSError, HoodieError, HoodieConfigurationError) as error:
            operator.log.info("The task does not wait in the triggerer: %s", visible(error))
            return
        if operator.killed:  # Airflow may refuse the deferral of such a task; its job does not begin
            self._place = place
            return
        operator.log.info("%s; the task waits in the triggerer", found.words())
        operator.defer(
            trigger=TurnTrigger(
                table=normalize(request["table"]),
                place=digits,
                rank=rank.name.lower(),
                until=(datetime.now(timezone.utc) + patience).isoformat(),
                extra=extra,
                settings=heartbeat_settings(config),
                poll_interval=operator.poll_interval,
                **storage,
            ),
            method_name="execute_in_turn",
            timeout=operator.execution_timeout,
        )

    def over(self) -> None:
        """The job has run: a place that it did not come to take is given up."""
        place, self._place = self._place, None
        if place is not None:
            with contextlib.suppress(OSError, HoodieError):
                place.leave()

    def _is_deferrable(self) -> bool:
        given = self._operator.deferrable
        return default_deferrable() if given is None else bool(given)


def resumed(operator: Any, context: Any, event: Mapping[str, Any] | None) -> dict[str, Any]:
    """What `execute` returns after the trigger's event; also that of a class derived from the operator's."""
    operator.turn_event = event
    with executing(operator):
        result: dict[str, Any] = operator.execute(context)
    return result


def storage_of(operator: Any) -> dict[str, Any]:
    """Arguments of a trigger on the operator's table, whose options have those of its connection by now.
    Raises HoodieConfigurationError for secrets of its own.
    """
    table, options = operator.table, options_of(operator.settings())
    if conn_id := table.get("hoodie_conn_id"):
        known = HoodieHook(conn_id).get_conn().options
        options = {name: text for name, text in options.items() if known.get(name) != text}
    return trigger_storage({**table, "options": options})
