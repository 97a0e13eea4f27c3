"""What a table persists goes before what a write asks for; a contradiction is an error."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hoodie.config import versions
from hoodie.config.key import Config, Key, keys
from hoodie.config.plugins import Plugins
from hoodie.config.unsupported import UNSUPPORTED
from hoodie.errors import ConfigError, SchemaError, TableMismatch
from hoodie.format.cdc import LOGGING_MODE
from hoodie.format.schema import type_text
from hoodie.index.settings import BUCKET_ENGINE, BUCKETS, HASH_FIELDS, INDEX_TYPE, BucketEngine, IndexType
from hoodie.keygen import KEY_GENERATORS, KeyGenerator
from hoodie.keygen.settings import (
    HIVE_STYLE,
    KEYGENERATOR_CLASS,
    KEYGENERATOR_TYPE,
    PARTITIONPATH_FIELD,
    RECORDKEY_FIELD,
    URL_ENCODE,
)
from hoodie.merge import MERGERS, Merger, merger
from hoodie.merge.by_mode import ByMode
from hoodie.merge.settings import (
    DELETE_FIELD,
    DELETE_MARKER,
    MERGE_MODE,
    PAYLOAD_CLASS,
    PRECOMBINE_FIELD,
    MergeMode,
)
from hoodie.table import merge_rule, new_table, properties
from hoodie.table.features import keeps_changes
from hoodie.table.merge_rule import PAYLOADS
from hoodie.table.properties import TableProperties
from hoodie.write.new_properties import new_merge_rule
from hoodie.write.settings import (
    AUTO_UPGRADE,
    CDC_ENABLED,
    CDC_MODE,
    DATABASE_NAME,
    TABLE_NAME,
    TABLE_TYPE,
    TABLE_VERSION,
)

#: (setting, the property that persists it); settings and properties of one name need no entry
_PERSISTED: tuple[tuple[Key[Any], str], ...] = (
    (RECORDKEY_FIELD, properties.RECORD_KEY_FIELDS),
    (PARTITIONPATH_FIELD, properties.PARTITION_FIELDS),
    (PRECOMBINE_FIELD, properties.PRECOMBINE_FIELD),
    (KEYGENERATOR_CLASS, properties.KEY_GENERATOR),
    (KEYGENERATOR_TYPE, properties.KEY_GENERATOR),
    (PAYLOAD_CLASS, properties.PAYLOAD_CLASS),
    (MERGE_MODE, properties.PAYLOAD_CLASS),
    (DELETE_FIELD, merge_rule.DELETE_FIELD),
    (DELETE_MARKER, merge_rule.DELETE_MARKER),
    (HIVE_STYLE, properties.HIVE_STYLE),
    (URL_ENCODE, properties.URL_ENCODE),
    (TABLE_TYPE, properties.TYPE),
    (TABLE_VERSION, properties.VERSION),
    (TABLE_NAME, properties.NAME),
    (DATABASE_NAME, properties.DATABASE),
    (CDC_ENABLED, properties.CDC_ENABLED),
    (CDC_MODE, LOGGING_MODE),
)
#: what the table has is taken over under another name, or not asked for
_NOT_TAKEN = (KEYGENERATOR_TYPE, MERGE_MODE, TABLE_VERSION)
_TIMEBASED = "hoodie.keygen.timebased."
#: what a table of the BUCKET index remembers of it
_BUCKETED = (INDEX_TYPE, BUCKET_ENGINE, BUCKETS, HASH_FIELDS)


def merged(given: Config, props: TableProperties) -> Config:
    """Settings with what the table persists. Raises TableMismatch that lists every contradiction."""
    wrong: list[str] = []
    steps = ""
    modern = _merging(props) if props.merge_rule.by_mode else {}
    taken = {name: text for name, text in props.items() if name.startswith(_TIMEBASED)}
    for key, name in _PERSISTED:
        stored = modern[key] if key in modern else _stored(props, name)
        if stored is None or (stored == "" and key is PRECOMBINE_FIELD and not modern):
            continue
        if given.given(key):
            if not _same(key, given, stored):
                wrong.append(f"{key.name}={given.text(key.name)!r}, the table has {stored!r}")
                steps += _to_version(given[TABLE_VERSION], props) if key is TABLE_VERSION else ""
        elif stored and key not in _NOT_TAKEN:
            taken[key.name] = stored
    if (props.get(INDEX_TYPE.name) or "").strip().upper() == IndexType.BUCKET.value:
        taken |= {key.name: props.texts[key.name] for key in _BUCKETED if props.get(key.name)}
        engine = taken.get(BUCKET_ENGINE.name)
        if engine is None and given[BUCKET_ENGINE] is not BucketEngine.SIMPLE:
            wrong.append(f"{BUCKET_ENGINE.name}={given[BUCKET_ENGINE].value!r}, the table has 'SIMPLE'")
    known = {key.name for key, _ in _PERSISTED}
    for name in given:
        rule = UNSUPPORTED.get(name)
        if rule is not None and rule.stored_as:
            stored = props.get(rule.stored_as)
            if not rule.same(str(given.text(name)), stored):
                has = "nothing of the kind" if stored is None else repr(stored)
                wrong.append(f"{name}={given.text(name)!r}, the table has {has}")
            continue
        stored = props.get(name)
        if stored is not None and name not in known and not _equal(name, str(given.text(name)), stored):
            wrong.append(f"{name}={given.text(name)!r}, the table has {stored!r}")
    if wrong:
        raise _mismatch(props, wrong, steps)
    return given.merged(taken)


def _to_version(number: int, props: TableProperties) -> str:
    """What gives the table another version."""
    if number < props.version:
        return f", or downgrade the table: hoodie downgrade --to {number}, DowngradeOperator"
    if not versions.is_writable(number):
        return f"; tables of version {number} are read and not written here"
    return (
        f", or upgrade the table: hoodie upgrade --to {number}, UpgradeOperator, or {AUTO_UPGRADE.name}=true "
        "for a write to do so first"
    )


def _merging(props: TableProperties) -> dict[Key[Any], str | None]:
    """How rows merge in a table of a mode, as settings say it; the payload class is that of its maker."""
    rule = props.merge_rule
    return {
        PRECOMBINE_FIELD: ",".join(rule.named_fields),
        PAYLOAD_CLASS: rule.legacy_payload_class or rule.payload_class,
        MERGE_MODE: rule.mode.value,
        DELETE_FIELD: rule.delete_field or "",
        DELETE_MARKER: rule.delete_marker or "",
    }


def _stored(props: TableProperties, name: str) -> str | None:
    """What the table has; None where that may be anything. Of change data it may have the defaults unsaid."""
    stored = props.get(name)
    if stored is None and name == properties.CDC_ENABLED:
        return "false"
    if stored is None and name == LOGGING_MODE and keeps_changes(props):
        return str(CDC_MODE.default.value)
    return stored


def check_new(given: Config) -> None:
    """Raises ConfigError that lists every setting that asks for a table of another kind than is made here."""
    made = new_table.complete({properties.VERSION: str(given[TABLE_VERSION])})
    wrong = [
        f"{name}={text!r}: {rule.instead}"
        for name, rule in UNSUPPORTED.items()
        if rule.stored_as and (text := given.text(name)) and not rule.same(text, made.get(rule.stored_as))
    ]
    if wrong:
        raise ConfigError(
            f"a new table can't be made with {'; '.join(wrong)}. Create it with Apache Hudi, or change these",
            problems="; ".join(wrong),
        )


def check_keys(keys: KeyGenerator, props: TableProperties) -> None:
    """Raises TableMismatch when the key generator, however it came about, has other fields than the table.

    One of the caller's own is known by the Java class name that it persisted.
    """
    stored = props.record_key_fields
    if stored and tuple(stored) != tuple(keys.record_key_fields):
        text = f"record keys {','.join(keys.record_key_fields)!r}, the table has {','.join(stored)!r}"
        raise _mismatch(props, [text])
    made_by = props.keygenerator_class
    if made_by and not KEY_GENERATORS.includes(type(keys)) and made_by != keys.java_class:
        text = f"{KEYGENERATOR_CLASS.name} is {keys.java_class!r}, the table has {made_by!r}"
        raise _mismatch(props, [text])


def written_by(config: Config, props: TableProperties | None, schema: pa.Schema) -> Merger:
    """What merges rows of this schema, those of a batch and with the stored ones.

    Raises ConfigError and InputError as `merger`, TableMismatch as `check_payload`.
    """
    rule = new_merge_rule(config) if props is None else props.merge_rule
    by_mode = None if rule is None or not rule.by_mode else ByMode.of(rule, schema)
    own = props is not None and ":" in str(config[PAYLOAD_CLASS])
    if by_mode is not None and not own:
        return by_mode
    made = merger(config, config[PRECOMBINE_FIELD], schema)
    if props is not None:
        check_payload(made, props)
        made = made.of_later() if props.merge_rule.later else made
    return by_mode or made


def check_payload(merger: Merger, props: TableProperties) -> None:
    """A merger of one's own is known by the Java class name that it persisted, or that the merge mode has."""
    rule = props.merge_rule
    stored = _merging(props)[PAYLOAD_CLASS] if rule.by_mode else props.payload_class
    if stored and MERGERS.name(stored) != merger.java_class:
        raise _mismatch(props, [f"{PAYLOAD_CLASS.name} is {merger.java_class!r}, the table has {stored!r}"])


