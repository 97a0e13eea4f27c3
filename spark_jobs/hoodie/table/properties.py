"""hoodie.properties, a table's persisted configuration (format.md 1; Apache Hudi 0.15.0 HoodieTableConfig).

Stdlib only. At least one of `hoodie.properties` and `hoodie.properties.backup` is whole and readable during
every change, for readers of this package and of Hudi, wherever a process is killed:

    create   folders in Hudi's order, then hoodie.properties as the last step
    update   recover -> read -> create the backup -> replace hoodie.properties -> verify -> delete the backup
    recover  hoodie.properties missing or torn: copy the backup over it; then delete the backup

Hudi deletes hoodie.properties before it writes the new one; `Storage.write` replaces it atomically instead.
Properties come with a table: they must not lead out of it, or run code (SECURITY.md).
"""

from __future__ import annotations

import enum
import functools
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from hoodie.config import versions
from hoodie.errors import (
    AlreadyExists,
    CommitConflict,
    ConfigError,
    TableError,
    TableNotFound,
    TornProperties,
)
from hoodie.format.java_properties import format_properties, parse_properties
from hoodie.format.names import META_FOLDER as META_FOLDER
from hoodie.storage import Storage
from hoodie.table import new_table
from hoodie.table.later_names import older_names
from hoodie.table.merge_rule import DEFAULT_MERGER_STRATEGY as DEFAULT_MERGER_STRATEGY
from hoodie.table.merge_rule import DEFAULT_PAYLOAD_CLASS as DEFAULT_PAYLOAD_CLASS
from hoodie.table.merge_rule import MERGER_STRATEGY as MERGER_STRATEGY
from hoodie.table.merge_rule import PAYLOAD_CLASS as PAYLOAD_CLASS
from hoodie.table.merge_rule import PRECOMBINE_FIELD as PRECOMBINE_FIELD
from hoodie.table.merge_rule import MergeRule
from hoodie.timeline.placement import stamp_of

#: what names classes, and what names a folder below `.hoodie`
_CLASSES = (
    "hoodie.compaction.payload.class",
    "hoodie.table.keygenerator.class",
    "hoodie.bootstrap.index.class",
)
_FOLDER = "hoodie.archivelog.folder"
#: an expression, and what it is searched in: a table could have both such that the search never ends
_PATTERN = "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex"
_SEARCHED = "hoodie.keygen.timebased.input.dateformat"
_LONGEST_PATTERN, _LONGEST_SEARCHED, _MOST_REPEATS = 30, 1000, 2


def checked_properties(texts: dict[str, str], base_path: str) -> dict[str, str]:
    """The texts of hoodie.properties. Raises TableError for a Python class, which only a caller may name,
    for an archive that is not below `.hoodie`, and for an expression that could be searched without end.
    """
    for name in _CLASSES:
        if ":" in texts.get(name, ""):
            raise TableError(
                f"{base_path} names Python code, {name}={texts[name]!r}; a table can't have code run. Give a "
                "class of your own in the options of the call, and correct the table's property",
                path=base_path,
                setting=name,
                value=texts[name],
            )
    folder = texts.get(_FOLDER, "")
    if folder.startswith("/") or "\0" in folder or not {"..", "."}.isdisjoint(folder.split("/")):
        raise TableError(
            f"{base_path} has its archive outside .hoodie, {_FOLDER}={folder!r}; correct that property",
            path=base_path,
            setting=_FOLDER,
            value=folder,
        )
    pattern = texts.get(_PATTERN, "")
    repeats = sum(map(pattern.count, "*+{?"))
    if (
        "(" in pattern
        or repeats > _MOST_REPEATS
        or len(pattern) > _LONGEST_PATTERN
        or len(texts.get(_SEARCHED, "")) > _LONGEST_SEARCHED
    ):
        raise TableError(
            f"{base_path} has an expression that may take for ever, {_PATTERN}={pattern[:100]!r}; a plain "
            "one, such as a comma, is enough: correct that property",
            path=base_path,
            setting=_PATTERN,
            value=pattern,
        )
    return texts


FILE_NAME = "hoodie.properties"
BACKUP_NAME = "hoodie.properties.backup"

