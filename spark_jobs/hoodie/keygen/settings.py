"""Settings of record keys and partition paths."""

from __future__ import annotations

import enum
from typing import Any

from hoodie.config.key import Key, bool_key, fields_key, parse_bool, parse_enum, str_key

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
    "nonpartitioned, custom) or your own `module:Class`, derived from hoodie.keygen.KeyGenerator. "
    "Unset: chosen by the number of key and partition fields.",
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
NEW_ENCODING: Key[bool | None] = Key(
    "hoodie.write.complex.keygen.new.encoding",
    None,
    "Keys of one field by the complex key generator: true writes the value, false `field:value`. Unset: as "
    "the table's files have them, and the value in a new table.",
    parse_bool,
    group="keys",
)
VALIDATE_ENCODING = bool_key(
    "hoodie.write.complex.keygen.validation.enable",
    True,
    "Refuse a table whose files have such keys in both forms, or in another than is asked for.",
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
#: 0.15.0 leaves out the type, without which no other process can compute a path, so it is kept here
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
