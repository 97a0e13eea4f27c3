"""Commit metadata: what an instant wrote (format.md 3.1 to 3.3; Apache Hudi 0.15.0 HoodieCommitMetadata).

Stdlib only, so that a sensor can read commits. Keys go out in Hudi's order and in Jackson's layout, byte
for byte what Hudi writes. Keys of other releases are tolerated and kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from json.encoder import encode_basestring
from typing import Any

from hoodie.errors import TableError
from hoodie.format.names import data_file, file_id, relative_path
from hoodie.timeline.commit_head import KEEPS_SCHEMA as KEEPS_SCHEMA
from hoodie.timeline.commit_head import PARTITION, REPLACED, CommitHead
from hoodie.timeline.commit_head import REWRITES as REWRITES
from hoodie.timeline.commit_head import SCHEMA_KEY as SCHEMA_KEY
from hoodie.timeline.models.mapper import camel_case
from hoodie.timeline.time import InstantTime

#: `prevCommit` of a file group that did not exist before: the text, not a JSON null
NO_COMMIT = "null"
#: that of the table's columns with their ids (format.md 3.10); a table of schema-on-read evolution has it
LATEST_SCHEMA_KEY = "latest_schema"
#: that of a delete: how many rows of its input had a key that the table did not hold
MISSING_KEY = "hoodie.delete.missing.keys"
#: that of an insert: how many rows were left out, as the table held their key
DROPPED_KEY = "hoodie.insert.dropped.duplicates"
#: outcomes of the validators of a write: JSON, a list of objects as of `validations_of`
VALIDATIONS_KEY = "airflow.validations"
_VALIDATION = {"validator": str, "query": str, "passed": bool, "expected": str, "found": str}


#: content of a commit's file -> an object with Hudi's keys; see Layout.commit_value
ReadValue = Callable[[bytes], Mapping[str, Any]]


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def json_object(data: bytes) -> Mapping[str, Any]:
    """JSON -> its value. Raises ValueError, RecursionError for other content."""
    text = data.decode()
    value: Mapping[str, Any] = json.loads(text, parse_constant=_no_number)
    if "\\u" in text:  # half of a pair, which no UTF-8 has
        json.dumps(value, ensure_ascii=False).encode()
    return value


@dataclass(frozen=True)
class RuntimeStats:
    """Milliseconds a write task spent."""

    total_scan_time: int = 0
    total_upsert_time: int = 0
    total_create_time: int = 0


@dataclass(frozen=True)
class WriteStat:
    """What one task did to one file group. Sizes are bytes, event times epoch milliseconds.

    `path` is relative to the table, without a leading slash. `num_writes` is the number of rows in the new
    base file, or in the log blocks. `file_size_in_bytes` must be the file's length: readers rely on it.
    The log fields are None for a base file and then left out. `extra` holds keys unknown here.
    `column_stats` are those of a log file as its task reports them: JSON, which no commit contains; nor does
    it contain `may_insert`: keys of rows of a log file may be new, or may have been deleted there before.
    """

    file_id: str = ""
    path: str | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_commit: str | None = NO_COMMIT
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    temp_path: str | None = None
    partition_path: str | None = None
    total_log_records: int = 0
    total_log_files_compacted: int = 0
    total_log_size_compacted: int = 0
    total_updated_records_compacted: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    file_size_in_bytes: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    column_stats: tuple[Any, ...] = ()
    may_insert: bool = False

    @property
    def is_new_file_group(self) -> bool:
        return self.prev_commit is None or self.prev_commit == NO_COMMIT

    @property
    def file_name(self) -> str:
        """Without folders; "" where no file is named."""
        return (self.path or "").rpartition("/")[2]

    def to_dict(self) -> dict[str, Any]:
        """JSON object, keys in Hudi's order."""
        out: dict[str, Any] = {}
        for key, name in _STAT_KEYS.items():
            value = getattr(self, name)
            if value is None and name in _LOG_FIELDS:
                continue
            if isinstance(value, RuntimeStats):
                value = {json_key: getattr(value, attr) for json_key, attr in _RUNTIME_KEYS.items()}
            out[key] = list(value) if isinstance(value, tuple) else value
        return {**out, **self.extra}

    def to_report(self) -> dict[str, Any]:
        """What a task reports; see `stats_by_partition`."""
        return {**self.to_dict(), _REPORTED: self.column_stats, _MAY_INSERT: self.may_insert}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> WriteStat:
        """Absent keys take their defaults, and so do numbers that are null, as in Hudi.

        Raises TypeError for a value of another type, TableError for a path that leads elsewhere.
        """
        values: dict[str, Any] = {name: value[key] for key, name in _STAT_KEYS.items() if key in value}
        nulls = []
        for name, given in values.items():
            if given is None and name in _LONGS:
                nulls.append(name)
            elif type(given) not in _TYPES[name] or (type(given) is int and not -_LONG <= given < _LONG):
                raise TypeError(f"{camel_case(name)} of a file is no {_TYPES[name][0].__name__}")
        for name in nulls:
            del values[name]
        times = values.get("runtime_stats")
        if times is not None:
            known = {attr: times[key] for key, attr in _RUNTIME_KEYS.items() if key in times}
            values["runtime_stats"] = RuntimeStats(**known)
        if values.get("log_files") is not None:
            values["log_files"] = tuple(values["log_files"])
        file_id(values.get("file_id"), "fileId")
        for path in (values.get("path"), *(values.get("cdc_stats") or ())):
            if path is not None:
                data_file(path, "file of a commit")
        return cls(**values, extra={key: item for key, item in value.items() if key not in _STAT_KEYS})