NAME = "hoodie.table.name"
DATABASE = "hoodie.database.name"
TYPE = "hoodie.table.type"
VERSION = "hoodie.table.version"
#: the version that a table was made with, or upgraded from to one of the later layout; known since version 8
INITIAL_VERSION = "hoodie.table.initial.version"
CHECKSUM = "hoodie.table.checksum"
LAYOUT_VERSION = "hoodie.timeline.layout.version"
ARCHIVE_FOLDER = "hoodie.archivelog.folder"
BASE_FILE_FORMAT = "hoodie.table.base.file.format"
RECORD_KEY_FIELDS = "hoodie.table.recordkey.fields"
PARTITION_FIELDS = "hoodie.table.partition.fields"
KEY_GENERATOR = "hoodie.table.keygenerator.class"
POPULATE_META_FIELDS = "hoodie.populate.meta.fields"
CDC_ENABLED = "hoodie.table.cdc.enabled"
TIMELINE_TIMEZONE = "hoodie.table.timeline.timezone"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
DROP_PARTITION_COLUMNS = "hoodie.datasource.write.drop.partition.columns"
PARTITION_METAFILE_BASE_FORMAT = "hoodie.partition.metafile.use.base.format"
CREATE_SCHEMA = "hoodie.table.create.schema"
BOOTSTRAP_BASE_PATH = "hoodie.bootstrap.base.path"
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
METADATA_PARTITIONS_INFLIGHT = "hoodie.table.metadata.partitions.inflight"


class TableType(str, enum.Enum):
    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


