"""Arguments of the table object: points in time, and the words of a table's columns with their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from hoodie.config.key import Config
from hoodie.errors import ConfigError, TableMismatch
from hoodie.keygen.settings import PARTITIONPATH_FIELD, RECORDKEY_FIELD
from hoodie.merge.settings import PRECOMBINE_FIELD
from hoodie.timeline.clock import format_millis

if TYPE_CHECKING:
    from hoodie.table.properties import TableProperties


class OfCommit(Protocol):
    """What names a commit: the result of a write, or an entry of the history."""

    @property
    def instant(self) -> str: ...

    @property
    def completion(self) -> str | None: ...


#: a text is an instant, or a date and time in the time zone of the table's timeline
PointInTime: TypeAlias = str | datetime | date | OfCommit

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def instant_text(name: str, given: PointInTime | None, is_utc: Callable[[], bool]) -> str | None:
    """The text that a query takes. A text stays as it is, a date is its beginning in the zone of the table's
    timeline, and a datetime with a time zone is that millisecond. Of a commit `as_of` takes the instant,
    `begin` and `end` take the completion.

    `is_utc`: is the timeline in UTC, else it is in the zone of this process. Raises ConfigError that names
    the option for a datetime without a time zone, for a result without a commit, and for other types.
    """
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, datetime):
        if isinstance(given, date):
            return given.isoformat()
        return _of_commit(name, given)
    if given.utcoffset() is None:
        raise ConfigError(
            f"{name} is {given.isoformat()}, which has no time zone; give it one, as "
            "datetime(…, tzinfo=timezone.utc), or pass a text in the zone of the table's timeline",
            **{name: given.isoformat()},
        )
    try:
        return format_millis((given - _EPOCH) // timedelta(milliseconds=1), is_utc())
    except (OverflowError, ValueError, OSError):
        raise ConfigError(
            f"{name} is {given.isoformat()}, which is no time of an instant; give one from 1970 on",
            **{name: given.isoformat()},
        ) from None


def _of_commit(name: str, given: OfCommit) -> str:
    given = getattr(given, "write", given)  # of an ingestion
    found = getattr(given, "instant" if name == "as_of" else "completion", None)
    status = getattr(given, "status", getattr(given, "state", ""))
    if found and isinstance(found, str) and status not in ("requested", "inflight"):
        return found
    if not hasattr(given, "instant"):
        raise ConfigError(
            f"{name} is {given!r}; give a text, a date, a datetime with a time zone, or a write's result",
            **{name: repr(given)},
        )
    raise ConfigError(
        f"{name} is a {type(given).__name__} with the status {status}, which names no commit of rows; give "
        "the result of a write, or a text",
        **{name: status},
    )


#: a name, names with commas, or a list of names
Columns: TypeAlias = str | Sequence[str]

_SETTINGS = {
    "keys": RECORDKEY_FIELD.name,
    "partition_by": PARTITIONPATH_FIELD.name,
    "ordering": PRECOMBINE_FIELD.name,
}


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """What a call says of a table's columns; None where it says nothing.

    keys: they identify a row. partition_by: those of the partition path; an empty list for a table without
    partitions. ordering: of two rows with one key the greater value wins.
    """

    keys: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] | None = None
    ordering: tuple[str, ...] | None = None

    @classmethod
    def of(cls, keys: Columns | None, partition_by: Columns | None, ordering: Columns | None) -> TableColumns:
        """Raises ConfigError that names the argument for what is no names of columns."""
        return cls(
            keys=_names("keys", keys),
            partition_by=_names("partition_by", partition_by),
            ordering=_names("ordering", ordering),
        )

    @classmethod
    def of_table(cls, properties: TableProperties) -> TableColumns:
        rule = properties.merge_rule
        older = (properties.precombine_field,) if properties.precombine_field else ()
        return cls(
            keys=properties.record_key_fields,
            partition_by=properties.partition_fields,
            ordering=rule.named_fields if rule.by_mode else older,
        )

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """Those that are said, by their words."""
        return {word: given for word in _SETTINGS if (given := getattr(self, word)) is not None}

    def settings(self, path: str, properties: TableProperties | None) -> dict[str, str]:
        """The settings of a write: of a new table, whose `properties` are None, what is said; a table that is
        there knows its own. Raises TableMismatch that names both where it has others.
        """
        if properties is None:
            return {_SETTINGS[word]: ",".join(given) for word, given in self.words.items()}
        stored = TableColumns.of_table(properties).words
        wrong = [
            f"{word}={_shown(given)}, the table has {_shown(stored[word])}"
            for word, given in self.words.items()
            if _bare(given) != _bare(stored[word])
        ]
        if wrong:
            raise TableMismatch(
                f"{'; '.join(wrong)} ({properties.name!r} at {path}). Leave them out, as a table knows its "
                "own, or write to a new table",
                options="; ".join(wrong),
            )
        return {}


def check_keys(path: str, options: Mapping[str, Any]) -> None:
    """Raises ConfigError for the first write of a table that names no keys."""
    if not Config.of(options).given(RECORDKEY_FIELD):
        raise ConfigError(
            f"there is no table at {path} yet, and its first write says no keys: name the columns that "
            "identify a row, as keys='order_id' or keys=['shop', 'order_id']",
            path=path,
        )


def _names(word: str, given: Columns | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    listed = given.split(",") if isinstance(given, str) else given
    if not isinstance(listed, Sequence) or not all(isinstance(name, str) for name in listed):
        raise ConfigError(f"{word} is {given!r}; give the name of a column, or a list of names")
    names = () if given == "" else tuple(name.strip() for name in listed)
    if wrong := [name for name in names if not name or "," in name]:
        raise ConfigError(f"{word} has {wrong[0]!r}, which is no name of a column here")
    if word == "keys" and not names:
        raise ConfigError("keys is empty; name the columns that identify a row, or leave it out")
    return names


def _bare(fields: Sequence[str]) -> list[str]:
    """Without the kinds of a custom key generator, `day:simple`."""
    return [field.partition(":")[0] for field in fields]


def _shown(names: Sequence[str]) -> str:
    return repr(",".join(names)) if names else "none"