def check_key_types(stored: pa.Schema, schema: pa.Schema, fields: tuple[str, ...]) -> None:
    """Raises SchemaError when a key or partition column widens so that the text of its values changes."""
    for path in fields:
        before, after = _type_at(stored, path), _type_at(schema, path)
        if before is None or after is None:
            continue
        if pa.types.is_integer(before) and pa.types.is_floating(after):
            raise SchemaError(
                f"column {path}: table {type_text(before)}, incoming {type_text(after)}, and it is part of "
                f"the key: 1 would become 1.0, another key. Cast it to {type_text(before)}",
                column=path,
            )


def check_ordering_type(stored: pa.Schema, incoming: pa.Schema, schema: pa.Schema, ordering: str) -> None:
    """Raises SchemaError when the ordering column widens so that its values change their order.

    As texts 10 comes before 9; floats and doubles take whole numbers beyond their precision for one another.
    `incoming` is the input's schema, `schema` the table's next one.
    """
    before, given, after = (_type_at(shape, ordering) for shape in (stored, incoming, schema))
    for kind in (before, given):
        if kind is None or after is None or not _reorders(kind, after):
            continue
        types = f"table {type_text(before)}, incoming {type_text(given)}" if before and given else str(kind)
        raise SchemaError(
            f"column {ordering}: {types}, and it orders the versions of a row: as {type_text(after)} they "
            "would come in another order (as text 10 is before 9), and a newer row could lose. Cast it to "
            f"{type_text(before or kind)}",
            column=ordering,
        )


