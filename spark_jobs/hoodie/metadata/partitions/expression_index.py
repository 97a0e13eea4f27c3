"""Indexes of expressions of the metadata table (format.md 15.12): the results of rows, as records have them.

Apache Hudi computes results by Spark (ExpressionIndexSparkFunctions). `RESULTS` has the functions whose
results are the same in each session. Of lower and upper these are the results of ASCII texts. Those of other
texts are bounded, as engines and languages differ in the case of other letters.

- An index `column_stats` has the statistics of the results in each file, and in each partition of the table,
  under the key of `PARTITION_STAT`. Apache Hudi leaves out partitions without one where others have one.
- An index `bloom_filters` has a filter of the texts of the results of each base file. It keeps files without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import Array, pc, whole
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.format.bloom import BloomFilter
from hoodie.format.bloom_size import FilterSettings, SizedFilter
from hoodie.format.settings import BloomType
from hoodie.metadata.index_definitions import V1, V2, IndexDefinition
from hoodie.metadata.partitions.column_ranges import (
    DATE,
    INT,
    STRING,
    ColumnRange,
    Unbounded,
    above,
    range_of,
)
from hoodie.metadata.partitions.value_types import is_supported

STATISTICS, FILTERS = "column_stats", "bloom_filters"
#: in keys of statistics of a partition, before its own
PARTITION_STAT = "__partition_stat__"
IDENTITY, EXPRESSION = "identity", "expr"
#: of indexes of filters: what Apache Hudi calls the settings of a filter
FILTER_OPTIONS = ("filtertype", "numentries", "fpp", "maxentries")
#: no text that is met is greater
_HIGHEST = "\U0010ffff" * 4
#: the texts of which the case is not certain, from the letter on where it is not: Turkish has another i
_UNCERTAIN = {"lower": r"(?s)(I|[^\x00-\x7F]).*", "upper": r"(?s)(i|[^\x00-\x7F]).*"}


@dataclass(frozen=True)
class Results:
    """`values`: of rows, null where the column is. `uppermost`: a text above the results that are not
    certain; None where all are.
    """

    values: Array
    uppermost: Array | None = None


@dataclass(frozen=True)
class _Function:
    """`takes`: the types of columns; `made`: the type of the results, None for that of the column. `options`:
    what it needs beside its name, `more`: what it may have. `ends`: bounds of all results; None where greater
    values have greater ones.
    """

    takes: Callable[[pa.DataType], bool]
    compute: Callable[[Array, Mapping[str, str]], Results]
    made: pa.DataType | None = None
    options: tuple[str, ...] = ()
    ends: tuple[Any, Any] | None = None
    more: tuple[str, ...] = ()


def _identity(values: Array, _: Mapping[str, str]) -> Results:
    return Results(values)


def _part(name: str) -> Callable[[Array, Mapping[str, str]], Results]:
    return lambda values, _: Results(pc.cast(getattr(pc, name)(values), pa.int32()))


def _substring(values: Array, options: Mapping[str, str]) -> Results:
    """As Spark: a place of 0 is the first one, those below 0 are from the end."""
    place, length = int(options["pos"]), max(0, int(options["len"]))
    start = place - 1 if place > 0 else place
    stop: int | None = start + length
    if start < 0 <= start + length:
        stop = None
    if not length:
        start = stop = 0
    return Results(pc.utf8_slice_codeunits(values, start, stop))


def _cased(name: str) -> Callable[[Array, Mapping[str, str]], Results]:
    change = getattr(pc, f"ascii_{name}")

    def compute(values: Array, _: Mapping[str, str]) -> Results:
        certain = pc.fill_null(pc.string_is_ascii(values), True)
        if pc.all(certain).as_py() is not False:
            return Results(change(values))
        others = values.filter(pc.invert(certain))
        begins = change(pc.replace_substring_regex(others, _UNCERTAIN[name], ""))
        found = pc.replace_with_mask(change(values), pc.invert(certain), begins)
        return Results(found, pa.array([_above_all(begins)], pa.string()))

    return compute


def _above_all(begins: Array) -> str:
    """A text above all that begin with one of these: that of the greatest, or of the shortest one that the
    greatest begins with.
    """
    greatest = pc.max(begins).as_py()
    ways = pa.array([greatest[:length] for length in range(len(greatest) + 1)], pa.string())
    begin = pc.min(ways.filter(pc.is_in(ways, value_set=begins))).as_py()
    return above(begin) or _HIGHEST


def _trimmed(name: str) -> Callable[[Array, Mapping[str, str]], Results]:
    def compute(values: Array, options: Mapping[str, str]) -> Results:
        return Results(getattr(pc, f"utf8_{name}")(values, characters=options.get("trimString", " ")))

    return compute


def _length(values: Array, _: Mapping[str, str]) -> Results:
    return Results(pc.cast(pc.utf8_length(values), pa.int32()))


def _is_any(_: pa.DataType) -> bool:
    return True


_TEXT, _WHOLE = pa.string(), pa.int32()
_ALL_TEXTS, _TRIM = ("", _HIGHEST), ("trimString",)
RESULTS: Mapping[str, _Function] = {
    IDENTITY: _Function(_is_any, _identity),
    "substring": _Function(pa.types.is_string, _substring, _TEXT, ("pos", "len"), _ALL_TEXTS),
    "lower": _Function(pa.types.is_string, _cased("lower"), _TEXT, ends=_ALL_TEXTS),
    "upper": _Function(pa.types.is_string, _cased("upper"), _TEXT, ends=_ALL_TEXTS),
    "trim": _Function(pa.types.is_string, _trimmed("trim"), _TEXT, ends=_ALL_TEXTS, more=_TRIM),
    "ltrim": _Function(pa.types.is_string, _trimmed("ltrim"), _TEXT, ends=_ALL_TEXTS, more=_TRIM),
    "rtrim": _Function(pa.types.is_string, _trimmed("rtrim"), _TEXT, ends=_ALL_TEXTS, more=_TRIM),
    "length": _Function(pa.types.is_string, _length, _WHOLE, ends=(0, (1 << 31) - 1)),
    "year": _Function(pa.types.is_date32, _part("year"), _WHOLE),
    "month": _Function(pa.types.is_date32, _part("month"), _WHOLE, ends=(1, 12)),
    "day": _Function(pa.types.is_date32, _part("day"), _WHOLE, ends=(1, 31)),
}


def unknown(definition: IndexDefinition) -> str:
    """Why the results of an index are not known here, whatever its column is; "" where they are."""
    if definition.version not in (V1, V2):
        return f"its version {definition.version[:100]!r} is not known here"
    if definition.kind not in (STATISTICS, FILTERS):
        return f"its type {definition.kind[:100]!r} is not known here"
    function = RESULTS.get(definition.function)
    if function is None:
        return f"the results of its function {definition.function[:100]!r} are not known here"
    if len(definition.source_fields) != 1 or "." in definition.source_fields[0]:
        return "it is not of one column that is no part of another"
    try:
        for name in function.options:
            int(definition.options[name])
        if definition.kind == FILTERS:
            filter_settings(definition, Config.of({})).new()
    except (LookupError, ValueError, ConfigError):
        return f"its options {dict(definition.options)} are not those of {definition.function}"[:300]
    return ""


def strange_options(definition: IndexDefinition) -> list[str]:
    """Those that Apache Hudi refuses at each write."""
    function = RESULTS[definition.function]
    known = {EXPRESSION, *function.options, *function.more}
    return sorted(set(definition.options) - known - set(FILTER_OPTIONS if definition.kind == FILTERS else ()))


def result_type(definition: IndexDefinition, kind: pa.DataType) -> pa.DataType | None:
    """Of a known index of a column of this type; None where the results of such columns are not known."""
    function = RESULTS[definition.function]
    found = kind if function.made is None else function.made
    if not function.takes(kind) or pa.types.is_binary(kind) or pa.types.is_time(kind):
        return None
    if definition.kind == FILTERS:
        tests = (pa.types.is_string, pa.types.is_int32, pa.types.is_int64)
        return found if any(test(found) for test in tests) else None
    return found if is_supported(found, typed=definition.version == V2) else None


def results(definition: IndexDefinition, values: Array, certain: bool = False) -> Results:
    """Of the values of a column. `certain`: without the rows whose results are not."""
    function = RESULTS[definition.function]
    if certain and definition.function in _UNCERTAIN:
        values = values.filter(pc.fill_null(pc.string_is_ascii(values), True))
    return function.compute(values, definition.options)


def result_range(column: str, found: Results) -> ColumnRange:
    """Raises Unbounded."""
    made = range_of(pa.field(column, found.values.type), found.values)
    if found.uppermost is None:
        return made
    more = range_of(pa.field(column, found.uppermost.type), found.uppermost)
    return replace(made.joined(more), nulls=made.nulls, values=made.values)


def range_of_results(definition: IndexDefinition, of: ColumnRange) -> ColumnRange:
    """Of the results of values in a range. Raises Unbounded for a range of another type."""
    function = RESULTS[definition.function]
    if not of.kind or definition.function == IDENTITY:
        return of
    if function.ends is not None:
        kind = STRING if function.made == _TEXT else INT
        return replace(of, kind=kind, low=function.ends[0], high=function.ends[1])
    if of.kind not in (DATE, INT):
        raise Unbounded(f"column {of.column!r} has values of {of.kind}")
    days = pa.array([of.low, of.high], pa.int32()).cast(pa.date32())
    low, high = function.compute(days, definition.options).values.to_pylist()
    return replace(of, kind=INT, low=low, high=high)


def filter_settings(definition: IndexDefinition, config: Config) -> FilterSettings:
    """By the options of the index, and the settings. Raises ConfigError, and ValueError for an option that is
    no number.
    """
    kind, entries, fpp, most = (definition.options.get(name) for name in FILTER_OPTIONS)
    asked = FilterSettings.of(config)
    return FilterSettings(
        asked.entries if entries is None else int(entries),
        asked.fpp if fpp is None else float(fpp),
        asked.type if kind is None else BloomType.of(kind),
        asked.max_entries if most is None else int(most),
    )


def result_filter(
    definition: IndexDefinition, config: Config, parts: Iterable[Results]
) -> BloomFilter | SizedFilter | None:
    """Of the results of a file; None where some are not certain. The empty text and nulls are in no filter:
    Apache Hudi fails at both.
    """
    made = filter_settings(definition, config).new()
    for part in parts:
        if part.uppermost is not None:
            return None
        made.add(texts_of(part))
    return made


def texts_of(found: Results) -> Array:
    """What a filter has of results, each once."""
    texts = pc.unique(pc.cast(found.values, pa.string())).drop_null()
    return whole(texts.filter(pc.not_equal(texts, "")))
