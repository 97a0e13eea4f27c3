"""Record keys and partition paths of incoming rows: protocol, settings, registry.

A key generator is a module of this folder that defines `PLUGIN`, a class with `java_class`, `aliases` and
`make(config, schema)`. The folder is the registry; Java class names (the Spark ones and their Avro twins)
and the short types of `hoodie.datasource.write.keygenerator.type` name the same plugin.

Format: format.md sections 4 and 6.3; behaviour of Apache Hudi 0.15.0's Avro key generators.
"""

from __future__ import annotations

import enum
import importlib
import pkgutil
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from hoodie.config.key import Config, Key, bool_key, fields_key, parse_enum, str_key
from hoodie.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

RECORDKEY_FIELD = fields_key(
    "hoodie.datasource.write.recordkey.field",
    (),
    "Columns that identify a record, comma-separated; `a.b` reaches into a struct.",
    aliases=("hoodie.table.recordkey.fields",),
    group="keys",
)
PARTITIONPATH_FIELD = fields_key(
    "hoodie.datasource.write.partitionpath.field",
    (),
    "Columns of the partition path, comma-separated; empty: not partitioned. The custom key generator "
    "takes `column:SIMPLE` or `column:TIMESTAMP`.",
    aliases=("hoodie.table.partition.fields",),
    group="keys",
)
KEYGENERATOR_CLASS = str_key(
    "hoodie.datasource.write.keygenerator.class",
    None,
    "Key generator by Apache Hudi's class name or by short name (simple, complex, timestamp, "
    "nonpartitioned, custom). Unset: chosen by the number of key and partition fields.",
    aliases=("hoodie.table.keygenerator.class",),
    group="keys",
)
KEYGENERATOR_TYPE = str_key(
    "hoodie.datasource.write.keygenerator.type",
    None,
    "Key generator by type: SIMPLE, COMPLEX, TIMESTAMP, NON_PARTITION, CUSTOM.",
    aliases=("hoodie.table.keygenerator.type",),
    group="keys",
)
HIVE_STYLE = bool_key(
    "hoodie.datasource.write.hive_style_partitioning",
    False,
    "Partition folders are named `column=value` instead of `value`.",
    group="keys",
)
URL_ENCODE = bool_key(
    "hoodie.datasource.write.partitionpath.urlencode",
    False,
    "Escape characters of partition values that are special in paths, such as `/` and `=`.",
    group="keys",
)
CONSISTENT_TIMESTAMP = bool_key(
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
    False,
    "Timestamp columns appear in keys as `2024-01-01 12:00:00.0` (UTC, milliseconds) instead of microseconds "
    "since 1970.",
    group="keys",
)


