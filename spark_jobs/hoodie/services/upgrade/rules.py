"""What a change of the table version makes of hoodie.properties, version by version (format.md 15.2, 15.14;
Apache Hudi 1.2.0, SevenToEightUpgradeHandler, EightToNineUpgradeHandler and the ways back).

Pure functions of texts. The ways differ from Apache Hudi's in this:

- An upgrade from 6 to 9 is one to 8 and one to 9. The payload class that version 9 keeps for a downgrade fits
  its mode so.
- A downgrade to 6 says how rows merge in every case. Apache Hudi leaves it out where version 9 has a mode
  alone. Its table of the newest commit becomes one of the largest ordering value.
- No property is written under two names.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hoodie.config import versions
from hoodie.table.later_names import KEY_GENERATOR, KEY_GENERATOR_TYPE, key_generator_type, older_names
from hoodie.table.merge_rule import (
    DEFAULT_MERGER_STRATEGY,
    LEGACY_PAYLOAD_CLASS,
    MERGE_MODE,
    MERGE_STRATEGY,
    MERGER_STRATEGY,
    ORDERING_FIELDS,
    PARTIAL_UPDATE_MODE,
    PAYLOAD_CLASS,
    PAYLOADS,
    PRECOMBINE_FIELD,
    VERSION,
    MergeMode,
    MergeRule,
    strategy_of,
)
from hoodie.table.new_merging import BUILT_IN
from hoodie.table.properties import INITIAL_VERSION

Texts = dict[str, str]

_MODEL = "org.apache.hudi.common.model."
_EVENT_TIME = PAYLOADS[MergeMode.EVENT_TIME_ORDERING]
_COMMIT_TIME = PAYLOADS[MergeMode.COMMIT_TIME_ORDERING]
_BY_EVENT_TIME = _MODEL + "EventTimeAvroPayload"
_PARTIAL = _MODEL + "PartialUpdateAvroPayload"
_NON_DEFAULTS = _MODEL + "OverwriteNonDefaultsWithLatestAvroPayload"
_MYSQL = _MODEL + "debezium.MySqlDebeziumAvroPayload"

#: payload classes that have a mode of their own since version 9
_MODES = {name: mode for name, (mode, said) in BUILT_IN.items() if said}
#: what else version 9 says instead of a payload class
_INSTEAD: Mapping[str, Mapping[str, str]] = {
    name: {key: text for key, text in said.items() if key != ORDERING_FIELDS}
    for name, (_, said) in BUILT_IN.items()
}
_ORDERING = {name: said[ORDERING_FIELDS] for name, (_, said) in BUILT_IN.items() if ORDERING_FIELDS in said}
_MYSQL_OLDER_ORDERING = "_event_seq"

_TYPE = "hoodie.table.type"
_LAYOUT = "hoodie.timeline.layout.version"
_ARCHIVE = "hoodie.archivelog.folder"
_PARTITION_FIELDS = "hoodie.table.partition.fields"
_PATHS = {"hoodie.timeline.path": "timeline", "hoodie.timeline.history.path": "history"}
#: known since version 8 alone
_SINCE_8 = (*_PATHS, INITIAL_VERSION, KEY_GENERATOR_TYPE, "hoodie.table.index.defs.path")


def changed(
    texts: Mapping[str, str], to: int, payload: str | None = None, missing: Mapping[str, str] | None = None
) -> dict[str, str | None]:
    """The properties that change on the way to version `to`, None for one that goes.

    `payload`: the class by which writers merge where the table names none. `missing`: what a table below
    version 6 lacks.
    """
    found = {**texts, VERSION: texts.get(VERSION, "0"), **(missing or {})}
    way = _UP if int(found[VERSION]) < to else _DOWN
    while int(found[VERSION]) != to:
        number, step = way[int(found[VERSION])]
        found = step(found, payload)
        found[VERSION] = str(number)
        found[_LAYOUT] = str(versions.VERSIONS[number].layout.value)
    gone = dict.fromkeys(name for name in texts if name not in found)
    return {**gone, **{name: text for name, text in found.items() if texts.get(name) != text}}


def applied(texts: Mapping[str, str], changes: Mapping[str, str | None]) -> Texts:
    """The texts with changes."""
    left = {name: text for name, text in texts.items() if name not in changes}
    return left | {name: text for name, text in changes.items() if text is not None}


def merges_otherwise(texts: Mapping[str, str], changes: Mapping[str, str | None]) -> bool:
    """Whether logs of a merge-on-read table would be merged to other rows afterwards: where a payload class
    has no mode that does the same.
    """
    return _merging(texts) != _merging(applied(texts, changes))


def _merging(texts: Mapping[str, str]) -> str:
    """A name for how logs are merged."""
    rule = MergeRule.of(texts)
    payload = rule.payload_class or PAYLOADS.get(rule.mode, "")
    if rule.by_mode:
        marked = rule.delete_field or rule.unavailable
        if marked or (rule.partial_update_mode and rule.mode is MergeMode.COMMIT_TIME_ORDERING):
            return f"{rule.mode} {rule.partial_update_mode} {rule.delete_field}"
        payload = _PARTIAL if rule.partial_update_mode else PAYLOADS[rule.mode]
    elif rule.later and payload == _NON_DEFAULTS:
        return f"{payload} in the order of logs"
    payload = _EVENT_TIME if payload == _BY_EVENT_TIME else payload
    if payload == _COMMIT_TIME and not rule.by_mode and rule.ordering_fields:
        return f"{payload} of {rule.ordering_fields}"
    # without an ordering field the newest row wins
    return _COMMIT_TIME if payload == _EVENT_TIME and not rule.ordering_fields else payload


def _older_to_six(texts: Texts, payload: str | None) -> Texts:
    return dict(texts)


def _six_to_eight(texts: Texts, payload: str | None) -> Texts:
    found = {**texts, **_PATHS}
    found[INITIAL_VERSION] = texts[VERSION]
    if (kind := key_generator_type(texts.get(KEY_GENERATOR))) is not None:
        found[KEY_GENERATOR_TYPE] = kind
    named = _renamed(texts.get(PAYLOAD_CLASS) or payload)
    ordering = texts.get(ORDERING_FIELDS) or texts.get(PRECOMBINE_FIELD)
    mode, named = _mode_of_six(named, texts.get(_TYPE, "").upper() == "MERGE_ON_READ", bool(ordering))
    found.pop(MERGER_STRATEGY, None)
    found[PAYLOAD_CLASS], found[MERGE_MODE] = named, mode.value
    found[MERGE_STRATEGY] = strategy_of(mode)
    return found


def _mode_of_six(payload: str | None, logs: bool, ordering: bool) -> tuple[MergeMode, str]:
    """The mode and the payload class in version 8. Logs of tables with an ordering field are merged by it,
    whichever of the usual classes the table has.
    """
    if payload is None:
        payload = _EVENT_TIME if ordering else _COMMIT_TIME
    if payload not in (_EVENT_TIME, _BY_EVENT_TIME, _COMMIT_TIME):
        return MergeMode.CUSTOM, payload
    if payload == _EVENT_TIME or (logs and ordering):
        return MergeMode.EVENT_TIME_ORDERING, _EVENT_TIME
    return MergeMode.COMMIT_TIME_ORDERING, _COMMIT_TIME


def _eight_to_nine(texts: Texts, payload: str | None) -> Texts:
    found = dict(texts)
    named = texts.get(PAYLOAD_CLASS) or ""
    ordering = _ORDERING.get(named) or texts.get(ORDERING_FIELDS) or texts.get(PRECOMBINE_FIELD)
    found.pop(PRECOMBINE_FIELD, None)
    if ordering:
        found[ORDERING_FIELDS] = ordering
    if named in BUILT_IN:
        found[LEGACY_PAYLOAD_CLASS] = found.pop(PAYLOAD_CLASS)
        found |= _INSTEAD.get(named, {})
    if named in _MODES:
        found[MERGE_MODE] = _MODES[named].value
    if found.get(MERGE_MODE) != MergeMode.CUSTOM.value:
        found.pop(MERGE_STRATEGY, None)
        found.pop(MERGER_STRATEGY, None)
    return found


def _nine_to_eight(texts: Texts, payload: str | None) -> Texts:
    found = dict(texts)
    legacy = found.pop(LEGACY_PAYLOAD_CLASS, "")
    found.pop(PARTIAL_UPDATE_MODE, None)
    if legacy in BUILT_IN:
        found[PAYLOAD_CLASS] = legacy
        for name in _INSTEAD.get(legacy, {}):
            found.pop(name, None)
    mode = MergeMode(found.get(MERGE_MODE, MergeMode.CUSTOM.value))
    if legacy in _MODES:
        mode = MergeMode.CUSTOM
    elif mode is not MergeMode.CUSTOM:
        found[PAYLOAD_CLASS] = PAYLOADS[mode] if legacy != _BY_EVENT_TIME else legacy
    found[MERGE_MODE] = mode.value
    if mode is not MergeMode.CUSTOM or legacy in _MODES:
        found[MERGE_STRATEGY] = strategy_of(mode)
        found.pop(MERGER_STRATEGY, None)
    ordering = _MYSQL_OLDER_ORDERING if legacy == _MYSQL else found.get(ORDERING_FIELDS)
    found.pop(ORDERING_FIELDS, None)
    if ordering:
        found[PRECOMBINE_FIELD] = ordering
    return found


def _eight_to_six(texts: Texts, payload: str | None) -> Texts:
    found = {**texts, **older_names(texts)}
    mode = found.pop(MERGE_MODE, MergeMode.CUSTOM.value)
    if not found.get(PAYLOAD_CLASS) and mode != MergeMode.CUSTOM.value:
        found[PAYLOAD_CLASS] = PAYLOADS[MergeMode(mode)]
    found.pop(MERGE_STRATEGY, None)
    found.pop(MERGER_STRATEGY, None)
    if found.get(_TYPE, "").upper() == "MERGE_ON_READ":
        found[MERGER_STRATEGY] = DEFAULT_MERGER_STRATEGY
    if ordering := found.pop(ORDERING_FIELDS, ""):
        found[PRECOMBINE_FIELD] = ordering
    for name in _SINCE_8:
        found.pop(name, None)
    if found.get(_ARCHIVE, _PATHS["hoodie.timeline.history.path"]) == _PATHS["hoodie.timeline.history.path"]:
        found[_ARCHIVE] = "archived"
    if fields := found.get(_PARTITION_FIELDS):
        found[_PARTITION_FIELDS] = ",".join(item.partition(":")[0] for item in fields.split(","))
    return found


def _renamed(payload: str | None) -> str | None:
    """Of releases before Apache's."""
    return payload.replace("com.uber.hoodie", "org.apache.hudi") if payload else None


_Step = Callable[[Texts, str | None], Texts]
_UP: Mapping[int, tuple[int, _Step]] = {
    **dict.fromkeys(range(6), (6, _older_to_six)),
    6: (8, _six_to_eight),
    8: (9, _eight_to_nine),
}
_DOWN: Mapping[int, tuple[int, _Step]] = {9: (8, _nine_to_eight), 8: (6, _eight_to_six)}
