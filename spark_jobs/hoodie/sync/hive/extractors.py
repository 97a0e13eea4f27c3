"""Values of partition columns from a partition path, by the names of Apache Hudi's extractors.

Each is a function of the path; it raises ValueError for a path of another form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from urllib.parse import unquote

from hoodie.errors import ConfigError, TableError
from hoodie.sync.settings import EXTRACTOR

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
