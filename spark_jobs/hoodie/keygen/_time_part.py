"""A point in time as a partition folder: Apache Hudi 0.15.0 TimestampBasedAvroKeyGenerator.

Numbers count the configured unit; a timestamp column counts microseconds whatever the type says (a
quirk of the original), unless consistent logical timestamps are on; a date column counts days. Null is 1 of
the unit, or for texts the first millisecond of 1970. Where Java would take its default zone, UTC is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Coded, Ints, Rows, array, coded_texts, column, pc, whole
from hoodie.config.key import Config, Key
from hoodie.errors import ConfigError, InputError
from hoodie.keygen._joda import Bad, BadValue, Parsed, Pattern
from hoodie.keygen._text import (
    check_keyable,
    column_type,
    epoch_micros,
    escape,
    is_string,
    sample_row,
)
from hoodie.keygen._zones import UTC, Zone
from hoodie.keygen.settings import (
    CONSISTENT_TIMESTAMP,
    HIVE_STYLE,
    INPUT_FORMAT,
    INPUT_FORMAT_DELIMITER,
    INPUT_TIMEZONE,
    OUTPUT_FORMAT,
    OUTPUT_TIMEZONE,
    SCALAR_TIME_UNIT,
    TIMEBASED_PERSISTED,
    TIMESTAMP_TYPE,
    TIMEZONE,
    URL_ENCODE,
    TimestampType,
    TimeUnit,
)

#: (multiply, divide) to milliseconds
_SCALES = {
    TimeUnit.NANOSECONDS: (1, 1_000_000),
    TimeUnit.MICROSECONDS: (1, 1000),
    TimeUnit.MILLISECONDS: (1, 1),
    TimeUnit.SECONDS: (1000, 1),
    TimeUnit.MINUTES: (60_000, 1),
    TimeUnit.HOURS: (3_600_000, 1),
    TimeUnit.DAYS: (86_400_000, 1),
}
_UNITS = {
    TimestampType.UNIX_TIMESTAMP: TimeUnit.SECONDS,
    TimestampType.EPOCHMILLISECONDS: TimeUnit.MILLISECONDS,
    TimestampType.EPOCHMICROSECONDS: TimeUnit.MICROSECONDS,
}
_LONG = np.iinfo(np.int64)


@dataclass(frozen=True)
class TimePart:
    """One time-based component. `unit` is None for texts, `inputs` are empty for numbers."""

    name: str
    output: Pattern
    unit: TimeUnit | None = None
    inputs: tuple[Pattern, ...] = ()
    in_zone: Zone | None = None
    out_zone: Zone | None = None
    hive: bool = False
    encode: bool = False
    consistent: bool = False

    @classmethod
    def of(cls, name: str, config: Config, schema: pa.Schema) -> TimePart:
        kind = column_type(schema, name, "partition")
        check_keyable(kind, name, "partition")
        stamp, pattern = _required(config, TIMESTAMP_TYPE), _required(config, OUTPUT_FORMAT)
        unit = config[SCALAR_TIME_UNIT] if stamp is TimestampType.SCALAR else _UNITS.get(stamp)
        text = is_string(kind) or (pa.types.is_null(kind) and unit is None)
        as_timestamp = config[CONSISTENT_TIMESTAMP] and pa.types.is_timestamp(kind)
        if pa.types.is_boolean(kind) or (text != (unit is None) and not as_timestamp):
            wanted = "DATE_STRING or MIXED with an input format" if text else "a type that counts a unit"
            raise ConfigError(
                f"partition column {name!r} has type {kind}, which doesn't go with {TIMESTAMP_TYPE.name}="
                f"{stamp.value}; "
                + ("choose another column." if pa.types.is_boolean(kind) else f"use {wanted}."),
                column=name,
                type=str(kind),
            )
        zone = config[TIMEZONE]
        return cls(
            name,
            Pattern.for_output(pattern),
            unit,
            _input_patterns(config) if text else (),
            _zone(config[INPUT_TIMEZONE] if zone is None else zone),
            _zone(config[OUTPUT_TIMEZONE] if zone is None else zone),
            config[HIVE_STYLE],
            config[URL_ENCODE],
            config[CONSISTENT_TIMESTAMP],
        )

    def codes(self, rows: Rows) -> Coded:
        values = whole(column(rows, self.name))
        if self.inputs:
            return self._from_texts(rows, values)
        return self._from_instants(self._millis(values))

    def _from_texts(self, rows: Rows, values: Array) -> Coded:
        coded = values.cast(pa.string()).dictionary_encode()
        folders: list[str] = []
        for code, text in enumerate(map(str, coded.dictionary.to_pylist())):
            try:
                folders.append(self._folder(self._text_path(text)))
            except Bad as error:
                index = pc.index(coded.indices, pa.scalar(code, coded.indices.type)).as_py()
                formats = ", ".join(repr(pattern.text) for pattern in self.inputs)
                raise InputError(
                    f"partition column {self.name!r}: {text!r} is no date in {formats} ({error}); first row "
                    f"{sample_row(rows, index, [self.name])}. Add its pattern to {INPUT_FORMAT.name}.",
                    column=self.name,
                    value=text,
                ) from None
        folders.append(self._folder(self._text_path(self._default_text())))
        return coded_texts(pc.fill_null(coded.indices, len(folders) - 1), folders)

    def _default_text(self) -> str:
        zone = self.in_zone or self.out_zone or UTC
        local = 1 + zone.offset(1)
        return Pattern.for_output(self.inputs[0].text).format(local, zone.offset(1), zone.name)

    def _text_path(self, text: str) -> str:
        parsed = self._parse(text)
        if self.out_zone is None and self.in_zone is None and parsed.offset is not None:
            zone = Zone.of_offset(parsed.offset)
        else:
            zone = self.out_zone or self.in_zone or UTC
        offset = zone.offset(parsed.instant)
        return self.output.format(parsed.instant + offset, offset, zone.name)

    def _parse(self, text: str) -> Parsed:
        problems = []
        for pattern in self.inputs:
            try:
                return pattern.parse(text, self.in_zone)
            except BadValue:
                raise
            except Bad as error:
                problems.append(str(error))
        raise Bad("; ".join(problems))

    def _from_instants(self, instants: Ints) -> Coded:
        zone = self.out_zone or UTC
        offsets = zone.offsets(instants)
        local = instants + offsets
        blocks = array(local // self.output.grain).dictionary_encode()
        starts = blocks.dictionary.to_numpy() * self.output.grain
        codes = blocks.indices.to_numpy()
        if not self.output.shows_zone:
            names = [self._folder(self.output.format(start)) for start in starts.tolist()]
            return coded_texts(blocks.indices, names)
        kinds = array(offsets).dictionary_encode()
        known = kinds.dictionary.to_pylist()
        pairs = array(codes.astype(np.int64) * len(known) + kinds.indices.to_numpy()).dictionary_encode()
        names = [
            self._folder(
                self.output.format(int(starts[pair // len(known)]), known[pair % len(known)], zone.name)
            )
            for pair in pairs.dictionary.to_pylist()
        ]
        return coded_texts(pairs.indices, names)

    def _millis(self, values: Array) -> Ints:
        """Milliseconds since 1970 of each row, cut off toward zero and held within 64 bits as Java does."""
        kind = values.type
        if pa.types.is_timestamp(kind) and self.consistent:
            millis = truncated(pc.fill_null(epoch_micros(values), 0).to_numpy(), 1000)
            default = self._scaled(np.ones(1, np.int64))[0] if self.unit else 1
            return np.where(values.is_valid().to_numpy(zero_copy_only=False), millis, default)
        if pa.types.is_timestamp(kind):
            whole = epoch_micros(values)
        elif pa.types.is_date(kind):
            whole = values.cast(pa.date32()).cast(pa.int32())
        elif pa.types.is_floating(kind):
            numbers = np.nan_to_num(pc.fill_null(values.cast(pa.float64()), 1.0).to_numpy())
            inside = np.abs(numbers) < 2.0**63
            cut = np.where(inside, numbers, 0).astype(np.int64)
            return self._scaled(np.where(inside, cut, np.where(numbers > 0, _LONG.max, _LONG.min)))
        elif pa.types.is_decimal(kind):
            whole = values.cast(pa.decimal128(38, 0), safe=False)
            whole = whole.cast(pa.int64())
        else:
            whole = values
        return self._scaled(pc.fill_null(whole.cast(pa.int64()), 1).to_numpy())

    def _scaled(self, numbers: Ints) -> Ints:
        if self.unit is None:
            raise AssertionError("numbers without a unit pass no check")
        factor, divisor = _SCALES[self.unit]
        if divisor > 1:
            return truncated(numbers, divisor)
        limit = _LONG.max // factor
        return np.clip(numbers, -limit, limit) * factor

    def _folder(self, path: str) -> str:
        path = escape(path) if self.encode else path
        return f"{self.name}={path}" if self.hive else path


def truncated(numbers: Ints, divisor: int) -> Ints:
    """Java's division: toward zero."""
    floor = numbers // divisor
    result: Ints = floor + ((numbers < 0) & (floor * divisor != numbers))
    return result


def timebased_entries(config: Config) -> tuple[tuple[str, str], ...]:
    """The time settings a table remembers."""
    return tuple((key.name, str(config.text(key.name))) for key in TIMEBASED_PERSISTED if config.given(key))


def _required(config: Config, key: Key[Any]) -> Any:
    if config[key] in (None, ""):
        raise ConfigError(f"a timestamp-based partition needs {key.name}: {key.doc}", setting=key.name)
    return config[key]


def _input_patterns(config: Config) -> tuple[Pattern, ...]:
    listed = _required(config, INPUT_FORMAT)
    delimiter = config[INPUT_FORMAT_DELIMITER] or ","
    try:
        texts = [text.strip() for text in re.split(delimiter, listed)]
    except re.error as error:
        raise ConfigError(
            f"{INPUT_FORMAT_DELIMITER.name}={delimiter!r} is no regular expression: {error}.", value=delimiter
        ) from None
    return tuple(Pattern.for_input(text) for text in texts if text)


def _zone(text: str | None) -> Zone | None:
    return Zone.of(text.strip()) if text and text.strip() else None
