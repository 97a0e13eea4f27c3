"""How rows of a table merge, as its hoodie.properties say it, for every table version.

Stdlib only. `table` is below `merge`: the rule names a payload class, and `merge.MERGERS` has its merger.
Format: spec sections 15.2 and 15.8. Source: Apache Hudi 1.2.0, HoodieTableConfig, HoodieRecordMerger.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.config import versions

VERSION = "hoodie.table.version"
PRECOMBINE_FIELD = "hoodie.table.precombine.field"
ORDERING_FIELDS = "hoodie.table.ordering.fields"
PAYLOAD_CLASS = "hoodie.compaction.payload.class"
LEGACY_PAYLOAD_CLASS = "hoodie.table.legacy.payload.class"
MERGE_MODE = "hoodie.record.merge.mode"
MERGE_STRATEGY = "hoodie.record.merge.strategy.id"
MERGER_STRATEGY = "hoodie.compaction.record.merger.strategy"
PARTIAL_UPDATE_MODE = "hoodie.table.partial.update.mode"
MERGE_PROPERTY = "hoodie.record.merge.property."
DELETE_FIELD = f"{MERGE_PROPERTY}hoodie.payload.delete.field"
DELETE_MARKER = f"{MERGE_PROPERTY}hoodie.payload.delete.marker"
UNAVAILABLE = f"{MERGE_PROPERTY}hoodie.write.partial.update.unavailable.value"


class MergeMode(enum.Enum):
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class PartialUpdateMode(enum.Enum):
    """Which values of the surviving row give way to those of the other row."""

    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"


_MODEL = "org.apache.hudi.common.model."
#: the payload class that does what a mode says
PAYLOADS = {
    MergeMode.EVENT_TIME_ORDERING: _MODEL + "DefaultHoodieRecordPayload",
    MergeMode.COMMIT_TIME_ORDERING: _MODEL + "OverwriteWithLatestAvroPayload",
}
_PAYLOADS_BY_NAME = {mode.value: name for mode, name in PAYLOADS.items()}
#: by which Apache Hudi 0.15.0 merges the logs of a table that names no payload class
DEFAULT_PAYLOAD_CLASS = PAYLOADS[MergeMode.COMMIT_TIME_ORDERING]
DEFAULT_MERGER_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
#: the ids of the strategies that do what a mode says
STRATEGIES = {
    MergeMode.EVENT_TIME_ORDERING: DEFAULT_MERGER_STRATEGY,
    MergeMode.COMMIT_TIME_ORDERING: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}
_STRATEGIES = {text: mode for mode, text in STRATEGIES.items()}
#: the merger is that of the payload class
BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"
#: the modes of payload classes; of all others it is CUSTOM
_MODES = {name: mode for mode, name in PAYLOADS.items()} | {
    _MODEL + "EventTimeAvroPayload": MergeMode.EVENT_TIME_ORDERING
}


def mode_of(payload: str) -> MergeMode:
    """The mode of a payload class, as version 8 has it."""
    return _MODES.get(payload, MergeMode.CUSTOM)


def strategy_of(mode: MergeMode) -> str:
    """The id of the strategy that version 8 has beside a mode."""
    return STRATEGIES.get(mode, BY_PAYLOAD)


@dataclass(frozen=True)
class MergeRule:
    """What the properties of a table say of two rows with the same key.

    strategy_id: under either of its names; None where the table has none.
    ordering_fields: those that count, none where the newest commit wins whatever they say.
    named_fields: those that the table names, whether they count or not.
    precombine_field: the one ordering field, as versions up to 6 know it; several under the older name are as
    they are stored.
    payload_class: as stored, or the one that does what the mode or the strategy says; None where the table
    says nothing. legacy_payload_class: which version 9 keeps for downgrades alone.
    delete_field, delete_marker: a row with this value in this column is a delete.
    unavailable: the value that gives way in FILL_UNAVAILABLE.
    problem: what is not followed by this package, as `name=value`; None where a merger of it does the rest.
    by_mode: the mode says all, as it does since version 8 where it is not CUSTOM.
    later: of version 8 or later.
    """

    mode: MergeMode
    strategy_id: str | None
    ordering_fields: tuple[str, ...]
    named_fields: tuple[str, ...]
    precombine_field: str | None
    payload_class: str | None
    legacy_payload_class: str | None
    partial_update_mode: PartialUpdateMode | None
    delete_field: str | None
    delete_marker: str | None
    unavailable: str | None
    problem: str | None
    by_mode: bool
    later: bool

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> MergeRule:
        """Of the texts of hoodie.properties, by the names in the file."""
        said, fields = _said(texts), _ordering_fields(texts)
        payload = texts.get(PAYLOAD_CLASS) or _PAYLOADS_BY_NAME.get(said)
        renamed = payload.replace("com.uber.hoodie", "org.apache.hudi") if payload else None
        strategy = (texts.get(MERGE_STRATEGY) or texts.get(MERGER_STRATEGY) or "").lower() or None
        modern = int(texts.get(VERSION) or 0) >= versions.MERGE_MODE_SINCE
        inferred = _mode(texts, said, strategy if modern else None, renamed)
        mode = inferred or (MergeMode.EVENT_TIME_ORDERING if fields else MergeMode.COMMIT_TIME_ORDERING)
        # in logs, too, unlike in 0.15.0, whose tables say it by the payload class alone
        by_commit_time = (mode.value if modern else said) == MergeMode.COMMIT_TIME_ORDERING.value
        counted = () if by_commit_time else fields
        partial = (texts.get(PARTIAL_UPDATE_MODE) or "").upper()
        by_mode = modern and mode is not MergeMode.CUSTOM
        problem = _later_problem(texts, fields) if by_mode else _problem(texts, fields, counted, payload)
        problem = problem or _mode_problem(texts, modern)
        return cls(
            mode=mode,
            strategy_id=strategy,
            ordering_fields=counted,
            named_fields=fields,
            precombine_field=texts.get(PRECOMBINE_FIELD) or (counted[0] if len(counted) == 1 else None),
            payload_class=renamed,
            legacy_payload_class=texts.get(LEGACY_PAYLOAD_CLASS) or None,
            partial_update_mode=PartialUpdateMode.__members__.get(partial),
            delete_field=texts.get(DELETE_FIELD) or None,
            delete_marker=texts.get(DELETE_MARKER) or None,
            unavailable=texts.get(UNAVAILABLE) or None,
            problem=problem,
            by_mode=by_mode and problem is None,
            later=modern,
        )

    @property
    def merger(self) -> str | None:
        """The payload class whose merger merges the table's logs; None where there is a problem.

        A class that `merge.MERGERS` lacks is a program of somebody's own.
        """
        return None if self.problem else self.payload_class or DEFAULT_PAYLOAD_CLASS


def _ordering_fields(texts: Mapping[str, str]) -> tuple[str, ...]:
    """By the newer name, which goes before the older one."""
    return _names(texts.get(ORDERING_FIELDS) or texts.get(PRECOMBINE_FIELD) or "")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _said(texts: Mapping[str, str]) -> str:
    """The mode that the table says itself, or by the newer name of its strategy."""
    by_strategy = _STRATEGIES.get((texts.get(MERGE_STRATEGY) or "").lower())
    return (texts.get(MERGE_MODE) or (by_strategy.value if by_strategy else "")).upper()


def _mode(texts: Mapping[str, str], said: str, strategy: str | None, payload: str | None) -> MergeMode | None:
    """As the table says it, or as Apache Hudi 1.2.0 infers it; None where the table says nothing.

    Of versions that have modes the strategy goes before the payload class. Of older ones it is the default
    beside any class, and not given here.
    """
    if not texts.get(MERGE_MODE) and strategy and strategy != BY_PAYLOAD:
        return _STRATEGIES.get(strategy, MergeMode.CUSTOM)
    if not texts.get(MERGE_MODE) and payload:
        return _MODES.get(payload, MergeMode.CUSTOM)
    return MergeMode.__members__.get(said, MergeMode.CUSTOM) if said else None


def _problem(
    texts: Mapping[str, str], fields: tuple[str, ...], counted: tuple[str, ...], payload: str | None
) -> str | None:
    """What the table says of ordering, partial updates and payloads that is not done here."""
    if len(counted) > 1:
        return f"{ORDERING_FIELDS}={','.join(counted)}"
    old = texts.get(PRECOMBINE_FIELD)
    if texts.get(ORDERING_FIELDS) and old and (old,) != fields:
        return f"{ORDERING_FIELDS}={texts[ORDERING_FIELDS]} beside {PRECOMBINE_FIELD}={old}"
    if texts.get(PARTIAL_UPDATE_MODE):
        return f"{PARTIAL_UPDATE_MODE}={texts[PARTIAL_UPDATE_MODE]}"
    for name, text in texts.items():
        if name.startswith(MERGE_PROPERTY):
            return f"{name}={text}"
    legacy = texts.get(LEGACY_PAYLOAD_CLASS)
    if legacy and legacy != payload:
        return f"{LEGACY_PAYLOAD_CLASS}={legacy}"
    return None


def _later_problem(texts: Mapping[str, str], fields: tuple[str, ...]) -> str | None:
    """As `_problem`, since version 8. A legacy payload class is there for downgrades alone."""
    old = _names(texts.get(PRECOMBINE_FIELD) or "")
    if texts.get(ORDERING_FIELDS) and old and old != fields:
        return f"{ORDERING_FIELDS}={texts[ORDERING_FIELDS]} beside {PRECOMBINE_FIELD}={','.join(old)}"
    partial = texts.get(PARTIAL_UPDATE_MODE) or ""
    if partial and partial.upper() not in PartialUpdateMode.__members__:
        return f"{PARTIAL_UPDATE_MODE}={partial}"
    marker = [bool(texts.get(name)) for name in (DELETE_FIELD, DELETE_MARKER)]
    known = {UNAVAILABLE, *((DELETE_FIELD, DELETE_MARKER) if all(marker) else ())}
    for name, text in texts.items():
        if name.startswith(MERGE_PROPERTY) and name not in known:
            return f"{name}={text}"
    return None


def _mode_problem(texts: Mapping[str, str], modern: bool) -> str | None:
    """A merge mode, or a strategy, that is not that of the payload class, or is a program of somebody's own.

    Of version 6 the payload class goes before the strategy's id, which is the default beside any class.
    """
    payload, text = texts.get(PAYLOAD_CLASS), (texts.get(MERGE_MODE) or "").upper()
    mode = MergeMode.__members__.get(text)
    own = mode is MergeMode.CUSTOM
    said = _MODES.get(payload or "") if modern else None
    if text and not own and payload and (mode is None or (PAYLOADS[mode] != payload and said is not mode)):
        return f"{MERGE_MODE}={text} beside {PAYLOAD_CLASS}={payload}"
    if text and mode is None:
        return f"{MERGE_MODE}={text}"
    for name in (MERGE_STRATEGY, MERGER_STRATEGY):
        strategy = (texts.get(name) or "").lower()
        if strategy and strategy != BY_PAYLOAD and strategy not in _STRATEGIES:
            return f"{name}={strategy}"
    return f"{MERGE_MODE}={text} without {PAYLOAD_CLASS}" if own and not payload else None
