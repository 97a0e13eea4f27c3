"""Requests of a sync to Hive's metastore."""

from __future__ import annotations

import contextlib
import getpass
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from hoodie.config.key import Config
from hoodie.errors import StorageError
from hoodie.metastore.connection import (
    Ask,
    Foreign,
    Refused,
    Server,
    Unreachable,
    connected,
    server,
    types,
)
from hoodie.sync.hive.catalog import Catalog, EntryChange, Stored, Values
from hoodie.sync.hive.desired_entry import OUTPUT, SERDE, Column, Entry
from hoodie.sync.settings import ANSWER_MS, BATCH, URIS

_WANTED = "sync with Hive's metastore"
#: of a path that Hive makes of values (FileUtils.escapePathName)
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_DEFAULT = "__HIVE_DEFAULT_PARTITION__"
#: partitions that are dropped by a request
_DROPPED = 100
#: errors of a metastore that fails at a request, not those of a request that is wrong
_FAILED = ("MetaException", "TApplicationException")
T = TypeVar("T")


def servers(config: Config) -> list[Server]:
    """Raises ConfigError for what is no address."""
    return [server(uri, URIS.name) for uri in config[URIS].split(",") if uri.strip()]


class HiveMetastore(Catalog):
    title = "Hive's metastore"

    def __init__(self, ask: Ask, address: str, batch: int) -> None:
        super().__init__()
        self._ask, self._address, self._batch = ask, address, batch
        self._types = types(_WANTED)
        self._raw: dict[tuple[str, str], Any] = {}

    @classmethod
    def check(cls, config: Config) -> None:
        servers(config)
        types(_WANTED)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, config: Config) -> Iterator[HiveMetastore]:
        """Raises StorageError, which may work later where no server answers in time."""
        try:
            with connected(servers(config), config[ANSWER_MS], _WANTED) as ask:
                yield cls(ask, config[URIS], config[BATCH])
        except Unreachable as error:
            check = (
                f"Check that it runs, that this machine reaches it ({URIS.name}) and that it answers in time "
                f"({ANSWER_MS.name})"
            )
            if isinstance(error, Foreign):
                check = Foreign.remedy(URIS.name)
            raise StorageError(
                f"Hive's metastore {config[URIS]} can't be reached: {error}. {check}; then sync again: what "
                "is missing is done then",
                metastore=config[URIS],
                transient=not isinstance(error, Foreign),
            ) from error

    def has_database(self, database: str) -> bool:
        return self._found(lambda client: client.get_database(database)) is not None

    def create_database(self, database: str) -> None:
        made = self._types.Database(
            name=database, description="automatically created by hoodie", parameters={}
        )
        with self._there_already():
            self._change(f"create database {database}", lambda client: client.create_database(made))

    def entry(self, database: str, name: str) -> Stored | None:
        found = self._found(lambda client: client.get_table(database, name))
        if found is None:
            return None
        self._raw[database, name] = found
        sd = found.sd
        serde = sd.serdeInfo if sd else None
        return Stored(
            location=(sd.location if sd else "") or "",
            columns=tuple(map(_column, (sd.cols if sd else ()) or ())),
            partition_columns=tuple(map(_column, found.partitionKeys or ())),
            input_format=(sd.inputFormat if sd else "") or "",
            output_format=(sd.outputFormat if sd else "") or "",
            serde=(serde.serializationLib if serde else "") or "",
            parameters=found.parameters or {},
            serde_parameters=(serde.parameters if serde else {}) or {},
            catalog=self.title,
        )

    def create(self, database: str, entry: Entry, more: Mapping[str, str]) -> None:
        now = int(time.time())
        made = self._types.Table(
            tableName=entry.name,
            dbName=database,
            owner=_user(),
            createTime=now,
            lastAccessTime=0,
            retention=0,
            sd=self._types.StorageDescriptor(
                cols=[self._field(item) for item in entry.columns],
                location=entry.location,
                inputFormat=entry.input_format,
                outputFormat=OUTPUT,
                compressed=False,
                numBuckets=0,
                serdeInfo=self._types.SerDeInfo(
                    serializationLib=SERDE, parameters=dict(entry.serde_parameters)
                ),
                bucketCols=[],
                sortCols=[],
                parameters={},
                storedAsSubDirectories=False,
            ),
            partitionKeys=[self._field(item) for item in entry.partition_columns],
            parameters={"EXTERNAL": "TRUE", **entry.parameters, **more},
            tableType="EXTERNAL_TABLE",
        )
        self._change(f"create {database}.{entry.name}", lambda client: client.create_table(made))

    def alter(self, database: str, entry: Entry, change: EntryChange | None, more: Mapping[str, str]) -> None:
        """In one request, which the metastore does as a whole."""
        table = self._raw[database, entry.name]
        table.parameters = {**(table.parameters or {}), **more}
        properties = {"DO_NOT_UPDATE_STATS": "true"}
        if change is not None:
            table.parameters |= entry.parameters
            sd = table.sd
            sd.location, sd.inputFormat, sd.outputFormat = entry.location, entry.input_format, OUTPUT
            serde = sd.serdeInfo or self._types.SerDeInfo()
            serde.serializationLib = SERDE
            serde.parameters = {**(serde.parameters or {}), **entry.serde_parameters}
            sd.serdeInfo = serde
            if change.columns:
                sd.cols = [self._field(item) for item in change.columns]
            if change.of_partitions and entry.partition_columns:
                properties["CASCADE"] = "true"
        context = self._types.EnvironmentContext(properties=properties)
        self._change(
            f"alter {database}.{entry.name}",
            lambda client: client.alter_table_with_environment_context(database, entry.name, table, context),
            "; where it is about columns, hive.metastore.disallow.incompatible.col.type.changes=false of the "
            "metastore allows it, or drop that entry (its files stay) and sync again",
        )

    def partitions(self, database: str, entry: Entry) -> dict[Values, str]:
        names = self._read(lambda client: client.get_partition_names(database, entry.name, -1))
        values = [tuple(unquote(part.partition("=")[2]) for part in item.split("/")) for item in names]
        return self.locations(database, entry, values)

    def locations(self, database: str, entry: Entry, wanted: Iterable[Values]) -> dict[Values, str]:
        found: dict[Values, str] = {}

        def look(names: list[str]) -> None:
            request = _by_names(database, entry.name, names)
            found.update({tuple(item.values): item.sd.location for item in self._read(request)})

        self._in_batches([_name(entry, values) for values in wanted], look)
        return found

    def add(self, database: str, entry: Entry, partitions: Mapping[Values, str]) -> None:
        def add(some: list[Values]) -> None:
            request = self._types.AddPartitionsRequest(
                dbName=database,
                tblName=entry.name,
                parts=[self._partition(database, entry, values, partitions[values]) for values in some],
                ifNotExists=True,
                needResult=False,
            )
            self._change(f"add partitions to {database}.{entry.name}", _adding(request))

        self._in_batches(list(partitions), add)

    def move(self, database: str, entry: Entry, partitions: Mapping[Values, str]) -> None:
        def move(some: list[Values]) -> None:
            parts = [self._partition(database, entry, values, partitions[values]) for values in some]
            self._change(f"move partitions of {database}.{entry.name}", _moving(database, entry.name, parts))

        self._in_batches(list(partitions), move)

    def drop(self, database: str, entry: Entry, partitions: Iterable[Values]) -> None:
        def drop(names: list[str]) -> None:
            request = self._types.DropPartitionsRequest(
                dbName=database,
                tblName=entry.name,
                parts=self._types.RequestPartsSpec(names=names),
                deleteData=False,
                ifExists=True,
                needResult=False,
            )
            self._change(f"drop partitions of {database}.{entry.name}", _dropping(request))

        self._in_batches([_name(entry, values) for values in partitions], drop, _DROPPED)

    def _in_batches(
        self, items: Sequence[T], request: Callable[[list[T]], None], most: int | None = None
    ) -> None:
        """A request for each batch. One that the metastore fails at is made again with half as many, down to
        one: its database may take fewer of them than `.batch_num` (an embedded Derby about 500), and each
        request is done as a whole.
        """
        size, start = min(self._batch, most or self._batch), 0
        while start < len(items):
            try:
                request(list(items[start : start + size]))
            except StorageError as error:
                here = min(size, len(items) - start)
                if here == 1 or error.values.get("kind") not in _FAILED:
                    raise
                size = here // 2
            else:
                start += size

    def _partition(self, database: str, entry: Entry, values: Values, path: str) -> Any:
        sd = self._raw[database, entry.name].sd
        return self._types.Partition(
            values=list(values),
            dbName=database,
            tableName=entry.name,
            createTime=0,
            lastAccessTime=0,
            sd=self._types.StorageDescriptor(
                cols=sd.cols,
                location=entry.location_of(path),
                inputFormat=sd.inputFormat,
                outputFormat=sd.outputFormat,
                compressed=False,
                numBuckets=0,
                serdeInfo=sd.serdeInfo,
                bucketCols=[],
                sortCols=[],
                parameters={},
            ),
            parameters={},
        )

    def _field(self, column: Column) -> Any:
        return self._types.FieldSchema(name=column.name, type=column.type, comment=column.comment or "")

    def _found(self, request: Callable[[Any], Any]) -> Any:
        try:
            return self._read(request)
        except StorageError as error:
            if error.values.get("kind") == "NoSuchObjectException":
                return None
            raise

    def _read(self, request: Callable[[Any], Any]) -> Any:
        return self._request("answer", request, "")

    def _change(self, what: str, request: Callable[[Any], Any], remedy: str = "") -> Any:
        return self._request(what, request, remedy, changing=True)

    @contextlib.contextmanager
    def _there_already(self) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            if error.values.get("kind") != "AlreadyExistsException":
                raise

    def _request(
        self, what: str, request: Callable[[Any], Any], remedy: str, *, changing: bool = False
    ) -> Any:
        self.count(changing=changing)
        try:
            return self._ask(request)
        except Refused as error:
            raise StorageError(
                f"Hive's metastore {self._address} did not {what}: {error} ({error.kind}){remedy}",
                metastore=self._address,
                kind=error.kind,
            ) from error


def _by_names(database: str, name: str, names: list[str]) -> Callable[[Any], Any]:
    return lambda client: client.get_partitions_by_names(database, name, names)


def _adding(request: Any) -> Callable[[Any], Any]:
    return lambda client: client.add_partitions_req(request)


def _moving(database: str, name: str, parts: list[Any]) -> Callable[[Any], Any]:
    return lambda client: client.alter_partitions(database, name, parts)


def _dropping(request: Any) -> Callable[[Any], Any]:
    return lambda client: client.drop_partitions_req(request)


def _column(item: Any) -> Column:
    return Column(item.name, "".join(item.type.split()).lower(), item.comment or "")


def _name(entry: Entry, values: Values) -> str:
    """The metastore's name of a partition."""
    parts = zip(entry.partition_columns, values, strict=True)
    return "/".join(
        f"{_escaped(column.name.lower())}={_escaped(value or _DEFAULT)}" for column, value in parts
    )


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "hoodie"
