"""What all key generators share: record keys from fields, a partition path from parts.

A part turns one column into folder names, distinct value by distinct value; `FieldKeys` joins the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Coded, Column, Rows, array, coded_texts, column, pc, whole
from hoodie.config.key import Config
from hoodie.errors import ConfigError, InputError
from hoodie.format.names import DEFAULT_PARTITION
from hoodie.keygen import KeyGenerator
from hoodie.keygen._text import (
    check_keyable,
    column_type,
    escape,
    is_string,
    sample_row,
    texts,
)
from hoodie.keygen.settings import (
    CONSISTENT_TIMESTAMP,
    HIVE_STYLE,
    PARTITIONPATH_FIELD,
    RECORDKEY_FIELD,
    URL_ENCODE,
)

NULL_PART = "__null__"
EMPTY_PART = "__empty__"


Codes: TypeAlias = npt.NDArray[np.int32]


class Part(Protocol):
    """One component of a partition path."""

    @property
    def name(self) -> str:
        """The field, without a type suffix."""

    def codes(self, rows: Rows) -> Coded:
        """Folder name of each row, no nulls; names may repeat in the dictionary."""


@dataclass(frozen=True)
class ValuePart:
    """A column's text as a folder name (Apache Hudi 0.15.0 KeyGenUtils.getPartitionPath)."""

    name: str
    hive: bool = False
    encode: bool = False
    consistent: bool = False

    @classmethod
    def of(cls, name: str, config: Config, schema: pa.Schema) -> ValuePart:
        check_keyable(column_type(schema, name, "partition"), name, "partition")
        return cls(name, config[HIVE_STYLE], config[URL_ENCODE], config[CONSISTENT_TIMESTAMP])

    def codes(self, rows: Rows) -> Coded:
        values = whole(column(rows, self.name))
        if pa.types.is_null(values.type):
            values = values.cast(pa.string())
        coded = values.dictionary_encode()
        distinct = texts(coded.dictionary, consistent_timestamps=self.consistent).to_pylist()
        names = [self._folder(text) for text in [*distinct, None]]
        return coded_texts(pc.fill_null(coded.indices, len(distinct)), names)

    def _folder(self, text: str | None) -> str:
        name = escape(text or DEFAULT_PARTITION) if self.encode else text or DEFAULT_PARTITION
        return f"{self.name}={name}" if self.hive else name


