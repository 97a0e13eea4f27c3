"""Change data: the records of `.cdc` log files (format.md 8.9; Apache Hudi 0.15.0 HoodieCDCUtils).

A table that keeps a change log (`hoodie.table.cdc.enabled`) has one such file beside each base file that a
write made of another one: a CDC_DATA block, whose records say what became of the rows that changed.

    DATA_BEFORE_AFTER    op | ts_ms | before | after
    DATA_BEFORE          op | record_key | before
    OP_KEY_ONLY          op | record_key

`before` and `after` are rows in the table's schema without meta columns, `ts_ms` is the instant of the write.
"""

from __future__ import annotations

import enum
import json
from typing import Any

from hoodie.errors import ConfigError

#: property of a table: which of the forms its change log has
LOGGING_MODE = "hoodie.table.cdc.supplemental.logging.mode"

OP, TS_MS, BEFORE, AFTER, KEY = "op", "ts_ms", "before", "after", "record_key"
#: of the answer of a CDC query
COLUMNS = (OP, TS_MS, BEFORE, AFTER)

_TEXT: list[str] = ["null", "string"]


class Op(enum.Enum):
    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"


class LoggingMode(enum.Enum):
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"
    DATA_BEFORE = "DATA_BEFORE"
    OP_KEY_ONLY = "OP_KEY_ONLY"

    @classmethod
    def of(cls, text: str | None) -> LoggingMode:
        """The mode by the property's text, in any case. Raises ConfigError for an unknown one."""
        try:
            return cls((text or cls.DATA_BEFORE_AFTER.value).strip().upper())
        except ValueError:
            known = ", ".join(mode.value for mode in cls)
            raise ConfigError(f"{LOGGING_MODE}={text!r} is none of {known}", value=text) from None

    @property
    def columns(self) -> tuple[str, ...]:
        """Of a record, in order."""
        return _COLUMNS[self]


_COLUMNS = {
    LoggingMode.DATA_BEFORE_AFTER: COLUMNS,
    LoggingMode.DATA_BEFORE: (OP, KEY, BEFORE),
    LoggingMode.OP_KEY_ONLY: (OP, KEY),
}


def record_schema(mode: LoggingMode, table_schema: str) -> str:
    """The Avro schema of a block's records, as Apache Hudi writes it.

    `table_schema` is the table's as Avro JSON: a record without meta columns.
    """
    if mode is LoggingMode.OP_KEY_ONLY:
        fields: list[dict[str, Any]] = [{"name": name, "type": ["string", "null"]} for name in mode.columns]
        return _compact({"type": "record", "name": "Record", "fields": fields})
    image = json.loads(table_schema)
    space, name = image.pop("namespace", None), image["name"]
    kinds: dict[str, Any] = {
        BEFORE: ["null", {key: image[key] for key in ("type", "name", *image)}],
        AFTER: ["null", name],
    }
    fields = [
        {"name": column, "type": kinds.get(column, _TEXT), "doc": "", "default": None}
        for column in mode.columns
    ]
    named = {"namespace": space} if space else {}
    return _compact({"type": "record", "name": "CDC", **named, "fields": fields})


def _compact(schema: dict[str, Any]) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
