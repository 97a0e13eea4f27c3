"""Object stores: Amazon S3 and compatible ones, Google's, Azure's, and one in this process's memory.

There are no folders, only names with slashes: a folder is there while a name below it is. An object is there
as a whole or not at all, from one moment to the next. Of racing callers of `create` one wins, by a condition
of the request (If-None-Match), which a store must have: that is proved with the first object that a process
creates in a bucket. Reads and listings see what was written before them, as these stores promise.

The answer to a request may be lost, and the request was repeated then. So each new object has a random token
in its metadata, by which its own writer recognizes it.

Names that lead out of the table are refused as on a local file system (SECURITY.md); links there are none.
"""

from __future__ import annotations

import re
import time
import uuid
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, cast

from hoodie.config.key import Config
from hoodie.config.limits import MAX_READ_BYTES
from hoodie.errors import AlreadyExists, ConfigError, StorageError, TableError
from hoodie.storage import PARTIAL_SUFFIX, Access, Check, FileInfo, Output, Storage, settings
from hoodie.storage.failure import BeyondEnd
from hoodie.storage.object_client import (
    Bucket,
    Changed,
    Client,
    allows_http,
    client_of,
    environment,
    unconditional,
)
from hoodie.storage.object_files import ObjectInput, ObjectOutput
from hoodie.storage.path_guard import check_name, check_not_root

#: of an object's metadata; a name that each store takes
_TOKEN = "hoodietoken"
_BATCH = 1000
#: names that a store lists in one answer
_PAGE = 1000
_ATTEMPTS = 5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,221}")