@dataclass(frozen=True)
class TableProperties(Mapping[str, str]):
    """The properties of one table: a mapping of texts with typed attributes. Made by `load` and `create`.

    `texts` are those of the file. What the file has under a newer name is found by the older one, too.
    `stamp`: what no other content of the file has, where the storage tells it.
    """

    texts: Mapping[str, str]
    stamp: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> str:
        older = self._older.get(name)
        return self.texts[name] if older is None else older

    @functools.cached_property
    def _older(self) -> Mapping[str, str]:
        rule = self.merge_rule
        merging = {PRECOMBINE_FIELD: rule.precombine_field, PAYLOAD_CLASS: rule.payload_class}
        found = {name: text for name, text in merging.items() if text and not self.texts.get(name)}
        return older_names(self.texts) | found

    @functools.cached_property
    def merge_rule(self) -> MergeRule:
        return MergeRule.of(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def name(self) -> str:
        return self.texts[NAME]

    @property
    def database(self) -> str:
        return self.texts.get(DATABASE, "")

    @property
    def table_type(self) -> TableType:
        return TableType(self.texts.get(TYPE, "COPY_ON_WRITE").upper())

    @property
    def version(self) -> int:
        return int(self.texts.get(VERSION, "0"))

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """Empty when keys are generated by Hudi."""
        return self._fields(RECORD_KEY_FIELDS)

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Bare column names; empty when the table is not partitioned."""
        return self._fields(PARTITION_FIELDS)

    @property
    def precombine_field(self) -> str | None:
        return self.merge_rule.precombine_field

    @property
    def keygenerator_class(self) -> str | None:
        return self.get(KEY_GENERATOR) or None

    @property
    def payload_class(self) -> str | None:
        """As persisted (version 6 persists it for MERGE_ON_READ only); None when the table says nothing."""
        return self.merge_rule.payload_class

    @property
    def hive_style(self) -> bool:
        return self._flag(HIVE_STYLE)

    @property
    def url_encode(self) -> bool:
        return self._flag(URL_ENCODE)

    @property
    def drop_partition_columns(self) -> bool:
        return self._flag(DROP_PARTITION_COLUMNS)

    @property
    def populate_meta_fields(self) -> bool:
        return self._flag(POPULATE_META_FIELDS, default=True)

    @property
    def timeline_utc(self) -> bool:
        """Instants are UTC; otherwise they are in the writer's local zone."""
        return self.texts.get(TIMELINE_TIMEZONE, "LOCAL").upper() == "UTC"

    @property
    def base_file_format(self) -> str:
        return (self.get(BASE_FILE_FORMAT) or "PARQUET").upper()

    @property
    def archive_folder(self) -> str:
        return self.texts.get(ARCHIVE_FOLDER) or "archived"

    @property
    def create_schema(self) -> str | None:
        """Avro JSON that SQL stored when it created the table."""
        return self.texts.get(CREATE_SCHEMA) or None

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """Partitions of the metadata table that readers may trust; empty: there is none."""
        return self._fields(METADATA_PARTITIONS)

    def _fields(self, key: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.texts.get(key, "").split(",") if part.strip())

    def _flag(self, key: str, default: bool = False) -> bool:
        text = self.texts.get(key)
        return default if text is None else text.strip().lower() == "true"


def checksum(texts: Mapping[str, str]) -> str:
    """Decimal CRC-32 of "<database>.<table>"; nothing else of the file is covered (format.md 1.2)."""
    return str(zlib.crc32(f"{texts.get(DATABASE, '')}.{texts[NAME]}".encode()))


def properties_path(base_path: str) -> str:
    return f"{base_path}/{META_FOLDER}/{FILE_NAME}"


def backup_path(base_path: str) -> str:
    return f"{base_path}/{META_FOLDER}/{BACKUP_NAME}"


def load(
    storage: Storage,
    base_path: str,
    *,
    rounds: int = 5,
    pause_s: float = 0.1,
    sleep: Callable[[float], None] = time.sleep,
) -> TableProperties:
    """Read the properties, from the backup when the file itself is missing or torn.

    Another writer may be replacing the files, so up to `rounds` attempts are made, `pause_s` seconds apart.
    Raises TableNotFound (no `.hoodie`, or no properties in it), TornProperties (no whole file),
    UnsupportedVersion (written by a newer Hudi).
    """
    problems: list[str] = []
    for attempt in range(rounds):
        if attempt:
            sleep(pause_s)
        problems = []
        for path in (properties_path(base_path), backup_path(base_path)):
            try:
                data, stamp = _stamped(storage, path)
                return _known(data, base_path, stamp if path == properties_path(base_path) else "")
            except FileNotFoundError:
                continue
            except ValueError as error:
                problems.append(f"{path}: {error}")
        if not problems and not storage.exists(f"{base_path}/{META_FOLDER}"):
            raise TableNotFound(
                f"{base_path} is no Hudi table: no .hoodie folder; check the path, or write to it first",
                path=base_path,
            )
    if not problems:
        raise TableNotFound(
            f"{base_path} is no complete Hudi table: {META_FOLDER} holds no {FILE_NAME} (a creation that was "
            "interrupted); write to the path again to finish it",
            path=base_path,
        )
    raise TornProperties(
        f"no whole {FILE_NAME} in {base_path} ({'; '.join(problems)}); restore the file from a copy",
        path=base_path,
    )


def create(storage: Storage, base_path: str, props: Mapping[str, str]) -> TableProperties:
    """Make a table: folders first, hoodie.properties last, so that a killed creation can simply be repeated.

    `props` needs hoodie.table.name; the other keys of format.md 1.4, or of 15.2 for a later version, get
    their defaults. Raises ConfigError for a bad name or type, AlreadyExists when the path holds a table (also
    when another writer just made it).
    """
    texts = _complete(props)
    folder = f"{base_path}/{META_FOLDER}"
    if storage.exists(backup_path(base_path)):
        recover(storage, base_path)
    if storage.exists(properties_path(base_path)):
        raise _taken(base_path)
    storage.make_dirs(folder)
    for name in new_table.folders(texts):
        storage.make_dirs(f"{folder}/{name}")
    try:
        storage.create(properties_path(base_path), _render(texts, "Properties saved on"))
    except AlreadyExists:
        raise _taken(base_path) from None
    return TableProperties(texts)


def update(storage: Storage, base_path: str, changes: Mapping[str, str | None]) -> TableProperties:
    """Set keys, or remove those whose value is None; nothing is written when nothing changes.

    The caller holds the table for itself: the routine takes no lock (nor does Hudi's). After a kill between
    any two steps `load` gives the old or the new properties, and the next `update` or `recover` tidies up.
    """
    recover(storage, base_path)
    before = load(storage, base_path)
    if not changes.get(NAME, before.name):
        raise ConfigError(f"{NAME} can't be removed", setting=NAME)
    texts = {key: value for key, value in before.texts.items() if changes.get(key, "") is not None}
    texts.update({key: value for key, value in changes.items() if value is not None})
    texts = _with_checksum(texts)
    if texts == dict(before.texts):
        return before
    path, backup = properties_path(base_path), backup_path(base_path)
    try:
        storage.create(backup, _render(before.texts, "Updated at"))
    except AlreadyExists:
        raise _updated(base_path, f"{backup} appeared") from None
    _replace(storage, path, before, _render(texts, "Updated at"))
    written, problem, stamp = _read_whole(storage, path)
    if written is None or written.get(CHECKSUM) != texts[CHECKSUM]:
        storage.delete(path)  # readers and the next writer go to the backup, as in Hudi
        raise TornProperties(
            f"{path} did not read back as written ({problem or 'other content'}); the previous properties "
            f"are kept in {BACKUP_NAME}; check the storage, then repeat",
            path=base_path,
        )
    storage.delete(backup)
    return _readable(written, base_path, stamp)


def _replace(storage: Storage, path: str, before: TableProperties, data: bytes) -> None:
    """Raises CommitConflict where the storage shows that the file is another's by now."""
    if not storage.conditional:
        storage.write(path, data)
        return
    content, version = storage.read_version(path)
    if parse_properties(content) != dict(before.texts) or storage.put_if(path, data, version) is None:
        raise _updated(path.rpartition(f"/{META_FOLDER}/")[0], f"{path} was changed")


def _updated(base_path: str, what: str) -> CommitConflict:
    return CommitConflict(
        f"{what} while {base_path} was being updated: another writer changes the table's properties; run one "
        "writer at a time, then repeat",
        path=base_path,
    )


def recover(storage: Storage, base_path: str) -> bool:
    """Finish or undo an update that was killed; True when something was done."""
    backup = backup_path(base_path)
    if not storage.exists(backup):
        return False
    path = properties_path(base_path)
    texts, _, _ = _read_whole(storage, path)
    if texts is None:
        saved, problem, _ = _read_whole(storage, backup)
        if saved is None:
            raise TornProperties(
                f"{path} and {backup} are both unreadable ({problem}); restore {FILE_NAME} from a copy",
                path=base_path,
            )
        storage.write(path, storage.read(backup))
    storage.delete(backup)
    return True


def _stamped(storage: Storage, path: str) -> tuple[bytes, str]:
    """The content and its stamp, "" where the storage has none. Raises FileNotFoundError."""
    data, version = storage.read_version(path) if storage.conditional else (storage.read(path), "")
    return data, stamp_of(version)


def _read_whole(storage: Storage, path: str) -> tuple[dict[str, str] | None, str | None, str]:
    """(properties, None), or (None, what is wrong), or (None, None) when there is no such file; and the
    stamp.
    """
    try:
        data, stamp = _stamped(storage, path)
        return _whole(data), None, stamp
    except FileNotFoundError:
        return None, None, ""
    except ValueError as error:
        return None, str(error), ""


def _whole(data: bytes) -> dict[str, str]:
    """Raises ValueError for a file that is cut or damaged."""
    texts = parse_properties(data)
    if problem := _flaw(texts):
        raise ValueError(problem)
    return texts


@functools.lru_cache(16)
def _known(data: bytes, base_path: str, stamp: str) -> TableProperties:
    """By their content, which a write reads several times: another process may change it between."""
    return _readable(_whole(data), base_path, stamp)


def _flaw(texts: Mapping[str, str]) -> str | None:
    """What shows that the file is cut short or damaged; None when it is whole."""
    if not texts.get(NAME):
        return f"{NAME} is missing"
    version = texts.get(VERSION, "0")
    if not (version.isascii() and version.isdigit() and len(version) < 10):
        return f"{VERSION}={version[:40]!r} is no number"
    if CHECKSUM in texts:
        if texts[CHECKSUM] != checksum(texts):
            return f"{CHECKSUM}={texts[CHECKSUM]} but its names give {checksum(texts)}"
        if VERSION not in texts:
            return f"{VERSION} is missing"
    elif VERSION not in texts or int(version) >= versions.CHECKSUM_SINCE:
        return f"{CHECKSUM} is missing"
    kind = texts.get(TYPE, "COPY_ON_WRITE").upper()
    if kind not in TableType.__members__:
        return f"{TYPE}={texts[TYPE]!r} is neither COPY_ON_WRITE nor MERGE_ON_READ"
    return None


def _readable(texts: dict[str, str], base_path: str, stamp: str) -> TableProperties:
    props = TableProperties(checked_properties(texts, base_path), stamp)
    versions.check_readable(props.version, base_path)
    return props


def _complete(props: Mapping[str, str]) -> dict[str, str]:
    if not props.get(NAME, "").strip():
        raise ConfigError(f"{NAME} is not set; give the table a name", setting=NAME)
    kind = props.get(TYPE, TableType.COPY_ON_WRITE.value).upper()
    if kind not in TableType.__members__:
        raise ConfigError(f"{TYPE}={props[TYPE]!r}: expected COPY_ON_WRITE or MERGE_ON_READ", setting=TYPE)
    return _with_checksum(new_table.complete({**props, TYPE: kind}))


def _with_checksum(texts: Mapping[str, str]) -> dict[str, str]:
    """The checksum goes last: a file that is cut short has lost it."""
    rest = {key: value for key, value in texts.items() if key != CHECKSUM}
    return {**rest, CHECKSUM: checksum(rest)}


def _render(texts: Mapping[str, str], comment: str) -> bytes:
    now = datetime.now(timezone.utc)
    return format_properties(texts, f"{comment} {now.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}", now)


def _taken(base_path: str) -> AlreadyExists:
    return AlreadyExists(
        f"{base_path} holds a table already; load it, or choose another path", path=base_path
    )
