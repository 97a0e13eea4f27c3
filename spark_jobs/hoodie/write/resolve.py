"""Everything a write must know, checked before anything is written: settings, table, schema, plugins."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config, bool_key, enum_key, int_key, str_key
from hoodie.errors import AlreadyExists, ConfigError, TableMismatch, TableNotFound
from hoodie.format.base_file import BaseFileFormat
from hoodie.format.evolution import NULL_FOR_MISSING, evolve
from hoodie.format.meta_fields import without_meta
from hoodie.format.schema import canonical, from_avro, record_full_name, to_avro_text
from hoodie import keygen, merge
from hoodie.index import index_for
from hoodie.keygen import (
    HIVE_STYLE,
    KEYGENERATOR_CLASS,
    PARTITIONPATH_FIELD,
    RECORDKEY_FIELD,
    URL_ENCODE,
    KeyGenerator,
    key_generator,
)
from hoodie.merge import PAYLOAD_CLASS, PRECOMBINE_FIELD, Merger, merger
from hoodie.storage import Storage
from hoodie.table import properties
from hoodie.table.properties import TableProperties, TableType
from hoodie.table.table_schema import schema_text
from hoodie.table.view import Snapshot
from hoodie.timeline.active import META_FOLDER, Timeline
from hoodie.timeline.commit import SCHEMA_KEY, CommitMetadata
from hoodie.write.bulk import SORT_MODE
from hoodie.write.context import WriteContext
from hoodie.write.operation import Operation, WriteRequest
from hoodie.write.rowset import MERGE_BUDGET, SPILL_PATH
from hoodie.write.workload import Parallelism, average_record_size


class ConcurrencyMode(enum.Enum):
    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"


class TimelineZone(enum.Enum):
    LOCAL = "LOCAL"
    UTC = "UTC"


TABLE_NAME = str_key("hoodie.table.name", None, "Name of the table; default: the last part of its path.", group="table")
DATABASE_NAME = str_key("hoodie.database.name", None, "Database the table belongs to.", group="table")
TABLE_TYPE = enum_key(
    "hoodie.datasource.write.table.type",
    TableType.COPY_ON_WRITE,
    "COPY_ON_WRITE; MERGE_ON_READ is not supported yet.",
    aliases=("hoodie.table.type",),
    group="table",
)
TIMELINE_ZONE = enum_key(
    "hoodie.table.timeline.timezone", TimelineZone.LOCAL, "Time zone of instants of a new table.", group="table"
)
CONCURRENCY_MODE = enum_key(
    "hoodie.write.concurrency.mode",
    ConcurrencyMode.SINGLE_WRITER,
    "SINGLE_WRITER: a second live writer is refused. Others are not supported yet.",
    group="concurrency",
)
COMBINE_BEFORE_UPSERT = bool_key(
    "hoodie.combine.before.upsert",
    True,
    "De-duplicate the batch before an upsert. An upsert here always does: a key is one row afterwards.",
)
COMBINE_BEFORE_INSERT = bool_key(
    "hoodie.combine.before.insert", False, "De-duplicate the batch before insert and bulk_insert."
)
_PARALLELISM_DOC = (
    "Tasks that de-duplicate and write: 0 lets the sizes decide, a larger number is an upper bound beside the "
    "number of input partitions."
)
UPSERT_PARALLELISM = int_key("hoodie.upsert.shuffle.parallelism", 0, _PARALLELISM_DOC, minimum=0)
INSERT_PARALLELISM = int_key("hoodie.insert.shuffle.parallelism", 0, _PARALLELISM_DOC, minimum=0)
BULK_PARALLELISM = int_key("hoodie.bulkinsert.shuffle.parallelism", 0, _PARALLELISM_DOC, minimum=0)

_PARALLELISM = {
    Operation.UPSERT: UPSERT_PARALLELISM,
    Operation.INSERT: INSERT_PARALLELISM,
    Operation.BULK_INSERT: BULK_PARALLELISM,
}


@dataclass(frozen=True)
class Plan:
    """A checked write. `new_properties` is set when the table has to be created."""

    table_name: str
    config: Config
    context: WriteContext
    record_size: int
    extra_metadata: Mapping[str, str]
    new_properties: Mapping[str, str] | None
    timeline_utc: bool

    @property
    def sample_keys(self) -> bool:
        return self.context.operation is Operation.BULK_INSERT and self.config[SORT_MODE].sorts

    def create_table(self, storage: Storage) -> None:
        if self.new_properties is None:
            return
        try:
            properties.create(storage, self.context.base_path, self.new_properties)
        except AlreadyExists:
            return  # another first writer was faster; `outdated` or its heartbeat tells

    def outdated(self, storage: Storage) -> bool:
        """Did another writer commit, or create the table differently, since the plan was made?"""
        timeline = Timeline.load(self.context.base_path, storage)
        if Snapshot.of(timeline, storage).committed != self.context.snapshot.committed:
            return True
        if self.new_properties is None:
            return False
        found = properties.load(storage, self.context.base_path)
        return any(found.get(name) != text for name, text in self.new_properties.items())

    def write_parallelism(self, input_partitions: int, cores: int) -> Parallelism:
        """At most MIN(input partitions, configured) tasks when configured."""
        configured = self.config[_PARALLELISM[self.context.operation]]
        return Parallelism(cores, max(1, min(input_partitions, configured)) if configured else None)


def resolve(storage: Storage, path: str, request: WriteRequest, incoming: pa.Schema) -> Plan:
    """Raises HoodieError for whatever is wrong with settings, table or schema; writes nothing."""
    given = Config.of(request.options)
    props = _existing(storage, path)
    config = given if props is None else _merged(given, props)
    _check_supported(config, props)
    rows = canonical(incoming)
    name = _table_name(config, path)
    keys = key_generator(config, rows)
    if props is not None:
        _check_keys(keys, props)
    timeline = Timeline(path, (), {}) if props is None else Timeline.load(path, storage)
    stored_text = None if props is None else schema_text(timeline, storage, props)
    schema, full_name = rows, None
    if stored_text:
        stored = without_meta(from_avro(stored_text))
        schema = evolve(stored, incoming, null_for_missing=config[NULL_FOR_MISSING])
        full_name = record_full_name(stored_text)
    avro_text = to_avro_text(schema, name, full_name=full_name)
    merging = merger(config, config[PRECOMBINE_FIELD], rows)
    context = WriteContext(
        base_path=path,
        operation=request.operation,
        schema=schema,
        avro_schema=avro_text,
        keys=keys,
        merger=merging,
        index=index_for(config) if request.operation is Operation.UPSERT else None,
        dedupe=request.operation is Operation.UPSERT or config[COMBINE_BEFORE_INSERT],
        sort=request.operation is Operation.BULK_INSERT and config[SORT_MODE].sorts,
        snapshot=Snapshot.of(timeline, storage),
        files=BaseFileFormat.of(config),
        merge_budget=config[MERGE_BUDGET],
        spill_path=config[SPILL_PATH] or "",
        null_for_missing=config[NULL_FOR_MISSING],
    )
    newest_first = (CommitMetadata.parse(timeline.read(i, storage)) for i in reversed(timeline.commits()))
    return Plan(
        table_name=name,
        config=config,
        context=context,
        record_size=average_record_size(config, newest_first),
        extra_metadata=_extra(request, avro_text),
        new_properties=_new_properties(config, name, keys, merging) if props is None else None,
        timeline_utc=_utc(config, props),
    )


def _existing(storage: Storage, path: str) -> TableProperties | None:
    try:
        return properties.load(storage, path)
    except TableNotFound:
        others = [item.name for item in storage.list(path) if item.name != META_FOLDER]
        if others:
            raise TableNotFound(
                f"{path} holds {others[0]!r} and is no Hudi table; write to an empty or new folder", path=path
            ) from None
        return None


#: (setting, the property that persists it)
_PERSISTED = (
    (RECORDKEY_FIELD, properties.RECORD_KEY_FIELDS),
    (PARTITIONPATH_FIELD, properties.PARTITION_FIELDS),
    (PRECOMBINE_FIELD, properties.PRECOMBINE_FIELD),
    (KEYGENERATOR_CLASS, properties.KEY_GENERATOR),
    (PAYLOAD_CLASS, properties.PAYLOAD_CLASS),
    (HIVE_STYLE, properties.HIVE_STYLE),
    (URL_ENCODE, properties.URL_ENCODE),
    (TABLE_TYPE, properties.TYPE),
    (TABLE_NAME, properties.NAME),
    (DATABASE_NAME, properties.DATABASE),
)


def _merged(given: Config, props: TableProperties) -> Config:
    """Settings with what the table persists; a setting that contradicts it is an error."""
    wrong: list[str] = []
    taken: dict[str, str] = {}
    for key, name in _PERSISTED:
        stored = props.get(name)
        if stored is None or (stored == "" and not given.given(key)):
            continue
        if not given.given(key):
            taken[key.name] = stored
        elif not _same(key, given, stored):
            wrong.append(f"{key.name}={given.text(key.name)!r}, the table has {stored!r}")
    if wrong:
        raise TableMismatch(
            f"options contradict table {props.name!r}: " + "; ".join(wrong) + ". Leave them out, or write to a new table",
            options="; ".join(wrong),
        )
    texts = {name: text for name, text in props.items() if name.startswith("hoodie.keygen.timebased.")}
    return given.merged({**texts, **taken})


def _same(key: Any, given: Config, stored: str) -> bool:
    if key is PARTITIONPATH_FIELD:
        return [field.partition(":")[0] for field in given[key]] == [
            field.partition(":")[0] for field in key.read(stored)
        ]
    if key in (KEYGENERATOR_CLASS, PAYLOAD_CLASS):
        plugins = keygen.registry() if key is KEYGENERATOR_CLASS else merge.registry()
        asked = str(given[key])
        return bool(plugins.get(asked.lower(), asked) == plugins.get(stored.lower(), stored))
    try:
        return bool(given[key] == key.read(stored))
    except ValueError:
        return False


def _check_supported(config: Config, props: TableProperties | None) -> None:
    if config[TABLE_TYPE] is not TableType.COPY_ON_WRITE:
        raise ConfigError(
            f"{TABLE_TYPE.name}={config[TABLE_TYPE].value}: only COPY_ON_WRITE tables can be written yet",
            value=config[TABLE_TYPE].value,
        )
    if config[CONCURRENCY_MODE] is not ConcurrencyMode.SINGLE_WRITER:
        raise ConfigError(
            f"{CONCURRENCY_MODE.name}={config[CONCURRENCY_MODE].value} is not supported yet; leave it out and run "
            "one writer at a time",
            value=config[CONCURRENCY_MODE].value,
        )
    if props is None:
        return
    unsupported = {
        "hoodie.populate.meta.fields=false": not props.populate_meta_fields,
        f"{properties.DROP_PARTITION_COLUMNS}=true": props.drop_partition_columns,
        f"{properties.CDC_ENABLED}=true": (props.get(properties.CDC_ENABLED) or "").lower() == "true",
        f"{properties.BASE_FILE_FORMAT}={props.base_file_format}": props.base_file_format.upper() != "PARQUET",
    }
    for text, present in unsupported.items():
        if present:
            raise ConfigError(
                f"table {props.name!r} has {text}, which can be read but not written here yet; write it with "
                "Apache Hudi",
                table=props.name,
            )


def _check_keys(keys: KeyGenerator, props: TableProperties) -> None:
    stored = props.record_key_fields
    if stored and tuple(stored) != tuple(keys.record_key_fields):
        raise TableMismatch(
            f"record keys {','.join(keys.record_key_fields)!r} contradict table {props.name!r}, whose keys are "
            f"{','.join(stored)!r}; use the table's keys",
            keys=",".join(keys.record_key_fields),
        )


def _table_name(config: Config, path: str) -> str:
    return config[TABLE_NAME] or path.rsplit("/", 1)[-1]


def _new_properties(config: Config, name: str, keys: KeyGenerator, merging: Merger) -> dict[str, str]:
    props = {
        properties.NAME: name,
        properties.DATABASE: config[DATABASE_NAME] or "",
        properties.TYPE: config[TABLE_TYPE].value,
        properties.RECORD_KEY_FIELDS: ",".join(keys.record_key_fields),
        properties.TIMELINE_TIMEZONE: config[TIMELINE_ZONE].value,
        properties.PAYLOAD_CLASS: merging.java_class,
        **keys.persisted(),
    }
    if config[PRECOMBINE_FIELD]:
        props[properties.PRECOMBINE_FIELD] = config[PRECOMBINE_FIELD] or ""
    return props


def _utc(config: Config, props: TableProperties | None) -> bool:
    return config[TIMELINE_ZONE] is TimelineZone.UTC if props is None else props.timeline_utc


def _extra(request: WriteRequest, avro_text: str) -> dict[str, str]:
    if SCHEMA_KEY in request.extra_metadata:
        raise ConfigError(f"extra metadata {SCHEMA_KEY!r} is the writer's own; choose another name", key=SCHEMA_KEY)
    return {**request.extra_metadata, SCHEMA_KEY: avro_text}
