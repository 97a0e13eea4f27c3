"""What is asked of a table: kinds of queries, and points in time as people write them (format.md 12.2)."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import datetime

from hoodie.errors import ConfigError
from hoodie.text import argument, nearest
from hoodie.timeline.instant import BOOTSTRAPS
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime


class QueryType(enum.Enum):
    """`incremental` gives rows as of `end` that were written after `begin`."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"
    TIME_TRAVEL = "time_travel"


EARLIEST = "earliest"
#: sorts before every instant; Apache Hudi's users write it for "from the beginning"
_BEGINNINGS = frozenset({EARLIEST, "0", "000"})
_INSTANT = re.compile(r"\d{14}(\d{3})?")
_FORMS = (
    "an instant (yyyyMMddHHmmss or yyyyMMddHHmmssSSS), yyyy-MM-dd, yyyy-MM-dd HH:mm:ss or "
    "yyyy-MM-dd HH:mm:ss.SSS, in the time zone of the table's timeline"
)


@dataclass(frozen=True)
class Query:
    """A query whose options fit each other. Points in time are texts that compare with instants.

    begin: exclusive; "" is the beginning of the table. end: inclusive; None is the newest commit.
    """

    type: QueryType = QueryType.SNAPSHOT
    begin: InstantTime | None = None
    end: InstantTime | None = None
    as_of: InstantTime | None = None

    @classmethod
    def of(
        cls,
        query: str | None = None,
        begin: str | None = None,
        end: str | None = None,
        as_of: str | None = None,
    ) -> Query:
        """Without `query` the options decide: `as_of` is time travel, `begin` incremental, none a snapshot.

        Raises ConfigError for an unknown query, options that it does not take or lacks, and malformed times.
        """
        kind = _type(query, begin, end, as_of)
        _refuse(kind, QueryType.INCREMENTAL, begin=begin, end=end)
        _refuse(kind, QueryType.TIME_TRAVEL, as_of=as_of)
        if kind is QueryType.INCREMENTAL and begin is None:
            raise ConfigError(f"an incremental query needs {argument('begin')}: an instant, or {EARLIEST!r}")
        if kind is QueryType.TIME_TRAVEL and as_of is None:
            raise ConfigError(f"a time travel query needs {argument('as_of')}: {_FORMS}")
        made = cls(
            kind,
            None if begin is None else NO_TIME if str(begin) in _BEGINNINGS else point("begin", begin, "000"),
            None if end is None else point("end", end, "999"),
            None if as_of is None else point("as_of", as_of, "999"),
        )
        if made.begin is not None and made.end is not None and REQUESTED.after(made.begin, made.end):
            raise ConfigError(
                f"{argument('begin')} {begin} is later than {argument('end')} {end}",
                begin=str(begin),
                end=str(end),
            )
        return made


@dataclass(frozen=True)
class Span:
    """Commit times of the rows that an incremental query gives: later than `begin`, up to `end`.

    `by_completion`: `begin` and `end` are times of completion; `instants` are the commits between them, None
    for all until `end`. `every_group`: not all of these commits say which file groups they wrote to.
    """

    begin: InstantTime
    end: InstantTime
    instants: frozenset[InstantTime] | None = None
    by_completion: bool = False
    every_group: bool = False

    def predicate(self) -> str:
        """SQL that DuckDB and Spark understand; instants are digits."""
        from hoodie.format.meta_fields import COMMIT_TIME

        if self.instants is not None:
            listed = ", ".join(f"'{time}'" for time in sorted(self.instants, key=REQUESTED.key))
            return f"({COMMIT_TIME} IN ({listed}))" if listed else "(FALSE)"
        return f"({COMMIT_TIME} > '{self.begin}' AND {COMMIT_TIME} <= '{self.end}')"


def point(name: str, text: str, millis: str) -> InstantTime:
    """A point in time as an instant of 17 digits; `millis` completes a time without them, a day is its start.

    Raises ConfigError that names the option and lists the forms.
    """
    given = str(text).strip()
    if given in BOOTSTRAPS:
        return InstantTime(given)
    match = _INSTANT.fullmatch(given)
    if match:
        digits = given if match.group(1) else given + millis
    else:
        digits = _digits(given, millis)
    try:
        datetime.strptime(digits[:14], "%Y%m%d%H%M%S")
    except ValueError:
        raise ConfigError(
            f"{argument(name)} {text!r} is no point in time; write {_FORMS}", **{name: given}
        ) from None
    return InstantTime(digits)


def _digits(text: str, millis: str) -> str:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return text.replace("-", "") + "000000000"
    if re.fullmatch(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{3})?", text):
        digits = re.sub(r"\D", "", text)
        return digits if len(digits) == 17 else digits + millis
    return ""


def _type(query: str | None, begin: str | None, end: str | None, as_of: str | None) -> QueryType:
    if query is None:
        if as_of is not None and begin is None and end is None:
            return QueryType.TIME_TRAVEL
        if begin is not None or end is not None:
            return QueryType.INCREMENTAL
        return QueryType.SNAPSHOT
    try:
        return QueryType(str(query).strip().lower().replace("-", "_"))
    except ValueError:
        known = ", ".join(kind.value for kind in QueryType)
        near = nearest(str(query), (kind.value for kind in QueryType))
        raise ConfigError(f"unknown query {query!r}; use one of {known}{near}", query=str(query)) from None


def _refuse(kind: QueryType, only: QueryType, **options: str | None) -> None:
    given = [argument(name) for name, value in options.items() if value is not None]
    if given and kind is not only:
        raise ConfigError(
            f"{' and '.join(given)} {'belong' if len(given) > 1 else 'belongs'} to a query of type "
            f"{only.value}, not {kind.value}",
            query=kind.value,
            option=", ".join(given),
        )