_LONG = 2**63
_LONGS = {item.name for item in fields(WriteStat) if item.type == "int"}
#: of JSON; a number that is null is taken for none
_TYPES: dict[str, tuple[type, ...]] = {
    **{item.name: (str, type(None)) for item in fields(WriteStat)},
    **dict.fromkeys(_LONGS, (int,)),
    **dict.fromkeys(("min_event_time", "max_event_time", "log_version", "log_offset"), (int, type(None))),
    **dict.fromkeys(("cdc_stats", "runtime_stats"), (dict, type(None))),
    "log_files": (list, type(None)),
}
_LOG_FIELDS = frozenset({"log_version", "log_offset", "base_file", "log_files"})
_NO_KEYS = frozenset({"extra", "column_stats", "may_insert"})
_STAT_KEYS = {camel_case(item.name): item.name for item in fields(WriteStat) if item.name not in _NO_KEYS}
_REPORTED, _MAY_INSERT = "columnStats", "mayInsert"
_RUNTIME_KEYS = {camel_case(item.name): item.name for item in fields(RuntimeStats)}


def stats_by_partition(records: Iterable[Mapping[str, Any]]) -> dict[str, list[WriteStat]]:
    """What tasks report of the files they wrote, by partition path."""
    stats: dict[str, list[WriteStat]] = {}
    for record in records:
        reported = tuple(record.get(_REPORTED, ()))
        known = {key: value for key, value in record.items() if key not in (_REPORTED, _MAY_INSERT)}
        inserts = bool(record.get(_MAY_INSERT))
        stat = replace(WriteStat.from_dict(known), column_stats=reported, may_insert=inserts)
        stats.setdefault(stat.partition_path or "", []).append(stat)
    return stats


def validations_of(value: Any) -> list[dict[str, Any]]:
    """Objects of the outcomes of validators: the class, its query, whether it passed, and what was expected
    and found. Other values are left out, as they come from a file.
    """
    return [
        {name: item[name] for name in _VALIDATION}
        for item in (value if isinstance(value, list) else ())
        if isinstance(item, dict)
        and all(isinstance(item.get(key), kind) for key, kind in _VALIDATION.items())
    ]


