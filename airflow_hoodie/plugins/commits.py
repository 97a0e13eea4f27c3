"""Plugin that makes commit events exact: a listener that notes each one in the transaction that stores it.

Airflow stores an asset event in one transaction and a watcher's offset in another, so a triggerer that is
killed in between would fire the event again. When Airflow announces an event of a CommitEventTrigger, in the
triggerer's main process and before it commits, the listener adds the instant to the asset's state store
through the same session: both are there or neither is. The watcher reads both when it starts.

Tasks import this module too, so it imports nothing at the top but Airflow's plugin base.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin, hookimpl


@hookimpl
def on_asset_event_emitted(asset_event: Any) -> None:
    """Note the instant of a watcher's event; of any other event, nothing."""
    extra = asset_event.extra or {}
    payload = extra.get("payload")
    if extra.get("from_trigger") is True and isinstance(payload, dict) and "watcher" in payload:
        from airflow_hoodie.plugins import state

        state.note_event(asset_event.asset, str(payload["watcher"]), str(payload.get("instant")))


class HoodieCommitsPlugin(AirflowPlugin):
    name = "hoodie_commits"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 (Airflow declares it so)