def _reorders(before: pa.DataType, after: pa.DataType) -> bool:
    """Do some values of a type compare otherwise as values of a wider one?"""
    number = pa.types.is_integer(before) or pa.types.is_floating(before)
    if pa.types.is_string(after) or pa.types.is_large_string(after):
        return number
    exact = pa.types.is_float64(after) and before.bit_width < 64 if number else True
    return pa.types.is_integer(before) and pa.types.is_floating(after) and not exact


def _same(key: Key[Any], given: Config, stored: str) -> bool:
    if key is PARTITIONPATH_FIELD:
        return [field.partition(":")[0] for field in given[key]] == [
            field.partition(":")[0] for field in key.read(stored)
        ]
    if key is TABLE_VERSION and given[AUTO_UPGRADE]:
        return int(stored) <= given[TABLE_VERSION]  # a write upgrades it, a service leaves it as it is
    if key is MERGE_MODE:
        mode = given[MERGE_MODE]
        if stored in MergeMode.__members__:
            return mode is None or mode.value == stored
        return mode is None or mode is MergeMode.CUSTOM or PAYLOADS[mode] == MERGERS.name(stored)
    if key in (KEYGENERATOR_CLASS, KEYGENERATOR_TYPE, PAYLOAD_CLASS):
        plugins: Plugins[Any] = MERGERS if key is PAYLOAD_CLASS else KEY_GENERATORS
        asked = str(given[key])
        own = ":" in asked  # distinguished by `check_payload` and `check_keys`
        return own or plugins.name(asked) == plugins.name(stored)
    return _equal(key.name, str(given.text(key.name)), stored)


def _equal(name: str, asked: str, stored: str) -> bool:
    key = keys().get(name)
    if key is None:
        return asked.strip().lower() == stored.strip().lower()
    try:
        return bool(key.read(asked) == key.read(stored))
    except ValueError:
        return False


def _mismatch(props: TableProperties, wrong: list[str], steps: str = "") -> TableMismatch:
    return TableMismatch(
        f"options contradict table {props.name!r}: {'; '.join(wrong)}. Leave them out, or write to a new "
        f"table{steps}",
        options="; ".join(wrong),
    )


def _type_at(schema: pa.Schema, path: str) -> pa.DataType | None:
    top, *rest = path.split(".")
    kind = schema.field(top).type if top in schema.names else None
    for part in rest:
        at = kind.get_field_index(part) if kind is not None and pa.types.is_struct(kind) else -1
        kind = kind.field(at).type if kind is not None and at >= 0 else None
    return kind