@dataclass(frozen=True)
class FieldKeys(KeyGenerator):
    """Base of the plugins. One key field: its bare text, or `a:1` where it is `named`; several: `a:1,b:2`
    (format.md section 6.3).
    """

    record_key_fields: tuple[str, ...]
    parts: tuple[Part, ...]
    consistent: bool = False
    persist: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    named: bool = False

    @property
    def partition_fields(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def key_columns(self) -> tuple[str, ...]:
        fields = (*self.record_key_fields, *self.partition_fields)
        return tuple(dict.fromkeys(path.split(".")[0] for path in fields))

    @property
    def paths_by_value(self) -> bool:
        return all(isinstance(part, ValuePart) for part in self.parts)

    def record_keys(self, rows: Rows) -> Column:
        columns = [column(rows, path) for path in self.record_key_fields]
        found = [texts(values, consistent_timestamps=self.consistent) for values in columns]
        if len(found) == 1 and not self.named:
            missing = _missing(found[0], columns[0].type)
            if missing is not None:
                self._refuse(rows, missing)
            return _like(rows, found[0])
        blank = [_blank(text) for text in found]
        nothing = blank[0]
        for other in blank[1:]:
            nothing = pc.and_(nothing, other)
        if pc.any(nothing).as_py():
            self._refuse(rows, nothing)
        pieces: list[Any] = []
        for path, text, empty in zip(self.record_key_fields, found, blank, strict=True):
            shown = text
            if pc.any(empty).as_py():
                shown = pc.fill_null(pc.if_else(pc.equal(text, ""), EMPTY_PART, text), NULL_PART)
            pieces += [f"{',' if pieces else ''}{path}:", shown]
        return _like(rows, pc.binary_join_element_wise(*pieces, ""))

    def partition_codes(self, rows: Rows) -> Coded:
        if not self.parts:
            return coded_texts(np.zeros(rows.num_rows, np.int32), [""])
        coded = [part.codes(rows) for part in self.parts]
        indices, paths = _joined(coded) if len(coded) > 1 else _distinct(coded[0])
        self._check_paths(rows, indices, paths)
        return coded_texts(indices, paths)

    def persisted(self) -> dict[str, str]:
        return dict(self.persist)

    def _refuse(self, rows: Rows, missing: Column) -> None:
        first = pc.index(missing, pa.scalar(True)).as_py()
        count = pc.sum(missing).as_py()
        one = len(self.record_key_fields) == 1
        named = (
            f"column {self.record_key_fields[0]!r} is"
            if one
            else (f"columns {', '.join(map(repr, self.record_key_fields))} are all")
        )
        row = sample_row(rows, first, self.key_columns)
        raise InputError(
            f"record key {named} null or empty in {count} row(s), first {row}; "
            f"fill it in, filter such rows out, or choose other key columns ({RECORDKEY_FIELD.name}).",
            column=",".join(self.record_key_fields),
            rows=count,
            row=row,
        )

    def _check_paths(self, rows: Rows, indices: Codes, paths: list[str]) -> None:
        for code, path in enumerate(paths):
            steps = path.split("/")
            if "\0" not in path and not any(step in ("", ".", "..", ".hoodie") for step in steps):
                continue
            row = sample_row(rows, int(np.argmax(indices == code)), self.partition_fields)
            raise InputError(
                f"partition column(s) {', '.join(self.partition_fields)} give the path {path!r}, which is no "
                f"folder inside the table; first row {row}. Clean the value"
                + ("." if "/" not in path else f", or set {URL_ENCODE.name}=true on a new table."),
                column=",".join(self.partition_fields),
                value=path,
                row=row,
            )


def key_fields(config: Config, schema: pa.Schema) -> tuple[str, ...]:
    """The configured record key fields, checked against the schema."""
    fields = config[RECORDKEY_FIELD]
    for path in fields:
        check_keyable(column_type(schema, path, "record key"), path, "record key")
    return fields


def only_one(config: Config, what: str) -> str:
    """The single partition field of a generator that takes one key and one partition field."""
    keys, partitions = config[RECORDKEY_FIELD], config[PARTITIONPATH_FIELD]
    if len(keys) != 1 or len(partitions) != 1:
        raise ConfigError(
            f"the {what} key generator takes one record key field and one partition field, not "
            f"{','.join(keys)!r} and {','.join(partitions)!r}; use the complex, custom or nonpartitioned.",
            recordkey=",".join(keys),
            partitionpath=",".join(partitions),
        )
    return partitions[0]


def persist_entries(
    java_class: str, config: Config, partition_fields: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """What hoodie.properties keeps of every key generator (format.md section 1.4)."""
    keys = config[RECORDKEY_FIELD]
    return (
        ("hoodie.table.keygenerator.class", java_class),
        ("hoodie.table.recordkey.fields", ",".join(keys)),
        ("hoodie.table.partition.fields", ",".join(partition_fields)),
        (HIVE_STYLE.name, str(config[HIVE_STYLE]).lower()),
        (URL_ENCODE.name, str(config[URL_ENCODE]).lower()),
    )


def _missing(text: Column, kind: pa.DataType) -> Column | None:
    """Mask of null or empty keys, None when there are none."""
    if text.null_count == 0 and not is_string(kind):
        return None
    blank = _blank(text)
    return blank if pc.any(blank).as_py() else None


def _blank(text: Column) -> Column:
    mask: Column = pc.fill_null(pc.equal(pc.binary_length(text), 0), True)
    return mask


def _like(rows: Rows, keys: Column) -> Column:
    """Chunked for a table, one Array for a batch."""
    if isinstance(rows, pa.Table):
        return keys if isinstance(keys, pa.ChunkedArray) else pa.chunked_array([keys])
    return whole(keys)


def _distinct(part: Coded) -> tuple[Codes, list[str]]:
    """Codes of paths that are all different, in order of first use, unused ones left out."""
    names = part.dictionary.to_pylist()
    return _compact(_numbers(part.indices), lambda used: [str(names[code]) for code in used])


def _joined(parts: list[Coded]) -> tuple[Codes, list[str]]:
    codes, names = _distinct(parts[0])
    for part in parts[1:]:
        codes, names = _pairs(codes, names, *_distinct(part))
    return codes, names


def _pairs(left: Codes, names: list[str], right: Codes, more: list[str]) -> tuple[Codes, list[str]]:
    count = len(more)
    pairs = left.astype(np.int64) * count + right
    return _compact(pairs, lambda used: [f"{names[pair // count]}/{more[pair % count]}" for pair in used])


def _compact(codes: npt.NDArray[Any], name: Callable[[list[int]], list[str]]) -> tuple[Codes, list[str]]:
    used = array(codes).dictionary_encode()
    merged = array(name(used.dictionary.to_pylist()), pa.string()).dictionary_encode()
    return _numbers(merged.indices)[_numbers(used.indices)], merged.dictionary.to_pylist()


def _numbers(indices: Any) -> Codes:
    return np.asarray(indices).astype(np.int32)
