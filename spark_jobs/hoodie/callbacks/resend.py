"""Delivers by hand what is kept of a table's messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hoodie.callbacks import MessageCallback
from hoodie.callbacks.choice import callback_of
from hoodie.callbacks.delivery import Sender, kept
from hoodie.callbacks.notes import Notes
from hoodie.callbacks.settings import CLASS
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.table.handle import Table
from hoodie.timeline.time import texts_of_times


@dataclass(frozen=True, kw_only=True)
class ResendResult:
    """`status`: `sent`; `failed`, for `reason`; `skipped`, for `reason`; `planned` with dry_run. `delivered`
    and `left`: instants, oldest first.
    """

    table: str
    status: str
    delivered: list[str]
    left: list[str]
    reason: str = ""

    def __post_init__(self) -> None:
        texts_of_times(self)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def resend(path: str, options: Mapping[str, Any], dry_run: bool) -> ResendResult:
    """Raises HoodieError for wrong settings and for what is no table; a delivery that fails is a result."""
    config = Config.of(options)
    table = Table.open(path, config)
    notes = Notes(table)
    if dry_run:
        return _result(table, "planned", left=[note.time for note in notes.due(clean=False)])
    callback = callback_of(config)
    if not isinstance(callback, MessageCallback):
        raise ConfigError(
            f"{CLASS.name}={config[CLASS]!r} keeps no messages; derive it from "
            "hoodie.callbacks.MessageCallback",
            setting=CLASS.name,
        )
    notes.sweep()
    done = Sender(callback=callback, config=config, once=False).deliver(table)
    if done.problem:
        return _result(table, "failed", list(done.delivered), list(done.left), kept(done))
    if done.busy:
        return _result(table, "skipped", reason="another process delivers them now")
    if not done.delivered:
        return _result(table, "skipped", reason="every message is delivered")
    return _result(table, "sent", list(done.delivered))


def _result(
    table: Table,
    status: str,
    delivered: list[str] | None = None,
    left: list[str] | None = None,
    reason: str = "",
) -> ResendResult:
    return ResendResult(
        table=table.base_path, status=status, delivered=delivered or [], left=left or [], reason=reason
    )