class ObjectStorage(Storage):
    """`root`: the table's folder, beyond which nothing is touched; None for a source."""

    conditional = True
    remote = True

    def __init__(self, client: Client, root: str | None, access: Access) -> None:
        self._client, self._root, self.access = client, root, access
        self._bucket = client.bucket.root

    @classmethod
    def make(cls, *, uri: str, options: Mapping[str, str]) -> ObjectStorage:
        config = Config(options)
        return cls(client_of(cls.bucket(_container(uri), config)), uri, settings.access(config))

    @classmethod
    def of_source(cls, *, uri: str, options: Mapping[str, str]) -> ObjectStorage:
        storage = cls.make(uri=uri, options=options)
        storage._root = None
        return storage

    @classmethod
    @abstractmethod
    def bucket(cls, name: str, config: Config) -> Bucket:
        """The bucket of this name, as the settings say. Raises ConfigError."""

    def list(self, path: str) -> list[FileInfo]:
        prefix = self._key(path) or None
        found = self._client.ask(path, "listed", lambda lib, store: lib.list_with_delimiter(store, prefix))
        folders = {key.rpartition("/")[2] for key in found["common_prefixes"]}
        files = [self._info(meta) for meta in found["objects"] if meta["path"] != prefix]
        out = [FileInfo(f"{path}/{name}", name, 0, 0, True) for name in folders]
        out += [item for item in files if item.name not in folders or item.size]  # a folder's own mark
        return sorted(out, key=lambda item: item.name)

    def tree(self, path: str) -> Collection[FileInfo]:
        prefix = self._key(path) or None
        found = self._client.ask(path, "listed", lambda lib, store: lib.list(store, prefix).collect())
        return self._files(found, prefix)

    def tree_within(self, path: str, requests: int, after: str = "") -> Collection[FileInfo] | None:
        prefix, offset = self._key(path) or None, self._key(after) if after else None

        def request(library: Any, store: Any) -> Collection[Any] | None:
            found = []
            pages = library.list(store, prefix, offset=offset, chunk_size=_PAGE)
            for number, page in enumerate(pages, 1):
                found += page
                if len(page) == _PAGE and number == requests:
                    return None
            return found

        found = self._client.ask(path, "listed", request)
        return None if found is None else self._files(found, prefix)

    def _files(self, found: Collection[Any], prefix: str | None) -> Collection[FileInfo]:
        """Without marks of folders."""
        folders: set[str] = set()
        for meta in found:
            folder = meta["path"].rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        wanted = (meta for meta in found if meta["path"] != prefix)
        return [self._info(meta) for meta in wanted if meta["size"] or meta["path"] not in folders]

    def info(self, path: str) -> FileInfo | None:
        try:
            if self._key(path):
                return self._info(self._head(path))
        except FileNotFoundError:
            pass
        if not self._has_below(path):
            return None
        return FileInfo(path, path.rpartition("/")[2], 0, 0, True)

    def read(self, path: str) -> bytes:
        return self.read_version(path)[0]

    def read_version(self, path: str) -> tuple[bytes, str]:
        key = self._key(path)

        def request(library: Any, store: Any) -> tuple[Any, bytes]:
            found = library.get(store, key)
            small = found.meta["size"] <= MAX_READ_BYTES
            return found.meta, bytes(found.bytes()) if small else b""

        meta, data = self._client.ask(path, "read", request)
        if meta["size"] > MAX_READ_BYTES:
            raise TableError(
                f"{path} has {meta['size']} bytes, and a file that is read whole has at most "
                f"{MAX_READ_BYTES}; it is damaged or forged, or HOODIE_MAX_READ_BYTES in the environment "
                "must be larger",
                path=path,
                size=meta["size"],
            )
        self._info(meta)
        return data, meta["e_tag"] or ""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        key = self._key(path)
        if length <= 0:
            return b""
        try:
            return self._client.ask(
                path,
                "read",
                lambda lib, store: bytes(lib.get_range(store, key, start=offset, length=length)),
            )
        except BeyondEnd:
            return b""

    def versions(self, path: str) -> Mapping[str, str]:
        return {item.name: item.version for item in self.list(path)}

    def open_input(self, path: str) -> BinaryIO:
        lasts = self._root is not None  # files of a source may be replaced
        return cast(BinaryIO, ObjectInput(self._client, path, self._key(path), lasts=lasts))

    def holding(self) -> AbstractContextManager[None]:
        return self._client.ends.held()

    def write(self, path: str, data: bytes) -> None:
        self._put(path, data, "overwrite", uuid.uuid4().hex)

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        token = uuid.uuid4().hex
        self._key(path)
        if check is not None:
            check()
        self._create(path, data, token)

    def put_if(self, path: str, data: bytes, version: str | None) -> str | None:
        token = uuid.uuid4().hex
        try:
            return self._made(path, data, "create" if version is None else {"e_tag": version}, token)
        except (AlreadyExists, Changed, FileNotFoundError):
            return None

    def output(self, path: str, *, exclusive: bool = False) -> Output:
        key, token = self._key(path), uuid.uuid4().hex

        def put(data: bytes) -> None:
            if exclusive:
                self._create(path, data, token)
            else:
                self._put(path, data, "overwrite", token)

        return ObjectOutput(
            self._client,
            path,
            key,
            put=put,
            taken=(lambda: self.is_file(path)) if exclusive else None,
            tags={_TOKEN: token},
            ours=lambda: self._is_mine(path, token) is not None,
        )

    def delete(self, path: str) -> None:
        self._delete([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        every = list(paths)
        for path in every:
            self._key(path)
        for start in range(0, len(every), _BATCH):
            self._delete(every[start : start + _BATCH])

    def delete_tree(self, path: str) -> None:
        self._key(path)
        if self._root is not None:
            check_not_root(path, self._root)
        self.delete_many([item.path for item in self.tree(path)])

    def creation(self, folder: str) -> str:
        path = f"{folder}/.{uuid.uuid4().hex[:12]}{PARTIAL_SUFFIX}"
        self._client.proven = False
        try:
            self.create(path, b"x")
        finally:
            self.delete(path)
        return super().creation(folder)

    def now_ms(self) -> int:
        """The store's clock, as far as the times show it of what this process wrote."""
        return self._client.now_ms()

    def _create(self, path: str, data: bytes, token: str) -> None:
        self._made(path, data, "create", token)
        client = self._client
        if client.proven:
            return
        try:  # the same once more: a store that heeds the condition refuses it
            self._put(path, data, "create", token)
        except AlreadyExists:
            client.proven = True
            return
        except StorageError as error:
            if error.values.get("transient"):
                return
            raise
        self.delete(path)
        raise unconditional(path)

    def _made(self, path: str, data: bytes, mode: str | dict[str, str], token: str) -> str:
        """The version that a conditional write made. Raises AlreadyExists, Changed; StorageError, transient
        where it is not known.
        """
        for left in reversed(range(_ATTEMPTS)):
            try:
                return self._put(path, data, mode, token)
            except (AlreadyExists, Changed) as error:
                if (mine := self._is_mine(path, token)) is not None:
                    return mine
                # two requests at once, of which the store may have refused both
                if not error.values.get("conflict") or not left:
                    raise
                if mode == "create" and self.is_file(path):
                    raise
                time.sleep(0.05 * (_ATTEMPTS - left))
            except StorageError as error:
                if not error.values.get("transient"):
                    raise
                if (mine := self._is_mine(path, token)) is not None:
                    return mine
                raise
        raise AssertionError

    def _put(self, path: str, data: bytes, mode: str | dict[str, str], token: str) -> str:
        key, before = self._key(path), int(time.time() * 1000)

        def request(library: Any, store: Any) -> Any:
            tags = {_TOKEN: token}
            return library.put(store, key, data, mode=mode, attributes=tags, use_multipart=False)

        done = "replaced" if isinstance(mode, dict) else "written"
        tag: str | None = self._client.ask(path, done, request)["e_tag"]
        if data:
            self._client.wrote(path, tag, before)
        return tag or ""

    def _is_mine(self, path: str, token: str) -> str | None:
        """The version of the object that was put with this token; None where another one is there, or
        none.
        """
        key = self._key(path)

        def request(library: Any, store: Any) -> tuple[Any, Any]:
            found = library.get(store, key, options={"head": True})
            return found.attributes, found.meta

        try:
            tags, meta = self._client.ask(path, "looked at", request)
        except FileNotFoundError:
            return None
        return (meta["e_tag"] or "") if tags.get(_TOKEN) == token else None

    def _delete(self, paths: Sequence[str]) -> None:
        keys = [self._key(path) for path in paths]
        if not keys:
            return
        try:
            self._client.ask(paths[0], "deleted", lambda lib, store: lib.delete(store, keys))
        except FileNotFoundError:
            if len(paths) > 1:  # stores that refuse to delete what is not there
                for path in paths:
                    self._delete([path])

    def _head(self, path: str) -> Any:
        key = self._key(path)
        return self._client.ask(path, "looked at", lambda lib, store: lib.head(store, key))

    def is_file(self, path: str) -> bool:
        try:
            self._head(path)
        except FileNotFoundError:
            return False
        return True

    def _has_below(self, path: str) -> bool:
        prefix = self._key(path) or None

        def request(library: Any, store: Any) -> bool:
            return any(len(page) > 0 for page in library.list(store, prefix, chunk_size=1))

        return self._client.ask(path, "listed", request)

    def _info(self, meta: Any) -> FileInfo:
        path, modified = f"{self._bucket}/{meta['path']}", meta["last_modified"]
        self._client.saw(path, meta["e_tag"], modified)
        name = meta["path"].rpartition("/")[2]
        mtime_ms = int(modified.timestamp() * 1000)
        return FileInfo(path, name, meta["size"], mtime_ms, False, meta["e_tag"] or "")

    def _key(self, path: str) -> str:
        """The object's name. Raises TableError for a path outside of the table."""
        if self._root is not None:
            check_name(path, self._root)
        if path != self._bucket and not path.startswith(f"{self._bucket}/"):
            raise StorageError(f"{path} is not of {self._bucket}", path=path)
        return path[len(self._bucket) + 1 :]


class S3Storage(ObjectStorage):
    def spark_path(self, path: str) -> str | None:
        return f"s3a{path[len('s3') :]}"

    @classmethod
    def bucket(cls, name: str, config: Config) -> Bucket:
        _check(f"s3://{name}", name)
        key, secret = config[settings.S3_ACCESS_KEY], config[settings.S3_SECRET_KEY]
        if (key is None) != (secret is None):
            raise ConfigError(
                f"{settings.S3_ACCESS_KEY.name} and {settings.S3_SECRET_KEY.name} belong together; set "
                "both, or none and have the environment's credentials used",
                path=f"s3://{name}",
            )
        endpoint = config[settings.S3_ENDPOINT]
        given = {
            "bucket": name,
            "endpoint": endpoint,
            "region": config[settings.S3_REGION] or environment("AWS_REGION", "AWS_DEFAULT_REGION"),
            "access_key_id": key,
            "secret_access_key": secret,
            "session_token": config[settings.S3_SESSION_TOKEN],
        }
        return Bucket(
            root=f"s3://{name}",
            kind="S3Store",
            extra="s3",
            config=_set(given),
            allow_http=allows_http(
                f"s3://{name}",
                endpoint,
                environment("AWS_ENDPOINT_URL_S3"),
                environment("AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
            ),
            credentials="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, hoodie.storage.s3.access.key and "
            "hoodie.storage.s3.secret.key, or the machine's role",
            request_ms=config[settings.REQUEST_TIMEOUT_MS],
            retry_ms=config[settings.RETRY_TIMEOUT_MS],
        )


class GoogleStorage(ObjectStorage):
    def spark_path(self, path: str) -> str | None:
        return path

    @classmethod
    def bucket(cls, name: str, config: Config) -> Bucket:
        _check(f"gs://{name}", name)
        given = {
            "bucket": name,
            "service_account": config[settings.GCS_SERVICE_ACCOUNT_FILE],
            "service_account_key": config[settings.GCS_SERVICE_ACCOUNT_KEY],
        }
        return Bucket(
            root=f"gs://{name}",
            kind="GCSStore",
            extra="gcs",
            config=_set(given),
            credentials="GOOGLE_APPLICATION_CREDENTIALS, hoodie.storage.gcs.service.account.file or "
            "hoodie.storage.gcs.service.account.key, or the machine's service account",
            request_ms=config[settings.REQUEST_TIMEOUT_MS],
            retry_ms=config[settings.RETRY_TIMEOUT_MS],
        )


class AzureStorage(ObjectStorage):
    """`az://container/...`; the settings or the environment name the account."""

    @classmethod
    def bucket(cls, name: str, config: Config) -> Bucket:
        _check(f"az://{name}", name)
        return _azure(f"az://{name}", name, config[settings.AZURE_ACCOUNT_NAME], config)


class AzureAccountStorage(ObjectStorage):
    """`abfss://container@account.dfs.core.windows.net/...`"""

    def spark_path(self, path: str) -> str | None:
        return path

    @classmethod
    def bucket(cls, name: str, config: Config) -> Bucket:
        container, _, host = name.partition("@")
        account = host.partition(".")[0]
        _check(f"abfss://{name}", container)
        _check(f"abfss://{name}", account)
        return _azure(f"abfss://{name}", container, account, config)


class MemoryStorage(ObjectStorage):
    """`memory://name/...`: of this process, while it lives."""

    remote = False

    @classmethod
    def bucket(cls, name: str, config: Config) -> Bucket:
        _check(f"memory://{name}", name)
        return Bucket(root=f"memory://{name}", kind="MemoryStore", extra="s3", proven=True)


def _azure(root: str, container: str, account: str | None, config: Config) -> Bucket:
    endpoint = config[settings.AZURE_ENDPOINT]
    given = {
        "container_name": container,
        "account_name": account or environment("AZURE_STORAGE_ACCOUNT_NAME"),
        "account_key": config[settings.AZURE_ACCOUNT_KEY],
        "sas_key": config[settings.AZURE_SAS_TOKEN],
        "tenant_id": config[settings.AZURE_TENANT_ID],
        "client_id": config[settings.AZURE_CLIENT_ID],
        "client_secret": config[settings.AZURE_CLIENT_SECRET],
        "endpoint": endpoint,
    }
    return Bucket(
        root=root,
        kind="AzureStore",
        extra="azure",
        config=_set(given),
        allow_http=allows_http(root, endpoint, environment("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")),
        credentials="hoodie.storage.azure.account.key, .sas.token or .client.secret, "
        "AZURE_STORAGE_ACCOUNT_KEY, or the machine's identity",
        suffixes=False,
        request_ms=config[settings.REQUEST_TIMEOUT_MS],
        retry_ms=config[settings.RETRY_TIMEOUT_MS],
    )


def _set(given: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in given.items() if text}


def _container(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[0]


def _check(root: str, name: str) -> None:
    """Raises ConfigError for what is no bucket, as a URI with a user and a password."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{root} names no bucket; give s3://bucket/folder, gs://bucket/folder, az://container/folder or "
            "abfss://container@account.dfs.core.windows.net/folder, and credentials by settings or the "
            "environment",
            path=root,
        )
