"""The entry that a catalog should have of a table. Pure: it neither reads nor changes the catalog.

- As Apache Hudi 0.15.0: HiveSyncTool, HMSDDLExecutor, SparkDataSourceTableUtils.
- Types of columns for Hive and for Spark are those of HiveSchemaUtil and Parquet2SparkSchemaUtils.
- The extractors of partition columns have Apache Hudi's names. Each is a function of the partition path. It
  raises ValueError for a path of another form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.errors import ConfigError, SchemaError, TableError
from hoodie.format.meta_fields import with_meta
from hoodie.format.schema import SQL_TYPES, is_list, type_text
from hoodie.sync.settings import (
    AS_DATASOURCE,
    COMMENTS,
    DATABASE,
    DECODE,
    EXTRACTOR,
    LOCATION,
    OMIT_META,
    PARTITION_FIELDS,
    SCHEMA_LENGTH,
    SERDE_PROPERTIES,
    SKIP_RO_SUFFIX,
    SNAPSHOT_BY_NAME,
    SPARK_VERSION,
    STRATEGY,
    TABLE,
    TABLE_PROPERTIES,
    TIMESTAMPS,
    Strategy,
)
from hoodie.table.properties import TableProperties, TableType

_SPARK = {**SQL_TYPES, pa.int32(): "integer", pa.int64(): "long"}

#: each is read as any that comes later
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TO_TEXT = {*_NUMBERS, "date", "timestamp"}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def hive_type(dtype: pa.DataType, timestamps: bool) -> str:
    """In lower case and without blanks, as the metastore stores it. Raises SchemaError."""
    if dtype in SQL_TYPES:
        return SQL_TYPES[dtype]
    if pa.types.is_timestamp(dtype):
        return "timestamp" if timestamps else "bigint"
    if pa.types.is_decimal(dtype):
        return f"decimal({dtype.precision},{dtype.scale})"
    if is_list(dtype):
        return f"array<{hive_type(dtype.value_type, timestamps)}>"
    if pa.types.is_map(dtype):
        return f"map<string,{hive_type(dtype.item_type, timestamps)}>"
    if pa.types.is_struct(dtype):
        fields = (f"{field.name.lower()}:{hive_type(field.type, timestamps)}" for field in dtype)
        return f"struct<{','.join(fields)}>"
    raise SchemaError(f"Hive has no type for {type_text(dtype)}; leave the column out of the table")


def spark_schema(fields: Iterable[pa.Field[Any]]) -> str:
    """Spark's JSON of a schema, with the blanks that Apache Hudi's has."""
    texts = (
        f'{{"name":{json.dumps(field.name, ensure_ascii=False)},"type":{_spark_type(field.type)},'
        f'"nullable":{_bool(field.nullable)},"metadata":{{}}}}'
        for field in fields
    )
    return f'{{"type":"struct","fields":[{",".join(texts)}]}}'


def _spark_type(dtype: pa.DataType) -> str:
    if dtype in _SPARK:
        return f'"{_SPARK[dtype]}"'
    if pa.types.is_timestamp(dtype):
        return '"timestamp"' if dtype.tz else '"timestamp_ntz"'
    if pa.types.is_decimal(dtype):
        return f'"decimal({dtype.precision},{dtype.scale})"'
    if is_list(dtype):
        return (
            f'{{"type":"array", "elementType":{_spark_type(dtype.value_type)},'
            f'"containsNull":{_bool(dtype.value_field.nullable)}}}'
        )
    if pa.types.is_map(dtype):
        return (
            f'{{"type":"map", "keyType":"string","valueType":{_spark_type(dtype.item_type)},'
            f'"valueContainsNull":{_bool(dtype.item_field.nullable)}}}'
        )
    assert pa.types.is_struct(dtype)
    return spark_schema(list(dtype))


def _bool(value: bool) -> str:
    return "true" if value else "false"


def widens(old: str, new: str) -> bool:
    """May a column of Hive's type `old` become `new`: every old value stays what it is. Structs may also get
    fields, at their end.
    """
    if old == new:
        return True
    outer, inner = _parts(old)
    new_outer, new_inner = _parts(new)
    if outer in ("array", "map", "struct"):
        if outer != new_outer or len(new_inner) < len(inner):
            return False
        if outer != "struct" and len(new_inner) != len(inner):
            return False
        pairs = list(zip(inner, new_inner, strict=False))
        if outer == "struct":
            named = [(a.partition(":"), b.partition(":")) for a, b in pairs]
            return all(a[0] == b[0] and widens(a[2], b[2]) for a, b in named)
        return all(widens(a, b) for a, b in pairs)
    if new == "string":
        return old in _TO_TEXT or _DECIMAL.fullmatch(old) is not None
    if old in _NUMBERS and new in _NUMBERS:
        return _NUMBERS.index(old) < _NUMBERS.index(new)
    wide = _DECIMAL.fullmatch(new)
    if wide is None:
        return False
    whole, scale = int(wide[1]) - int(wide[2]), int(wide[2])
    if (narrow := _DECIMAL.fullmatch(old)) is not None:
        return whole >= int(narrow[1]) - int(narrow[2]) and scale >= int(narrow[2])
    return old in _DIGITS and whole >= _DIGITS[old]


def _parts(text: str) -> tuple[str, list[str]]:
    """`map<string,array<int>>` -> map, [string, array<int>]; no parts for a simple type."""
    outer, _, rest = text.partition("<")
    return (outer, list(_split(rest[:-1]))) if rest.endswith(">") else (text, [])


def _split(text: str) -> Iterator[str]:
    depth = start = 0
    for place, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


Extractor = Callable[[str], list[str]]
_PACKAGE = "org.apache.hudi.hive."


def _none(path: str) -> list[str]:
    return []


def _single(path: str) -> list[str]:
    return [path.replace("/", "-")]


def _hive_style(path: str) -> list[str]:
    _, sign, value = path.partition("=")
    if not sign:
        raise ValueError("it is not column=value")
    return [value]


def _multi(path: str) -> list[str]:
    return [_value(part) for part in path.split("/")]


def _day(path: str) -> list[str]:
    return [_moment(path, "yyyy/mm/dd", 3).strftime("%Y-%m-%d")]


def _hour(path: str) -> list[str]:
    return [_moment(path, "yyyy/mm/dd/HH", 4).strftime("%Y-%m-%d-%H")]


def _moment(path: str, form: str, count: int) -> datetime:
    parts = [_value(part) for part in path.split("/")]
    try:
        if len(parts) == count:
            year, month, day, hour = [*(int(part) for part in parts), 0][:4]
            return datetime(year, month, day, hour)
    except ValueError:
        pass
    raise ValueError(f"it is not {form}")


def _value(part: str) -> str:
    _, sign, value = part.partition("=")
    return value if sign else part


_EXTRACTORS: dict[str, Extractor] = {
    "NonPartitionedExtractor": _none,
    "SinglePartPartitionValueExtractor": _single,
    "HiveStylePartitionValueExtractor": _hive_style,
    "MultiPartKeysValueExtractor": _multi,
    "SlashEncodedDayPartitionValueExtractor": _day,
    "SlashEncodedHourPartitionValueExtractor": _hour,
}


def extractor_name(given: str | None, fields: Sequence[str], hive_style: bool) -> str:
    """The short name of the class that the setting names, or that fits the columns. Raises ConfigError."""
    if not given:
        if not fields:
            return "NonPartitionedExtractor"
        if len(fields) > 1:
            return "MultiPartKeysValueExtractor"
        return "HiveStylePartitionValueExtractor" if hive_style else "SinglePartPartitionValueExtractor"
    name = given.removeprefix(_PACKAGE)
    if name not in _EXTRACTORS:
        raise ConfigError(
            f"{EXTRACTOR.name}={given!r} is none of Apache Hudi's extractors; use one of "
            f"{', '.join(_EXTRACTORS)}",
            setting=EXTRACTOR.name,
            value=given,
        )
    return name


def partition_values(name: str, path: str, fields: Sequence[str], decode: bool) -> tuple[str, ...]:
    """One value for each column. Raises TableError for a path that has others, or another form."""
    try:
        found = _EXTRACTORS[name](path)
        if len(found) != len(fields) or not all(found):
            raise ValueError(f"it has {len(found)} values for {', '.join(fields) or 'no columns'}")
    except ValueError as error:
        raise TableError(
            f"partition {path!r} can't be entered by {name}: {error}; set {EXTRACTOR.name} to the class that "
            "fits the table's paths",
            partition=path,
            setting=EXTRACTOR.name,
        ) from None
    return tuple(unquote(value) if decode else value for value in found)


COMMIT_TIME = "last_commit_time_sync"
COMPLETION_TIME = "last_commit_completion_time_sync"
PROVIDER = "spark.sql.sources.provider"

INPUT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
REALTIME_INPUT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"

#: what a metastore takes for a name
_NAME = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Column:
    """`type` is Hive's; `comment` None: not known, and not changed."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One table of the metastore. `parameters` are without those that name the newest commit; `path` says how
    a partition's location follows from its path in the table.
    """

    name: str
    location: str
    input_format: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    parameters: Mapping[str, str]
    serde_parameters: Mapping[str, str]

    def location_of(self, partition: str) -> str:
        return f"{self.location}/{partition}" if partition else self.location


@dataclass(frozen=True, kw_only=True)
class DesiredEntry:
    """The entries of one table, and how paths become values of their partition columns."""

    database: str
    entries: tuple[Entry, ...]
    extractor: str
    decode: bool
    fields: tuple[str, ...] = field(default=())

    @property
    def partitioned(self) -> bool:
        return bool(self.fields) and self.extractor != "NonPartitionedExtractor"

    def values(self, paths: Iterable[str]) -> dict[tuple[str, ...], str]:
        """Paths by the values of their partition columns. Raises TableError for a path without such values,
        and where two paths have the same.
        """
        found: dict[tuple[str, ...], str] = {}
        for path in paths:
            values = partition_values(self.extractor, path, self.fields, self.decode)
            if (other := found.setdefault(values, path)) != path:
                raise TableError(
                    f"partitions {other!r} and {path!r} both have the values {', '.join(values)} by "
                    f"{self.extractor}: set {EXTRACTOR.name} to a class that tells them apart",
                    partition=path,
                    setting=EXTRACTOR.name,
                )
        return found


def desired_entry_of(
    base_path: str, props: TableProperties, config: Config, schema: pa.Schema, avro: str
) -> DesiredEntry:
    """What a table with these columns, without meta columns, should have. `avro`: its schema, for comments.

    Raises ConfigError for settings that contradict each other or the table, SchemaError for a column that
    Hive has no type for.
    """
    fields = config[PARTITION_FIELDS] or props.partition_fields
    given = extractor_name(config[EXTRACTOR], fields, props.hive_style)
    if bool(fields) == (given == "NonPartitionedExtractor"):
        fields = ()
        given = "NonPartitionedExtractor"
    every = schema if config[OMIT_META] else with_meta(schema)
    timestamps = config[TIMESTAMPS]
    comments, unknown = (_comments(avro), "") if config[COMMENTS] else ({}, None)
    columns = {
        item.name: Column(item.name, hive_type(item.type, timestamps), comments.get(item.name, unknown))
        for item in every
    }
    texts = "Timestamp" in (props.keygenerator_class or "")
    keys = tuple(
        Column(name, columns[name].type if name in columns and not texts else "string") for name in fields
    )
    location = _location(base_path, config[LOCATION])
    table_properties: Mapping[str, str] = config[TABLE_PROPERTIES]
    serde_properties: Mapping[str, str] = config[SERDE_PROPERTIES]
    parameters = dict(table_properties)
    if config[AS_DATASOURCE]:
        parameters |= _spark_parameters(every, fields, texts, config)
    entries = []
    for name, realtime, optimized in _names(props, config):
        serde = dict(serde_properties)
        if config[AS_DATASOURCE]:
            serde |= {"path": location, "hoodie.query.as.ro.table": "true" if optimized else "false"}
        entries.append(
            Entry(
                name=name,
                location=location,
                input_format=REALTIME_INPUT if realtime else INPUT,
                columns=tuple(column for name, column in columns.items() if name not in fields),
                partition_columns=keys,
                parameters=parameters,
                serde_parameters={"serialization.format": "1", **serde},
            )
        )
    decode = config[DECODE]
    return DesiredEntry(
        database=_name(config[DATABASE] or props.database or "default", DATABASE.name),
        entries=tuple(entries),
        extractor=given,
        decode=props.url_encode if decode is None else decode,
        fields=tuple(fields),
    )


def _names(props: TableProperties, config: Config) -> list[tuple[str, bool, bool]]:
    """Of each entry its name, whether it is read with logs, and whether it is marked as read-optimized."""
    name = _name(config[TABLE] or props.name, TABLE.name)
    if props.table_type is TableType.COPY_ON_WRITE:
        return [(name, False, False)]
    if config[STRATEGY] is Strategy.RO:
        return [(name, False, True)]
    if config[STRATEGY] is Strategy.RT:
        return [(name, True, False)]
    if not config[SKIP_RO_SUFFIX]:
        own = [(name, True, False)] if config[SNAPSHOT_BY_NAME] else []
        return [(f"{name}_ro", False, True), (f"{name}_rt", True, False), *own]
    if config.given(SNAPSHOT_BY_NAME) and config[SNAPSHOT_BY_NAME]:
        raise ConfigError(
            f"{SKIP_RO_SUFFIX.name}=true and {SNAPSHOT_BY_NAME.name}=true both ask for the entry {name!r}, "
            "one for the read-optimized table and one for the snapshot; leave one of them out",
            setting=SKIP_RO_SUFFIX.name,
        )
    return [(name, False, True), (f"{name}_rt", True, False)]


def _name(text: str, setting: str) -> str:
    """In lower case, as the metastore has names."""
    if _NAME.fullmatch(text) is None:
        raise ConfigError(
            f"{text!r} is no name that metastores and readers take: letters a to z, digits and underscores; "
            f"set {setting}",
            setting=setting,
            value=text,
        )
    return text.lower()


def _location(base_path: str, given: str | None) -> str:
    own = f"file:{base_path}" if base_path.startswith("/") else base_path
    if not given:
        return own
    found = given.rstrip("/")
    if _host_and_path(found) != _host_and_path(own):
        raise ConfigError(
            f"{LOCATION.name}={given!r} is another folder than {base_path}; it may differ in scheme and port "
            "only",
            setting=LOCATION.name,
            value=given,
        )
    return found


def _host_and_path(location: str) -> tuple[str, str]:
    _, authority, path = parts_of(location)
    return authority.partition(":")[0], path


def parts_of(location: str) -> tuple[str, str, str]:
    """Scheme, authority and path; texts are empty for what it does not have."""
    scheme, sign, rest = location.partition(":")
    if not sign or "/" in scheme:
        return "", "", f"/{location.strip('/')}"
    authority = ""
    if rest.startswith("//"):
        authority, _, rest = rest[2:].partition("/")
    return scheme.lower(), authority, f"/{rest.strip('/')}"


#: schemes of one store
_SAME = {"s3a": "s3", "s3n": "s3", "webhdfs": "hdfs", "swebhdfs": "hdfs"}


def same_folder(one: str, other: str) -> bool:
    """Do two locations name one folder: of what one of them leaves out, the other one may have any."""
    (scheme, authority, path), (other_scheme, other_authority, other_path) = map(parts_of, (one, other))
    schemes = {_SAME.get(item, item) for item in (scheme, other_scheme) if item}
    authorities = {item for item in (authority, other_authority) if item}
    return path == other_path and len(schemes) < 2 and len(authorities) < 2


def _spark_parameters(
    schema: pa.Schema, fields: tuple[str, ...], texts: bool, config: Config
) -> dict[str, str]:
    """Data columns come first, then partition columns; one that is not in the schema is a text."""
    known = {item.name: item for item in schema}
    text = [pa.field(name, pa.string(), nullable=name in known) for name in fields]
    keys = [text[at] if texts else known.get(name, text[at]) for at, name in enumerate(fields)]
    whole = spark_schema([*(item for item in schema if item.name not in fields), *keys])
    size = config[SCHEMA_LENGTH]
    parts = [whole[start : start + size] for start in range(0, len(whole), size)]
    found = {PROVIDER: "hudi"}
    if config[SPARK_VERSION]:
        found["spark.sql.create.version"] = str(config[SPARK_VERSION])
    found["spark.sql.sources.schema.numParts"] = str(len(parts))
    found |= {f"spark.sql.sources.schema.part.{at}": part for at, part in enumerate(parts)}
    if fields:
        found["spark.sql.sources.schema.numPartCols"] = str(len(fields))
        found |= {f"spark.sql.sources.schema.partCol.{at}": name for at, name in enumerate(fields)}
    return found


def _comments(avro: str) -> dict[str, str]:
    return {item["name"]: str(item.get("doc") or "") for item in json.loads(avro).get("fields", ())}
