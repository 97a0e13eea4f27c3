"""HDFS, by WebHDFS, which name nodes and data nodes serve: `hdfs://`, `webhdfs://`, `swebhdfs://`.

- A table needs a rename that replaces a file at once, or refuses to. WebHDFS has it. Hadoop's file system
  interface, and so libhdfs, has not.
- The settings of the call, Hadoop's configuration, or the path itself say where WebHDFS of a path's HDFS is.
- Files are read by ranges, and written in one piece or in parts.
- A file that is created or replaced is written as a temporary sibling `.<name>.<random>.hoodie-tmp` and
  renamed. So a reader sees all of it or nothing: a data node also completes a file whose writer died. An
  empty file is created under its own name.
- A temporary that `sweep_partial` removed fails its own write (Fenced).
- The answer to a request may be lost. A request that may be repeated is repeated. For a rename the content
  shows whether it was done.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import BinaryIO, TypeVar, cast
from xml.etree import ElementTree

from hoodie.config.key import Config
from hoodie.config.limits import MAX_READ_BYTES
from hoodie.errors import AlreadyExists, ConfigError, Fenced, HoodieError, StorageError, TableError
from hoodie.storage import PARTIAL_SUFFIX, Access, Check, FileInfo, Output, Storage, settings
from hoodie.storage.failure import BeyondEnd
from hoodie.storage.path_guard import check_name, check_not_root
from hoodie.storage.range_reader import TAIL_BYTES, RangedInput, UploadOutput
from hoodie.storage.webhdfs_client import Client, Cluster, Status, TooLarge, Upload, client_of
from hoodie.storage.webhdfs_errors import Failure, Unsure

_PORT, _SECURE_PORT = 9870, 9871
_HOST = re.compile(r"[A-Za-z0-9_.\-]{1,253}(?::\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?")
_ADDRESS = re.compile(rf"(?:https?://)?(?:{_HOST.pattern})/?")


def cluster_of(uri: str, config: Config) -> Cluster:
    """Of a normalized path. Raises ConfigError where it or a setting names no name node."""
    scheme, _, rest = uri.partition("://")
    host = rest.partition("/")[0]
    if not _HOST.fullmatch(host):
        raise ConfigError(
            f"{uri} names no name node; give {scheme}://host:port/folder, and a user by "
            f"{settings.HDFS_USER.name}",
            path=uri,
        )
    given = config[settings.HDFS_HTTP_ADDRESS]
    addresses = _given(given) if given else _found(scheme, host)
    return Cluster(
        root=f"{scheme}://{host}",
        addresses=tuple(addresses),
        user=config[settings.HDFS_USER] or os.environ.get("HADOOP_USER_NAME") or _user(),
        token=config[settings.HDFS_DELEGATION_TOKEN],
        request_ms=config[settings.REQUEST_TIMEOUT_MS],
        retry_ms=config[settings.RETRY_TIMEOUT_MS],
    )


def _given(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    for address in found:
        if not _ADDRESS.fullmatch(address):
            raise ConfigError(
                f"{settings.HDFS_HTTP_ADDRESS.name}={text!r} is no list of addresses; give host:port or "
                "https://host:port of each name node, with commas",
                setting=settings.HDFS_HTTP_ADDRESS.name,
                value=text,
            )
    return [(part if "://" in part else f"http://{part}").rstrip("/") for part in found]


def _found(scheme: str, host: str) -> list[str]:
    name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    if scheme != "hdfs" and port:
        return [f"{'https' if scheme == 'swebhdfs' else 'http'}://{host}"]
    hadoop = _hadoop()
    secure = scheme == "swebhdfs" or hadoop.get("dfs.http.policy", "").upper() == "HTTPS_ONLY"
    kind, start = ("https", "https") if secure else ("http", "http")
    key = f"dfs.namenode.{kind}-address"
    nodes = [node.strip() for node in hadoop.get(f"dfs.ha.namenodes.{host}", "").split(",") if node.strip()]
    several = [hadoop[f"{key}.{host}.{node}"] for node in nodes if f"{key}.{host}.{node}" in hadoop]
    if several:
        return [f"{start}://{address}" for address in several]
    own = hadoop.get(f"{key}.{host}") or hadoop.get(key) or ""
    return [f"{start}://{name}:{own.rpartition(':')[2] or (_SECURE_PORT if secure else _PORT)}"]


def _hadoop() -> Mapping[str, str]:
    """The properties of hdfs-site.xml; none where there is no such file.

    Raises ConfigError for one that can't be read.
    """
    home = os.environ.get("HADOOP_HOME")
    folder = os.environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else None)
    path = f"{folder}/hdfs-site.xml"
    if folder is None or not os.path.exists(path):
        return {}
    try:
        found = ElementTree.parse(path).getroot().iter("property")
        return {item.findtext("name", "").strip(): item.findtext("value", "").strip() for item in found}
    except (OSError, ElementTree.ParseError) as error:
        raise ConfigError(
            f"{path} can't be read ({error}): mend it, or set {settings.HDFS_HTTP_ADDRESS.name}", path=path
        ) from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        return str(os.getuid())


T = TypeVar("T")

#: a smaller file is sent at its commit, and sent again where that fails; a larger one while it is written
WHOLE_BYTES = 8 << 20
_PIECE = 1 << 20


class HdfsInput(RangedInput):
    def __init__(self, client: Client, path: str) -> None:
        """Raises FileNotFoundError."""
        self._client = client
        status = client.status(path)
        if status.kind != "FILE":
            raise StorageError(
                f"{path} is a folder where a file belongs; look what made it, and move it away", path=path
            )
        length = min(status.length, TAIL_BYTES)
        tail = client.read(path, status.length - length, length) if length else b""
        super().__init__(path, status.length, tail)

    def _range(self, start: int, end: int) -> bytes:
        return self._client.read(self._path, start, end - start)


class HdfsOutput(UploadOutput):
    """A new file, which HDFS shows while it is written; the writer deletes one without a commit."""

    def __init__(self, client: Client, path: str, *, exclusive: bool, sync: bool) -> None:
        super().__init__()
        self._client, self._path, self._exclusive, self._sync = client, path, exclusive, sync
        self._kept = bytearray()
        self._upload: Upload | None = None

    def _take(self, view: memoryview) -> None:
        self._kept += view
        if self._upload is None and self._size > WHOLE_BYTES:
            self._upload = self._client.upload(self._path, overwrite=not self._exclusive, sync=self._sync)
        if self._upload is not None and len(self._kept) >= _PIECE:
            self._send(self._upload)

    def _finish(self) -> None:
        if self._upload is None:
            self._client.create(self._path, bytes(self._kept), overwrite=not self._exclusive, sync=self._sync)
        else:
            self._send(self._upload)
            _tried(self._upload.finish)

    def close(self) -> None:
        if self._upload is not None:
            with contextlib.suppress(OSError):
                self._upload.close()
        self._kept = bytearray()
        super().close()

    def _send(self, upload: Upload) -> None:
        data, self._kept = bytes(self._kept), bytearray()
        _tried(lambda: upload.send(data))


def _tried(action: Callable[[], T]) -> T:
    try:
        return action()
    except Failure as failed:
        raise failed.error from None


_ATTEMPTS = 4


class HdfsStorage(Storage):
    """`root`: the table's folder, beyond which nothing is touched; None for a source."""

    remote = True
    fences = True

    def __init__(self, client: Client, root: str | None, access: Access) -> None:
        self._client, self._root, self.access = client, root, access
        self._top = client.cluster.root

    @classmethod
    def make(cls, *, uri: str, options: Mapping[str, str]) -> HdfsStorage:
        config = Config(options)
        return cls(client_of(cluster_of(uri, config)), uri, settings.access(config))

    @classmethod
    def of_source(cls, *, uri: str, options: Mapping[str, str]) -> HdfsStorage:
        storage = cls.make(uri=uri, options=options)
        storage._root = None
        return storage

    def list(self, path: str) -> list[FileInfo]:
        self._check(path)
        try:
            found = self._client.list(path)
        except FileNotFoundError:
            return []
        return sorted((_info(f"{path}/{item.name}", item) for item in found if item.name), key=_name)

    def spark_path(self, path: str) -> str | None:
        return path

    def info(self, path: str) -> FileInfo | None:
        self._check(path)
        try:
            return _info(path, self._client.status(path))
        except FileNotFoundError:
            return None

    def read(self, path: str) -> bytes:
        self._check(path)
        try:
            return self._client.read(path, most=MAX_READ_BYTES)
        except BeyondEnd:
            return b""
        except TooLarge as error:
            raise TableError(
                f"{path} has {error.size} bytes, and a file that is read whole has at most "
                f"{MAX_READ_BYTES}; it is damaged or forged, or HOODIE_MAX_READ_BYTES in the environment "
                "must be larger",
                path=path,
                size=error.size,
            ) from None

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self._check(path)
        if length <= 0:
            return b""
        try:
            return self._client.read(path, offset, length)
        except BeyondEnd:
            return b""

    def open_input(self, path: str) -> BinaryIO:
        self._check(path)
        return cast(BinaryIO, HdfsInput(self._client, path))

    def write(self, path: str, data: bytes) -> None:
        self._check(path)
        self._take(self._temporary(path, data), path, data, replace=True)

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        self._check(path)
        if not data and check is None:
            self._client.create(path, b"", overwrite=False, sync=self.access.sync)
            return
        temporary = self._temporary(path, data)
        try:
            if check is not None:
                check()
            self._take(temporary, path, data, replace=False)
        except Unsure:  # the temporary may yet get its name
            raise
        except BaseException:
            with contextlib.suppress(OSError, HoodieError):
                self._client.delete(temporary)
            raise

    def output(self, path: str, *, exclusive: bool = False) -> Output:
        self._check(path)
        if exclusive and self.exists(path):
            raise AlreadyExists(f"{path} exists already", path=path)
        return HdfsOutput(self._client, path, exclusive=exclusive, sync=self.access.sync)

    def delete(self, path: str) -> None:
        self._check(path)
        self._client.delete(path)

    def delete_tree(self, path: str) -> None:
        self._check(path)
        if self._root is not None:
            check_not_root(path, self._root)
        self._client.delete(path, recursive=True)

    def make_dirs(self, path: str) -> None:
        self._check(path)
        self._client.make_dirs(path)

    def sweep_partial(self, path: str, of: str = "") -> int:
        start = f".{of}" if of else ""
        left = [name for name in self.names(path) if name.endswith(PARTIAL_SUFFIX) and name.startswith(start)]
        for name in left:
            self._client.delete(f"{path}/{name}")
        return len(left)

    def creation(self, folder: str) -> str:
        probe = f"{folder}/.{uuid.uuid4().hex[:12]}{PARTIAL_SUFFIX}"
        try:
            self.create(probe, b"x")
        finally:
            self.delete(probe)
        return "renames that replace nothing"

    def now_ms(self) -> int:
        """The name node's clock, as far as the times show it of what this process wrote."""
        return self._client.now_ms()

    def _temporary(self, path: str, data: bytes) -> str:
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex[:12]}{PARTIAL_SUFFIX}"
        client, before = self._client, _local_ms()
        client.create(temporary, data, overwrite=True, sync=self.access.sync)
        if client.wants_clock():
            after = _local_ms()
            try:
                client.set_clock(before, client.status(temporary).modified_ms, after)
            except FileNotFoundError:
                raise _swept(path) from None
        return temporary

    def _take(self, temporary: str, path: str, data: bytes, *, replace: bool) -> None:
        """Give the temporary the name. Raises AlreadyExists, Fenced; Unsure where it may have the name."""
        unsure: Unsure | None = None
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._client.rename(temporary, path, replace=replace)
                return
            except Unsure as error:
                unsure = error
                if not left:
                    raise
                time.sleep(0.1 * (_ATTEMPTS - left))
            except FileNotFoundError:
                if unsure is not None and self._holds(path, data):
                    return
                raise _swept(path) from None
            except AlreadyExists:
                raise AlreadyExists(f"{path} exists already", path=path) from None
            except StorageError as error:
                raise (unsure or error) from None

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self._client.read(path, most=len(data)) == data
        except (FileNotFoundError, TooLarge):
            return False

    def names(self, path: str) -> Collection[str]:
        return [item.name for item in self.list(path)]

    def _check(self, path: str) -> None:
        """Raises TableError for a path outside of the table."""
        if self._root is not None:
            check_name(path, self._root)
        if path != self._top and not path.startswith(f"{self._top}/"):
            raise StorageError(f"{path} is not of {self._top}", path=path)


def _info(path: str, status: Status) -> FileInfo:
    """Raises TableError for a link."""
    if status.kind not in ("FILE", "DIRECTORY"):
        raise TableError(
            f"{path!r} is no regular file ({status.kind.lower()}); below a table there may be regular files "
            "and real folders only. Remove it, or put the file itself there",
            path=path,
        )
    is_dir = status.kind == "DIRECTORY"
    name = path.rpartition("/")[2]
    return FileInfo(path, name, 0 if is_dir else status.length, status.modified_ms, is_dir)


def _name(item: FileInfo) -> str:
    return item.name


def _swept(path: str) -> Fenced:
    return Fenced(
        f"another writer swept away the unfinished {path}: it repairs the table right now, or took this "
        "writer for dead; run one writer at a time, then repeat",
        path=path,
    )


def _local_ms() -> int:
    return int(time.time() * 1000)
