"""Entries in AWS Glue's Data Catalog; Apache Hudi's AwsGlueCatalogSyncTool.

Glue takes any change of columns, and changes none of a partition by itself: those follow the entry's here,
and are changed before it, so that a sync which ends in between sees the change again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from hoodie.config.key import Config
from hoodie.errors import StorageError
from hoodie.sync.hive.catalog import Catalog, EntryChange, Stored, Values, batches
from hoodie.sync.hive.desired_entry import OUTPUT, SERDE, Column, Entry
from hoodie.sync.hive.glue_requests import LEFT_OUT, NOT_THERE, THERE, TITLE, Requests, check
from hoodie.sync.settings import (
    BATCH,
    GLUE_ALL_READS,
    GLUE_CHANGES,
    GLUE_LISTING,
    GLUE_READS,
    GLUE_SKIP_ARCHIVE,
)

T = TypeVar("T")

#: of one request
_MOST_CHANGED, _MOST_DROPPED, _MOST_READ = 100, 25, 1000
#: how often keys that Glue left out of an answer are asked for again
_ROUNDS = 5
_LONGEST_COMMENT = 255
#: what Athena goes by
_LISTING = "hudi.metadata-listing-enabled"
#: what an entry is changed by, and a partition beside its values; what is asked for has more
_TABLE_INPUT = (
    "Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor",
    "PartitionKeys", "ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable",
)  # fmt: skip
_PARTITION_INPUT = ("LastAccessTime", "StorageDescriptor", "Parameters", "LastAnalyzedTime")


class GlueCatalog(Catalog):
    title = TITLE

    def __init__(self, requests: Requests, config: Config) -> None:
        super().__init__()
        self._requests = requests
        self._size = config[BATCH]
        self._skip_archive = config[GLUE_SKIP_ARCHIVE]
        self._added = {_LISTING: "TRUE" if config[GLUE_LISTING] else "FALSE"}
        self._segments = config[GLUE_ALL_READS]
        self._readers, self._changers = config[GLUE_READS], config[GLUE_CHANGES]
        self._raw: dict[tuple[str, str], dict[str, Any]] = {}

    @classmethod
    def check(cls, config: Config) -> None:
        check(config)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, config: Config) -> Iterator[GlueCatalog]:
        """Asks nothing yet: Glue has requests, and no connection."""
        requests = Requests.of(config)
        try:
            yield cls(requests, config)
        finally:
            requests.client.close()

    def fitted(self, entry: Entry) -> Entry:
        """Names in lower case, as Athena wants them; comments of Glue's length; its own scheme of S3."""
        location = entry.location
        for scheme in ("s3a://", "s3n://"):
            if location.startswith(scheme):
                location = f"s3://{location.removeprefix(scheme)}"
        return replace(
            entry,
            location=location,
            columns=tuple(map(_fitted, entry.columns)),
            partition_columns=tuple(map(_fitted, entry.partition_columns)),
            parameters={**entry.parameters, **self._added},
        )

    def has_database(self, database: str) -> bool:
        answer = self._found("get_database", Name=database)
        with self._requests.reading("get_database"):
            return answer is not None and bool(answer["Database"])

    def create_database(self, database: str) -> None:
        given = {"Name": database, "Description": "automatically created by hoodie"}
        try:
            self._change("create_database", f"create database {database}", DatabaseInput=given)
        except StorageError as error:
            if error.values.get("kind") != THERE:
                raise

    def entry(self, database: str, name: str) -> Stored | None:
        answer = self._found("get_table", DatabaseName=database, Name=name)
        if answer is None:
            return None
        with self._requests.reading("get_table"):
            found = answer["Table"]
            stored = _stored(found)
        self._raw[database, name] = {key: found[key] for key in _TABLE_INPUT if key in found}
        return stored

    def create(self, database: str, entry: Entry, more: Mapping[str, str]) -> None:
        made = {
            "Name": entry.name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {"EXTERNAL": "TRUE", **entry.parameters, **more},
            "PartitionKeys": [_raw_column(item) for item in entry.partition_columns],
            "StorageDescriptor": _described({}, entry, entry.columns),
        }
        what = f"create {database}.{entry.name}"
        self._change("create_table", what, DatabaseName=database, TableInput=made)

    def alter(self, database: str, entry: Entry, change: EntryChange | None, more: Mapping[str, str]) -> None:
        table = self._raw[database, entry.name]
        parameters = {**(table.get("Parameters") or {}), **more}
        if change is not None:
            parameters |= entry.parameters
            sd = _described(table.get("StorageDescriptor") or {}, entry, change.columns)
            if change.of_partitions and entry.partition_columns:
                self._follow(database, entry, sd["Columns"])
            table["StorageDescriptor"] = sd
        table["Parameters"] = parameters
        self._change(
            "update_table",
            f"alter {database}.{entry.name}",
            DatabaseName=database,
            TableInput=table,
            SkipArchive=self._skip_archive,
        )

    def _follow(self, database: str, entry: Entry, columns: list[Any]) -> None:
        """All partitions of the entry get its columns."""
        listed = self._listed(database, entry)
        with self._requests.reading("get_partitions"):
            inputs = [
                {
                    **{key: item[key] for key in _PARTITION_INPUT if key in item},
                    "Values": item["Values"],
                    "StorageDescriptor": {**item["StorageDescriptor"], "Columns": columns},
                }
                for item in listed
            ]
        self._update(f"change columns of partitions of {database}.{entry.name}", database, entry, inputs)

    def partitions(self, database: str, entry: Entry) -> dict[Values, str]:
        listed = self._listed(database, entry)
        with self._requests.reading("get_partitions"):
            return dict(map(_located, listed))

    def _listed(self, database: str, entry: Entry) -> list[dict[str, Any]]:
        """All partitions, without their columns."""
        given = {"DatabaseName": database, "TableName": entry.name, "ExcludeColumnSchema": True}
        count = self._segments

        def pages(segment: int) -> list[dict[str, Any]]:
            part = {"Segment": {"SegmentNumber": segment, "TotalSegments": count}} if count > 1 else {}
            token: dict[str, str] = {}
            found: list[dict[str, Any]] = []
            while True:
                answer = self._read("get_partitions", **given, **part, **token)
                found += answer.get("Partitions") or ()
                following = answer.get("NextToken")
                if not following:
                    return found
                if following == token.get("NextToken"):
                    raise self._requests.refused("answer", "NextToken", "a page names itself as the next one")
                token = {"NextToken": following}

        return [item for found in _each(pages, range(count), count) for item in found]

    def locations(self, database: str, entry: Entry, wanted: Iterable[Values]) -> dict[Values, str]:
        def look_up(some: list[Values]) -> dict[Values, str]:
            keys: list[Any] = [{"Values": list(values)} for values in some]
            found: dict[Values, str] = {}
            for _ in range(_ROUNDS):
                answer = self._read(
                    "batch_get_partition",
                    DatabaseName=database,
                    TableName=entry.name,
                    PartitionsToGet=keys,
                )
                with self._requests.reading("batch_get_partition"):
                    found |= dict(map(_located, answer.get("Partitions") or ()))
                keys = answer.get("UnprocessedKeys") or []
                if not keys:
                    return found
            raise self._requests.refused("answer", LEFT_OUT, f"{len(keys)} partitions are left out")

        size = min(self._size, _MOST_READ)
        answers: dict[Values, str] = {}
        for found in _each(look_up, list(batches(list(wanted), size)), self._readers):
            answers |= found
        return answers

    def add(self, database: str, entry: Entry, partitions: Mapping[Values, str]) -> None:
        inputs = self._inputs(database, entry, partitions)
        what = f"add partitions to {database}.{entry.name}"

        def add(some: list[Any]) -> None:
            answer = self._change(
                "batch_create_partition",
                what,
                DatabaseName=database,
                TableName=entry.name,
                PartitionInputList=some,
            )
            self._refuse(what, answer, THERE)

        self._every(add, inputs, _MOST_CHANGED)

    def move(self, database: str, entry: Entry, partitions: Mapping[Values, str]) -> None:
        what = f"move partitions of {database}.{entry.name}"
        self._update(what, database, entry, self._inputs(database, entry, partitions))

    def _update(self, what: str, database: str, entry: Entry, inputs: list[dict[str, Any]]) -> None:
        def update(some: list[Any]) -> None:
            answer = self._change(
                "batch_update_partition",
                what,
                DatabaseName=database,
                TableName=entry.name,
                Entries=[{"PartitionValueList": item["Values"], "PartitionInput": item} for item in some],
            )
            self._refuse(what, answer, None)

        self._every(update, inputs, _MOST_CHANGED)

    def drop(self, database: str, entry: Entry, partitions: Iterable[Values]) -> None:
        what = f"drop partitions of {database}.{entry.name}"

        def drop(some: list[Values]) -> None:
            answer = self._change(
                "batch_delete_partition",
                what,
                DatabaseName=database,
                TableName=entry.name,
                PartitionsToDelete=[{"Values": list(values)} for values in some],
            )
            self._refuse(what, answer, NOT_THERE)

        self._every(drop, list(partitions), _MOST_DROPPED)

    def _inputs(self, database: str, entry: Entry, partitions: Mapping[Values, str]) -> list[dict[str, Any]]:
        sd = self._raw[database, entry.name]["StorageDescriptor"]
        return [
            {
                "Values": list(values),
                "StorageDescriptor": {**sd, "Location": entry.location_of(path)},
                "Parameters": {},
            }
            for values, path in partitions.items()
        ]

    def _every(self, request: Callable[[list[T]], None], items: Sequence[T], most: int) -> None:
        size = min(self._size, most)
        for _ in _each(request, list(batches(items, size)), self._changers):
            pass

    def _refuse(self, what: str, answer: Mapping[str, Any], harmless: str | None) -> None:
        """Raises StorageError for what Glue did not do of a batch."""
        failed = [item.get("ErrorDetail") or {} for item in answer.get("Errors") or ()]
        failed = [item for item in failed if item.get("ErrorCode") != harmless]
        if failed:
            code, text = (str(failed[0].get(name) or "") for name in ("ErrorCode", "ErrorMessage"))
            raise self._requests.refused(what, code, f"{text} (one of {len(failed)})")

    def _found(self, operation: str, **arguments: Any) -> dict[str, Any] | None:
        try:
            return self._read(operation, **arguments)
        except StorageError as error:
            if error.values.get("kind") == NOT_THERE:
                return None
            raise

    def _read(self, operation: str, **arguments: Any) -> dict[str, Any]:
        self.count(changing=False)
        return self._requests.ask(operation, "answer", arguments)

    def _change(self, operation: str, what: str, **arguments: Any) -> dict[str, Any]:
        self.count(changing=True)
        return self._requests.ask(operation, what, arguments)


