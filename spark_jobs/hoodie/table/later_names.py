"""Properties that Apache Hudi 1.0 to 1.2 give tables of version 6 under other names than 0.15.0.

Stdlib only. What has the same meaning is found by its older name; what says more is refused by `features`.
Source: Apache Hudi 1.2.0, HoodieTableConfig, KeyGeneratorType, HoodieRecordMerger.
"""

from __future__ import annotations

from collections.abc import Mapping

PRECOMBINE_FIELD = "hoodie.table.precombine.field"
ORDERING_FIELDS = "hoodie.table.ordering.fields"
KEY_GENERATOR = "hoodie.table.keygenerator.class"
KEY_GENERATOR_TYPE = "hoodie.table.keygenerator.type"
PAYLOAD_CLASS = "hoodie.compaction.payload.class"
LEGACY_PAYLOAD_CLASS = "hoodie.table.legacy.payload.class"
MERGE_MODE = "hoodie.record.merge.mode"
MERGE_STRATEGY = "hoodie.record.merge.strategy.id"
MERGER_STRATEGY = "hoodie.compaction.record.merger.strategy"
PARTIAL_UPDATE_MODE = "hoodie.table.partial.update.mode"
MERGE_PROPERTY = "hoodie.record.merge.property."
BASE_FILE_FORMAT = "hoodie.table.base.file.format"
RO_FILE_FORMAT = "hoodie.table.ro.file.format"

_KEYGEN, _MODEL = "org.apache.hudi.keygen.", "org.apache.hudi.common.model."
#: by type, those of the same name with _AVRO included
_KEY_GENERATORS = {
    "SIMPLE": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "TIMESTAMP": "TimestampBasedKeyGenerator",
    "CUSTOM": "CustomKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "GLOBAL_DELETE": "GlobalDeleteKeyGenerator",
    "AUTO_RECORD": "AutoRecordGenWrapperKeyGenerator",
}
_SQL = "org.apache.spark.sql.hudi.command."
_SQL_KEY_GENERATORS = {
    "SPARK_SQL": "SqlKeyGenerator",
    "SPARK_SQL_UUID": "UuidKeyGenerator",
    "SPARK_SQL_MERGE_INTO": "MergeIntoKeyGenerator",
}
_EVENT_TIME, _COMMIT_TIME = _MODEL + "DefaultHoodieRecordPayload", _MODEL + "OverwriteWithLatestAvroPayload"
_MODES = {"EVENT_TIME_ORDERING": _EVENT_TIME, "COMMIT_TIME_ORDERING": _COMMIT_TIME}
_STRATEGIES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": "EVENT_TIME_ORDERING",
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": "COMMIT_TIME_ORDERING",
}
#: the merger is that of the payload class
_BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"


def older_names(texts: Mapping[str, str]) -> dict[str, str]:
    """Properties by their older names, for those that the table has under newer ones alone."""
    found = {
        PRECOMBINE_FIELD: _ordering(texts),
        KEY_GENERATOR: _key_generator(texts),
        PAYLOAD_CLASS: _payload(texts),
        BASE_FILE_FORMAT: texts.get(RO_FILE_FORMAT),
    }
    return {name: text for name, text in found.items() if text and not texts.get(name)}


def ordering_fields(texts: Mapping[str, str]) -> list[str]:
    """By the newer name, which goes before the older one."""
    text = texts.get(ORDERING_FIELDS) or texts.get(PRECOMBINE_FIELD) or ""
    return [part.strip() for part in text.split(",") if part.strip()]


def merging_problem(texts: Mapping[str, str]) -> str | None:
    """What the table says of merging rows that is not done here, as `name=value`; None where nothing is."""
    if len(ordering_fields(texts)) > 1 and not _by_commit_time(texts):
        return f"{ORDERING_FIELDS}={','.join(ordering_fields(texts))}"
    old = texts.get(PRECOMBINE_FIELD)
    if texts.get(ORDERING_FIELDS) and old and [old] != ordering_fields(texts):
        return f"{ORDERING_FIELDS}={texts[ORDERING_FIELDS]} beside {PRECOMBINE_FIELD}={old}"
    if texts.get(PARTIAL_UPDATE_MODE):
        return f"{PARTIAL_UPDATE_MODE}={texts[PARTIAL_UPDATE_MODE]}"
    for name, text in texts.items():
        if name.startswith(MERGE_PROPERTY):
            return f"{name}={text}"
    payload, legacy = texts.get(PAYLOAD_CLASS), texts.get(LEGACY_PAYLOAD_CLASS)
    if legacy and legacy != (payload or _payload(texts)):
        return f"{LEGACY_PAYLOAD_CLASS}={legacy}"
    return _mode_problem(texts, payload)


def key_generator_problem(texts: Mapping[str, str]) -> str | None:
    """A type of key generator that is none of Apache Hudi's, or has no class, as `name=value`."""
    text = texts.get(KEY_GENERATOR_TYPE)
    if text and not texts.get(KEY_GENERATOR) and _key_generator(texts) is None:
        return f"{KEY_GENERATOR_TYPE}={text} without {KEY_GENERATOR}"
    return None


def _ordering(texts: Mapping[str, str]) -> str | None:
    fields = ordering_fields(texts)
    return fields[0] if len(fields) == 1 and not _by_commit_time(texts) else None


def _by_commit_time(texts: Mapping[str, str]) -> bool:
    """Does the newest commit win whatever the ordering columns say: in logs, too, unlike in 0.15.0."""
    mode = texts.get(MERGE_MODE) or _STRATEGIES.get((texts.get(MERGE_STRATEGY) or "").lower()) or ""
    return mode.upper() == "COMMIT_TIME_ORDERING"


def _key_generator(texts: Mapping[str, str]) -> str | None:
    name = (texts.get(KEY_GENERATOR_TYPE) or "").upper().removesuffix("_AVRO")
    if name in _SQL_KEY_GENERATORS:
        return _SQL + _SQL_KEY_GENERATORS[name]
    return _KEYGEN + _KEY_GENERATORS[name] if name in _KEY_GENERATORS else None


def _payload(texts: Mapping[str, str]) -> str | None:
    """The payload class that does what the merge mode, or the strategy's id, says."""
    mode = texts.get(MERGE_MODE) or _STRATEGIES.get((texts.get(MERGE_STRATEGY) or "").lower())
    return _MODES.get((mode or "").upper())


def _mode_problem(texts: Mapping[str, str], payload: str | None) -> str | None:
    """A merge mode, or a strategy, that is not that of the payload class, or is a program of somebody's own.

    Of version 6 the payload class goes before the strategy's id, which is the default beside any class.
    """
    mode = (texts.get(MERGE_MODE) or "").upper()
    if mode and mode != "CUSTOM" and payload and _mode_of(payload) not in (None, mode):
        return f"{MERGE_MODE}={mode} beside {PAYLOAD_CLASS}={payload}"
    if mode and mode not in {*_MODES, "CUSTOM"}:
        return f"{MERGE_MODE}={mode}"
    for name in (MERGE_STRATEGY, MERGER_STRATEGY):
        text = (texts.get(name) or "").lower()
        if text and text != _BY_PAYLOAD and text not in _STRATEGIES:
            return f"{name}={text}"
    return f"{MERGE_MODE}={mode} without {PAYLOAD_CLASS}" if mode == "CUSTOM" and not payload else None


def _mode_of(payload: str) -> str | None:
    return next((mode for mode, made in _MODES.items() if made == payload), "CUSTOM")