class TimestampType(enum.Enum):
    """How the timestamp-based key generator understands its column."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"


class TimeUnit(enum.Enum):
    NANOSECONDS = "NANOSECONDS"
    MICROSECONDS = "MICROSECONDS"
    MILLISECONDS = "MILLISECONDS"
    SECONDS = "SECONDS"
    MINUTES = "MINUTES"
    HOURS = "HOURS"
    DAYS = "DAYS"


def _timebased(name: str) -> dict[str, Any]:
    return {"aliases": (f"hoodie.deltastreamer.keygen.timebased.{name}",), "group": "keys"}


TIMESTAMP_TYPE: Key[TimestampType | None] = Key(
    "hoodie.keygen.timebased.timestamp.type",
    None,
    "What the partition column holds: UNIX_TIMESTAMP (seconds), EPOCHMILLISECONDS, EPOCHMICROSECONDS, "
    "SCALAR (see its time unit), DATE_STRING or MIXED (text in one of the input formats).",
    parse_enum(TimestampType),
    **_timebased("timestamp.type"),
)
SCALAR_TIME_UNIT: Key[TimeUnit] = Key(
    "hoodie.keygen.timebased.timestamp.scalar.time.unit",
    TimeUnit.SECONDS,
    "Unit of the numbers when the timestamp type is SCALAR.",
    parse_enum(TimeUnit),
    **_timebased("timestamp.scalar.time.unit"),
)
INPUT_FORMAT = str_key(
    "hoodie.keygen.timebased.input.dateformat",
    "",
    "Joda-Time patterns of the text in the column, tried in order, e.g. `yyyy-MM-dd'T'HH:mm:ssZ`.",
    **_timebased("input.dateformat"),
)
INPUT_FORMAT_DELIMITER = str_key(
    "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex",
    ",",
    "Regular expression between the patterns of the input format.",
    **_timebased("input.dateformat.list.delimiter.regex"),
)
INPUT_TIMEZONE = str_key(
    "hoodie.keygen.timebased.input.timezone",
    None,
    "Time zone of texts in the column. Unset: the offset in the text, else UTC.",
    **_timebased("input.timezone"),
)
OUTPUT_FORMAT = str_key(
    "hoodie.keygen.timebased.output.dateformat",
    None,
    "Joda-Time pattern of the partition path, e.g. `yyyy/MM/dd`.",
    **_timebased("output.dateformat"),
)
OUTPUT_TIMEZONE = str_key(
    "hoodie.keygen.timebased.output.timezone",
    None,
    "Time zone of the partition path. Unset: for texts the input's zone, else UTC.",
    **_timebased("output.timezone"),
)
TIMEZONE = str_key(
    "hoodie.keygen.timebased.timezone",
    None,
    "Time zone of both input and output; where set it wins over the two others.",
    **_timebased("timezone"),
)

#: what a table with a timestamp-based partition remembers, each only where the user gave it; Apache Hudi
#: 0.15.0 leaves out the type, without which nobody else could compute a path, so it is kept here
TIMEBASED_PERSISTED: tuple[Key[Any], ...] = (
    TIMESTAMP_TYPE,
    SCALAR_TIME_UNIT,
    INPUT_FORMAT,
    INPUT_FORMAT_DELIMITER,
    INPUT_TIMEZONE,
    OUTPUT_FORMAT,
    OUTPUT_TIMEZONE,
    TIMEZONE,
)


class KeyGenerator(Protocol):
    """Pure and picklable; built once on the driver, used on executors.

    `rows` is a RecordBatch or Table with at least `key_columns`. Results have one entry a row, in row order.
    """

    java_class: str

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """Key fields as configured, dotted for nested ones."""

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Partition fields, bare names; () when not partitioned."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Top-level columns it reads."""

    def record_keys(self, rows: pa.RecordBatch | pa.Table) -> pa.Array[Any] | pa.ChunkedArray[Any]:
        """string, no nulls; an Array for a batch, chunked for a table.

        Raises InputError that names the column and shows a row, when a key is null or empty.
        """

    def partition_paths(self, rows: pa.RecordBatch | pa.Table) -> pa.Array[Any]:
        """string, no nulls; "" when not partitioned.

        Raises InputError for a value that can't be (part of) a path.
        """

    def partition_codes(self, rows: pa.RecordBatch | pa.Table) -> pa.DictionaryArray[Any, Any]:
        """The same paths as dictionary<int32, string>, each path once in the dictionary."""

    def persisted(self) -> dict[str, str]:
        """Entries for hoodie.properties when a table is created."""


def key_generator(config: Config, schema: pa.Schema) -> KeyGenerator:
    """The configured key generator, checked against the columns of the incoming rows.

    Raises ConfigError for settings that don't fit each other or a column's type, InputError for a column
    that isn't there.
    """
    plugins = registry()
    names = {key: config[key] for key in (KEYGENERATOR_CLASS, KEYGENERATOR_TYPE) if config[key]}
    chosen = {key.name: _lookup(plugins, key.name, str(name)) for key, name in names.items()}
    if len(set(chosen.values())) > 1:
        asked = ", ".join(f"{key.name}={name}" for key, name in names.items())
        raise ConfigError(f"{asked} ask for different key generators; give one of the two.", settings=asked)
    plugin = next(iter(chosen.values()), None) or plugins[_by_fields(config)]
    if not config[RECORDKEY_FIELD]:
        raise ConfigError(
            f"no record key: set {RECORDKEY_FIELD.name} to the column (or columns) that identify a record.",
            setting=RECORDKEY_FIELD.name,
        )
    made: KeyGenerator = plugin.make(config, schema)
    return made


@lru_cache(maxsize=1)
def registry() -> dict[str, Any]:
    """Every plugin class of this folder by lower-case name: Java classes and short names."""
    plugins: dict[str, Any] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            plugin = importlib.import_module(f"{__name__}.{info.name}").PLUGIN
            plugins.update({name.lower(): plugin for name in (plugin.java_class, *plugin.aliases)})
    return plugins


def _lookup(plugins: dict[str, Any], setting: str, name: str) -> Any:
    try:
        return plugins[name.lower()]
    except KeyError:
        known = ", ".join(sorted({plugin.java_class for plugin in plugins.values()}))
        raise ConfigError(
            f"{setting}={name!r} is no key generator known here; use one of {known}.",
            setting=setting,
            value=name,
        ) from None


def _by_fields(config: Config) -> str:
    if not config[PARTITIONPATH_FIELD]:
        return "nonpartitioned"
    single = len(config[PARTITIONPATH_FIELD]) == 1 and len(config[RECORDKEY_FIELD]) == 1
    return "simple" if single else "complex"
