"""Layout two, of table versions 8 and 9: `.hoodie/timeline/<time>[_<completion>].<action>[.<state>]`, commits
are Avro (format.md 15.3; Apache Hudi 1.2.0 InstantFileNameParserV2, CommitMetadataSerDeV2).

Completed files that an upgrade left without a completion time are those of layout one: the file's
modification time is the completion, the content is JSON.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from hoodie.config.versions import LayoutVersion
from hoodie.errors import TableError
from hoodie.format.names import META_FOLDER
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, json_object
from hoodie.timeline.instant import COMPLETES_AS, Action, Instant, State, is_time
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.layout import Layout
from hoodie.timeline.time import InstantTime

_FOLDER = f"{META_FOLDER}/timeline"
_AVRO = b"Obj\x01"
#: of a time with milliseconds
_DIGITS = 17
#: names that are parsed once: an operation lists the timeline several times
_KNOWN = 1 << 14
#: commits that are parsed once, of at most so many bytes each
_KNOWN_COMMITS, _KNOWN_BYTES = 128, 1 << 14

_PENDING = {
    "inflight": (Action.COMMIT, State.INFLIGHT),
    **{
        f"{action.value}.{state.name.lower()}": (action, state)
        for action in Action
        for state in (State.REQUESTED, State.INFLIGHT)
    },
}
_PENDING_SUFFIX = {kind: suffix for suffix, kind in reversed(_PENDING.items())}
_COMPLETED = {action.value: action for action in Action if action not in COMPLETES_AS}

_COMPLETED_SUFFIX = {action: COMPLETES_AS.get(action, action).value for action in Action}


class LayoutTwo(Layout):
    version = LayoutVersion.TWO
    folder = _FOLDER
    has_completion_time = True
    completes_as = COMPLETES_AS
    clustering = Action.CLUSTERING

    def parse(self, name: str) -> Instant | None:
        return _parsed(name)

    def name(self, instant: Instant) -> str:
        if instant.state is not State.COMPLETED:
            return f"{instant.time}.{_PENDING_SUFFIX[instant.action, instant.state]}"
        completion = f"_{instant.completion}" if instant.completion else ""
        return f"{instant.time}{completion}.{_COMPLETED_SUFFIX[instant.action]}"

    def instants(self, listing: Collection[str]) -> tuple[tuple[Instant, ...], list[str]]:
        best: dict[tuple[InstantTime, Action], _Listed] = {}
        names: list[str] = []
        for name in listing:
            found = _listed(name)
            if found is None:
                continue
            names.append(name)
            other = best.setdefault(found.key, found)
            if other is found:
                continue
            if other.rank < found.rank:
                best[found.key] = found
            if other.instant.completion and found.instant.completion:
                there = self.name(other.instant)
                raise _ambiguous(f"{self.folder}/{there} and {self.folder}/{name} complete one instant")
        return tuple(item.instant for item in sorted(best.values(), key=_requested_order)), names

    def archive_folder(self, base_path: str, configured: str) -> str:
        return f"{base_path}/{_FOLDER}/history"

    def commit_value(self, action: Action, data: bytes) -> Mapping[str, Any]:
        if not data.startswith(_AVRO):
            return json_object(data)
        read = _known_value if len(data) <= _KNOWN_BYTES else _value
        return read(_model(action is Action.REPLACECOMMIT), data)

    def inflight_clean(self, plan: bytes) -> bytes:
        return b""

    def content(self, metadata: Metadata) -> bytes:
        if not isinstance(metadata, CommitMetadata):
            return metadata.to_bytes()
        from hoodie.codec.avro import write_record

        record = metadata.to_dict()
        extra = {name: text or "" for name, text in metadata.extra_metadata.items()}
        model = _model(isinstance(metadata, ReplaceCommitMetadata))
        return write_record(model, {**record, "extraMetadata": extra})


def _value(model: str, data: bytes) -> Mapping[str, Any]:
    from hoodie.codec.avro import read_record

    try:
        return read_record(model, data)
    except TableError as error:
        raise ValueError(error.message) from None


#: by their content: each write looks at the commits of the timeline
_known_value = functools.lru_cache(_KNOWN_COMMITS)(_value)


@functools.lru_cache(_KNOWN)
def _parsed(name: str) -> Instant | None:
    time, _, suffix = name.partition(".")
    pending = _PENDING.get(suffix)
    if pending is not None:
        return Instant(InstantTime(time), *pending) if is_time(time) else None
    action = _COMPLETED.get(suffix)
    time, under, completion = time.partition("_")
    if action is None or not is_time(time) or (under and not is_time(completion)):
        return None
    completed = InstantTime(completion) if completion else None
    return Instant(InstantTime(time), action, State.COMPLETED, completed)


class _Listed(NamedTuple):
    """`key`: of the instant in any state. `rank`: of its states the highest counts."""

    instant: Instant
    key: tuple[InstantTime, Action]
    rank: tuple[State, str]
    order: tuple[str, Action, State]


_requested_order = operator.attrgetter("order")


@functools.lru_cache(_KNOWN)
def _listed(name: str) -> _Listed | None:
    instant = _parsed(name)
    if instant is None:
        return None
    if instant.completion is not None:
        _check_completion(instant, name)
    key = (instant.time, instant.comparable_action)
    return _Listed(instant, key, (instant.state, str(instant.completion or "")), instant.requested_order)


def _check_completion(instant: Instant, name: str) -> None:
    """Raises TableError where the name of a completed file has a time of completion that can't be. Times of a
    metadata table may have digits more, those of old releases have less.
    """
    completion, digits = str(instant.completion), str(instant.time)[:_DIGITS]
    if len(completion) == _DIGITS and completion[: len(digits)] >= digits:
        return
    raise _ambiguous(f"{_FOLDER}/{name} has a time of completion that is none, or is before the request")


def _ambiguous(what: str) -> TableError:
    return TableError(
        f"{what}: times of completion say which rows are the newest; restore the right name from a copy of "
        "the folder",
        path=_FOLDER,
    )


def _model(replaces: bool) -> str:
    return "HoodieReplaceCommitMetadataV8" if replaces else "HoodieCommitMetadataV8"


TWO = LayoutTwo()