def _each(request: Callable[[Any], T], items: Sequence[Any], at_once: int) -> Iterator[T]:
    """Answers in their order; where one raises, requests that have not begun are not made."""
    if at_once == 1 or len(items) < 2:
        yield from map(request, items)
        return
    with ThreadPoolExecutor(min(at_once, len(items))) as pool:
        yield from pool.map(request, items)


def _described(stored: Mapping[str, Any], entry: Entry, columns: Sequence[Column]) -> dict[str, Any]:
    """The storage descriptor of an entry, with what is `stored` of it; no columns: those stay."""
    serde = stored.get("SerdeInfo") or {}
    return {
        "Compressed": False,
        "NumberOfBuckets": 0,
        "StoredAsSubDirectories": False,
        **stored,
        **({"Columns": [_raw_column(item) for item in columns]} if columns else {}),
        "Location": entry.location,
        "InputFormat": entry.input_format,
        "OutputFormat": OUTPUT,
        "SerdeInfo": {
            **serde,
            "SerializationLibrary": SERDE,
            "Parameters": {**(serde.get("Parameters") or {}), **entry.serde_parameters},
        },
    }


def _stored(table: Mapping[str, Any]) -> Stored:
    sd = table.get("StorageDescriptor") or {}
    serde = sd.get("SerdeInfo") or {}
    return Stored(
        location=sd.get("Location") or "",
        columns=tuple(map(_column, sd.get("Columns") or ())),
        partition_columns=tuple(map(_column, table.get("PartitionKeys") or ())),
        input_format=sd.get("InputFormat") or "",
        output_format=sd.get("OutputFormat") or "",
        serde=serde.get("SerializationLibrary") or "",
        parameters=table.get("Parameters") or {},
        serde_parameters=serde.get("Parameters") or {},
        catalog=TITLE,
    )


def _fitted(column: Column) -> Column:
    comment = column.comment
    if comment is not None:
        comment = " ".join(comment.split())[:_LONGEST_COMMENT]
    return replace(column, name=column.name.lower(), comment=comment)


def _raw_column(column: Column) -> dict[str, str]:
    return {"Name": column.name, "Type": column.type, "Comment": column.comment or ""}


def _column(item: Mapping[str, str]) -> Column:
    return Column(item["Name"], "".join((item.get("Type") or "").split()).lower(), item.get("Comment") or "")


def _located(item: Mapping[str, Any]) -> tuple[Values, str]:
    return tuple(item["Values"]), (item.get("StorageDescriptor") or {}).get("Location") or ""