@dataclass(frozen=True)
class CommitMetadata:
    """Content of a completed `commit` or `deltacommit`, and of their inflight files.

    Keys of `partition_to_write_stats` are partition paths, "" in a non-partitioned table.
    """

    partition_to_write_stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    compacted: bool = False
    extra_metadata: Mapping[str, str | None] = field(default_factory=dict)
    operation_type: str = "UNKNOWN"
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes, value: ReadValue = json_object) -> CommitMetadata:
        """A file's content -> metadata, a ReplaceCommitMetadata where it names replaced files.

        Empty input is empty metadata. `value` makes an object of other input. Raises TableError when the
        content is torn.
        """
        if not data.strip():
            return CommitMetadata()
        try:
            return _from_dict(value(data))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise TableError(
                f"commit metadata can't be read ({error}): {data[:80]!r}…; restore the instant's file, or "
                "roll the instant back"
            ) from None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> CommitMetadata:
        """An object with Hudi's keys -> metadata. Raises TableError for values of other types."""
        return cls.parse(b"{}", lambda _: value)

    @classmethod
    def completed(cls, data: bytes, path: str, value: ReadValue = json_object) -> CommitMetadata:
        """As `parse`, of the file of a completed commit, delta commit or replacecommit.

        Such a file always names what was written, be it nothing. Raises TableError, which names `path`, when
        it is empty, torn, or does not.
        """
        why = "is empty"
        if data.strip():
            try:
                found = cls.parse(data, value)
            except TableError as error:
                raise _damaged(path, error.message.partition("; restore")[0]) from None
            key = REPLACED if path.endswith(".replacecommit") else _WRITTEN
            if key.encode() in data and (key == _WRITTEN or isinstance(found, ReplaceCommitMetadata)):
                return found
            why = f"has no {key}"
        raise _damaged(path, why)

    def to_dict(self) -> dict[str, Any]:
        """JSON object, keys in Hudi's order."""
        stats = {
            partition: [stat.to_dict() for stat in group]
            for partition, group in self.partition_to_write_stats.items()
        }
        return {
            "partitionToWriteStats": stats,
            "compacted": self.compacted,
            "extraMetadata": dict(self.extra_metadata),
            "operationType": self.operation_type,
            **self._tail(),
            **self.extra,
        }

    def to_json(self) -> bytes:
        """The file's content, laid out as Hudi does."""
        return pretty_json(self.to_dict()).encode()

    def _tail(self) -> dict[str, Any]:
        return {}

    @property
    def write_stats(self) -> Iterator[WriteStat]:
        for group in self.partition_to_write_stats.values():
            yield from group

    @property
    def partitions(self) -> list[str]:
        return sorted(self.partition_to_write_stats)

    @property
    def file_groups(self) -> set[tuple[str, str]]:
        """(partition path, file id) of the file groups written, or, in an inflight file, to be updated."""
        groups = self.partition_to_write_stats.items()
        return {(partition, stat.file_id) for partition, stats in groups for stat in stats if stat.file_id}

    @property
    def num_writes(self) -> int:
        """Rows in all files written, copied ones included."""
        return sum(stat.num_writes for stat in self.write_stats)

    @property
    def num_inserts(self) -> int:
        return sum(stat.num_inserts for stat in self.write_stats)

    @property
    def num_updates(self) -> int:
        return sum(stat.num_update_writes for stat in self.write_stats)

    @property
    def num_deletes(self) -> int:
        return sum(stat.num_deletes for stat in self.write_stats)

    @property
    def num_files(self) -> int:
        return sum(stat.path is not None for stat in self.write_stats)

    @property
    def bytes_written(self) -> int:
        return sum(stat.total_write_bytes for stat in self.write_stats)

    @property
    def num_missing(self) -> int:
        """Rows of a delete whose key was not there; 0 where the commit does not say."""
        return self._count(MISSING_KEY)

    @property
    def num_dropped(self) -> int:
        """Rows of an insert that were left out, as their key was there; 0 where the commit does not say."""
        return self._count(DROPPED_KEY)

    @property
    def validations(self) -> list[dict[str, Any]]:
        """Outcomes of the validators that the write ran; none where the commit does not say."""
        try:
            return validations_of(json.loads(self.extra_metadata.get(VALIDATIONS_KEY) or "[]"))
        except (ValueError, RecursionError):
            return []

    def _count(self, key: str) -> int:
        text = self.extra_metadata.get(key) or ""
        return int(text) if text.isdecimal() else 0

    @property
    def num_replaced(self) -> int:
        """File groups that are not visible any more."""
        return 0

    @property
    def head(self) -> CommitHead:
        first = next((stat.file_id or "" for stat in self.write_stats), None)
        return CommitHead(self.operation_type, self.extra_metadata, self._replaced, first)

    @property
    def _replaced(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def schema_text(self) -> str | None:
        """As that of `head`."""
        return self.head.schema_text()


@dataclass(frozen=True)
class ReplaceCommitMetadata(CommitMetadata):
    """Content of a completed `replacecommit`: also which file groups stop being visible, by partition."""

    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def partitions(self) -> list[str]:
        """Those written to and those of which files were replaced."""
        return sorted({*self.partition_to_write_stats, *self.partition_to_replace_file_ids})

    @property
    def num_replaced(self) -> int:
        return sum(map(len, self.partition_to_replace_file_ids.values()))

    @property
    def _replaced(self) -> Mapping[str, tuple[str, ...]]:
        return self.partition_to_replace_file_ids

    def _tail(self) -> dict[str, Any]:
        groups = {partition: list(ids) for partition, ids in self.partition_to_replace_file_ids.items()}
        return {REPLACED: groups}


def _damaged(path: str, why: str) -> TableError:
    return TableError(
        f"{path} is damaged: {why}. The instant is completed, but what it wrote is not known; restore the "
        "file from a copy, or roll the instant back (hoodie rollback)",
        path=path,
    )


_WRITTEN = "partitionToWriteStats"
_COMMIT_KEYS = frozenset(
    {"partitionToWriteStats", "compacted", "extraMetadata", "operationType", REPLACED},
)


def _from_dict(value: Mapping[str, Any]) -> CommitMetadata:
    stats = value.get("partitionToWriteStats") or {}
    head = CommitHead.of(value)
    common: dict[str, Any] = {
        "partition_to_write_stats": {
            relative_path(partition, PARTITION): tuple(WriteStat.from_dict(stat) for stat in group)
            for partition, group in stats.items()
        },
        "compacted": bool(value.get("compacted")),
        "extra_metadata": head.extra_metadata,
        "operation_type": head.operation_type,
        "extra": {key: item for key, item in value.items() if key not in _COMMIT_KEYS},
    }
    if REPLACED not in value:
        return CommitMetadata(**common)
    return ReplaceCommitMetadata(**common, partition_to_replace_file_ids=head.replaced)


@dataclass(frozen=True)
class PlannedFile:
    """One existing file group that a write is going to change."""

    file_id: str
    base_instant: InstantTime
    num_updates: int = 0
    num_inserts: int = 0


def inflight_metadata(
    operation_type: str, inserts: Mapping[str, int], files: Mapping[str, Sequence[PlannedFile]]
) -> CommitMetadata:
    """The workload profile that an inflight file holds (format.md 3.2).

    `inserts` is the number of new rows by partition, those that go to existing files included; `files`
    the existing file groups by partition.
    """
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for partition in dict.fromkeys([*inserts, *files]):
        planned = [
            WriteStat(
                file_id=item.file_id,
                prev_commit=str(item.base_instant),
                num_update_writes=item.num_updates,
                num_inserts=item.num_inserts,
            )
            for item in files.get(partition, ())
        ]
        stats[partition] = (WriteStat(num_inserts=inserts.get(partition, 0)), *planned)
    return CommitMetadata(partition_to_write_stats=stats, operation_type=operation_type)


def pretty_json(value: Any, depth: int = 0) -> str:
    """JSON as Jackson's default pretty printer lays it out: two blanks, ` : `, arrays on one line."""
    if type(value) in (str, int):
        return _scalar(value)
    if isinstance(value, Mapping):
        if not value:
            return "{ }"
        inner = "  " * (depth + 1)
        items = [f"{inner}{_scalar(key)} : {pretty_json(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + "  " * depth + "}"
    if isinstance(value, (list, tuple)):
        if not value:
            return "[ ]"
        return "[ " + ", ".join(pretty_json(item, depth) for item in value) + " ]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return encode_basestring(value) if type(value) is str else json.dumps(value, ensure_ascii=False)
