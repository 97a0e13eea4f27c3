"""Properties that Apache Hudi 1.0 to 1.2 give tables under other names than 0.15.0, those of version 6, too.

Stdlib only. What has the same meaning is found by its older name; what says more is refused by `features`.
Those of merging rows are in `merge_rule`. Source: Apache Hudi 1.2.0, HoodieTableConfig, KeyGeneratorType.
"""

from __future__ import annotations

from collections.abc import Mapping

KEY_GENERATOR = "hoodie.table.keygenerator.class"
KEY_GENERATOR_TYPE = "hoodie.table.keygenerator.type"
BASE_FILE_FORMAT = "hoodie.table.base.file.format"
RO_FILE_FORMAT = "hoodie.table.ro.file.format"

_KEYGEN = "org.apache.hudi.keygen."
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
_USER_PROVIDED = "USER_PROVIDED"
_SQL = "org.apache.spark.sql.hudi.command."
_SQL_KEY_GENERATORS = {
    "SPARK_SQL": "SqlKeyGenerator",
    "SPARK_SQL_UUID": "UuidKeyGenerator",
    "SPARK_SQL_MERGE_INTO": "MergeIntoKeyGenerator",
}


def older_names(texts: Mapping[str, str]) -> dict[str, str]:
    """Properties by their older names, for those that the table has under newer ones alone."""
    found = {
        KEY_GENERATOR: _key_generator(texts),
        BASE_FILE_FORMAT: texts.get(RO_FILE_FORMAT),
    }
    return {name: text for name, text in found.items() if text and not texts.get(name)}


def newer_names(texts: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table of version 8 or 9, of which these are those of a table of version 6."""
    found, name = dict(texts), texts.get(KEY_GENERATOR)
    kind = key_generator_type(name)
    if name:
        found[KEY_GENERATOR_TYPE] = kind or _USER_PROVIDED
    if kind is not None:
        del found[KEY_GENERATOR]
    return found


def key_generator_type(name: str | None) -> str | None:
    """The type of a key generator's class, as version 8 has it; None for a class of somebody's own."""
    known = {
        **{_KEYGEN + text: kind for kind, text in _KEY_GENERATORS.items()},
        **{_SQL + text: kind for kind, text in _SQL_KEY_GENERATORS.items()},
    }
    return known.get(name or "")


def key_generator_problem(texts: Mapping[str, str]) -> str | None:
    """A type of key generator that is none of Apache Hudi's, or has no class, as `name=value`."""
    text = texts.get(KEY_GENERATOR_TYPE)
    if text and not texts.get(KEY_GENERATOR) and _key_generator(texts) is None:
        return f"{KEY_GENERATOR_TYPE}={text} without {KEY_GENERATOR}"
    return None


def _key_generator(texts: Mapping[str, str]) -> str | None:
    name = (texts.get(KEY_GENERATOR_TYPE) or "").upper().removesuffix("_AVRO")
    if name in _SQL_KEY_GENERATORS:
        return _SQL + _SQL_KEY_GENERATORS[name]
    return _KEYGEN + _KEY_GENERATORS[name] if name in _KEY_GENERATORS else None
