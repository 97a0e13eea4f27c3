"""The asset state store in Airflow's own processes, by its database session."""

from __future__ import annotations

import json
import logging
from typing import Any

from airflow import settings
from airflow.models.asset import AssetModel
from airflow.state import AssetScope, get_state_backend
from airflow.state.metastore import MetastoreBackend
from sqlalchemy import select

from airflow_hoodie.triggers.commits import EVENTS_KEY, OFFSET_KEY, events_of
from airflow_hoodie.watch_offset import WatchOffset

log = logging.getLogger(__name__)


def note_event(asset: Any, watcher: str, instant: str) -> None:
    """Add an instant to those that a watcher's events of this asset named, in the thread's open transaction.

    Nothing where the state is not kept in Airflow's database, or where no transaction is open: then the
    watcher's own offset has to do. What that offset covers by now is dropped from the list.
    """
    backend = get_state_backend()
    session = settings.Session() if settings.Session is not None else None
    if session is None or not session.in_transaction() or not isinstance(backend, MetastoreBackend):
        log.warning("No transaction to note the event %s of %s in", instant, watcher)
        return
    with session.begin_nested():
        asset_id = session.scalar(
            select(AssetModel.id).where(AssetModel.name == asset.name, AssetModel.uri == asset.uri)
        )
        if asset_id is None:
            return
        scope = AssetScope(asset_id=asset_id)

        def stored(key: str) -> Any:
            text = backend.get(scope, f"{key}:{watcher}", session=session)
            return None if text is None else json.loads(text)

        offset = WatchOffset.from_dict(stored(OFFSET_KEY)) or WatchOffset()
        waiting = [item for item in events_of(stored(EVENTS_KEY)) if not offset.covers(item)]
        value = json.dumps([*waiting, instant])
        backend.set(scope, f"{EVENTS_KEY}:{watcher}", value, session=session)
