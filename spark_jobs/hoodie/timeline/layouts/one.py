"""Layout one, of table versions up to 7: `.hoodie/<time>.<action>[.<state>]`, commits are JSON."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

from hoodie.config.versions import LayoutVersion
from hoodie.timeline.commit import CommitMetadata, json_object
from hoodie.timeline.instant import Action, Instant, State, is_time
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.layout import Layout
from hoodie.timeline.time import InstantTime

_ACTIONS = [action for action in Action if action is not Action.CLUSTERING]
_COMPLETES_AS = {Action.COMPACTION: Action.COMMIT, Action.LOGCOMPACTION: Action.DELTACOMMIT}

#: what follows the time in a file's name -> action and state
_KINDS = {
    "inflight": (Action.COMMIT, State.INFLIGHT),
    **{action.value: (action, State.COMPLETED) for action in _ACTIONS},
    **{
        f"{action.value}.{state.name.lower()}": (action, state)
        for action in _ACTIONS
        for state in (State.REQUESTED, State.INFLIGHT)
    },
}
_SUFFIX_OF: dict[tuple[Action, State], str] = {
    **{kind: suffix for suffix, kind in reversed(_KINDS.items())},
    **{(service, State.COMPLETED): action.value for service, action in _COMPLETES_AS.items()},
}

#: names that are taken apart once: an operation lists the timeline several times
_KNOWN = 1 << 14


class LayoutOne(Layout):
    version = LayoutVersion.ONE
    completes_as = _COMPLETES_AS

    def parse(self, name: str) -> Instant | None:
        time, _, suffix = name.partition(".")
        kind = _KINDS.get(suffix)
        return None if kind is None or not is_time(time) else Instant(InstantTime(time), *kind)

    def name(self, instant: Instant) -> str:
        return f"{instant.time}.{_SUFFIX_OF[instant.action, instant.state]}"

    def requested_name(self, time: str, action: Action) -> str:
        return f"{time}.{_SUFFIX_OF[action, State.REQUESTED]}"

    def instants(self, listing: Collection[str]) -> tuple[tuple[Instant, ...], list[str]]:
        best: dict[tuple[str, Action], tuple[str, Action, State]] = {}
        names: list[str] = []
        for name in listing:  # thousands at each poll of a sensor, so no Instant for what is not kept
            found = _listed(name)
            if found is None:
                continue
            names.append(name)
            key, instant = found
            other = best.setdefault(key, instant)
            if other[2] < instant[2]:
                best[key] = instant
        return tuple(
            Instant(InstantTime(time), action, state) for time, action, state in sorted(best.values())
        ), names

    def commit_value(self, action: Action, data: bytes) -> Mapping[str, Any]:
        return json_object(data)

    def content(self, metadata: Metadata) -> bytes:
        return metadata.to_json() if isinstance(metadata, CommitMetadata) else metadata.to_bytes()


@functools.lru_cache(_KNOWN)
def _listed(name: str) -> tuple[tuple[str, Action], tuple[str, Action, State]] | None:
    """The instant in any state, and in that of the file."""
    time, _, suffix = name.partition(".")
    kind = _KINDS.get(suffix)
    if kind is None or not is_time(time):
        return None
    action, state = kind
    return (time, _COMPLETES_AS.get(action, action)), (time, action, state)


ONE = LayoutOne()
