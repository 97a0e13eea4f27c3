"""A connection to a Hive metastore, by the package thriftpy2, which is imported when one is made.

The definitions are those of locks, tables and partitions in the Thrift service of Hive's metastore, from 2.3
on. A request that sends an entry back lacks the fields of newer metastores that are not defined here.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from hoodie.errors import ConfigError
from hoodie.text import install

DEFINITIONS = """
enum LockState { ACQUIRED = 1, WAITING = 2, ABORT = 3, NOT_ACQUIRED = 4 }
enum LockLevel { DB = 1, TABLE = 2, PARTITION = 3 }
enum LockType { SHARED_READ = 1, SHARED_WRITE = 2, EXCLUSIVE = 3, EXCL_WRITE = 4 }
struct LockComponent {
  1: required LockType type, 2: required LockLevel level, 3: required string dbname,
  4: optional string tablename
}
struct LockRequest {
  1: required list<LockComponent> component, 3: required string user, 4: required string hostname,
  5: optional string agentInfo
}
struct LockResponse { 1: required i64 lockid, 2: required LockState state, 3: optional string errorMessage }
struct CheckLockRequest { 1: required i64 lockid }
struct UnlockRequest { 1: required i64 lockid }
struct HeartbeatRequest { 1: optional i64 lockid }
struct ShowLocksRequest { 1: optional string dbname, 2: optional string tablename }
struct ShowLocksResponseElement {
  1: required i64 lockid, 2: required string dbname, 3: optional string tablename,
  5: required LockState state, 9: optional i64 acquiredat, 10: required string user,
  11: required string hostname, 13: optional string agentInfo
}
struct ShowLocksResponse { 1: list<ShowLocksResponseElement> locks }
exception NoSuchTxnException { 1: string message }
exception TxnAbortedException { 1: string message }
exception TxnOpenException { 1: string message }
exception NoSuchLockException { 1: string message }
struct FieldSchema { 1: string name, 2: string type, 3: string comment }
struct SerDeInfo { 1: string name, 2: string serializationLib, 3: map<string, string> parameters }
struct Order { 1: string col, 2: i32 order }
struct StorageDescriptor {
  1: list<FieldSchema> cols, 2: string location, 3: string inputFormat, 4: string outputFormat,
  5: bool compressed, 6: i32 numBuckets, 7: SerDeInfo serdeInfo, 8: list<string> bucketCols,
  9: list<Order> sortCols, 10: map<string, string> parameters, 12: optional bool storedAsSubDirectories
}
struct Database {
  1: string name, 2: string description, 3: string locationUri, 4: map<string, string> parameters,
  6: optional string ownerName
}
struct Table {
  1: string tableName, 2: string dbName, 3: string owner, 4: i32 createTime, 5: i32 lastAccessTime,
  6: i32 retention, 7: StorageDescriptor sd, 8: list<FieldSchema> partitionKeys,
  9: map<string, string> parameters, 10: string viewOriginalText, 11: string viewExpandedText,
  12: string tableType, 14: optional bool temporary, 15: optional bool rewriteEnabled,
  17: optional string catName
}
struct Partition {
  1: list<string> values, 2: string dbName, 3: string tableName, 4: i32 createTime, 5: i32 lastAccessTime,
  6: StorageDescriptor sd, 7: map<string, string> parameters, 9: optional string catName
}
struct EnvironmentContext { 1: map<string, string> properties }
struct AddPartitionsRequest {
  1: required string dbName, 2: required string tblName, 3: required list<Partition> parts,
  4: required bool ifNotExists, 5: optional bool needResult
}
struct AddPartitionsResult { 1: optional list<Partition> partitions }
struct RequestPartsSpec { 1: list<string> names }
struct DropPartitionsRequest {
  1: required string dbName, 2: required string tblName, 3: required RequestPartsSpec parts,
  4: optional bool deleteData, 5: optional bool ifExists, 6: optional bool ignoreProtection,
  8: optional bool needResult
}
struct DropPartitionsResult { 1: optional list<Partition> partitions }
exception MetaException { 1: string message }
exception AlreadyExistsException { 1: string message }
exception InvalidObjectException { 1: string message }
exception InvalidOperationException { 1: string message }
exception NoSuchObjectException { 1: string message }
service ThriftHiveMetastore {
  Database get_database(1: string name) throws (1: NoSuchObjectException o1, 2: MetaException o2),
  void create_database(1: Database database)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3),
  Table get_table(1: string dbname, 2: string tbl_name)
    throws (1: MetaException o1, 2: NoSuchObjectException o2),
  void create_table(1: Table tbl)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3,
            4: NoSuchObjectException o4),
  void alter_table_with_environment_context(1: string dbname, 2: string tbl_name, 3: Table new_tbl,
                                            4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException o1, 2: MetaException o2),
  list<string> get_partition_names(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException o1, 2: MetaException o2),
  list<Partition> get_partitions_by_names(1: string db_name, 2: string tbl_name, 3: list<string> names)
    throws (1: MetaException o1, 2: NoSuchObjectException o2),
  AddPartitionsResult add_partitions_req(1: AddPartitionsRequest request)
    throws (1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: MetaException o3),
  void alter_partitions(1: string db_name, 2: string tbl_name, 3: list<Partition> new_parts)
    throws (1: InvalidOperationException o1, 2: MetaException o2),
  DropPartitionsResult drop_partitions_req(1: DropPartitionsRequest req)
    throws (1: NoSuchObjectException o1, 2: MetaException o2),
  LockResponse lock(1: LockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2),
  LockResponse check_lock(1: CheckLockRequest rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: NoSuchLockException o3),
  void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2),
  void heartbeat(1: HeartbeatRequest ids)
    throws (1: NoSuchLockException o1, 2: NoSuchTxnException o2, 3: TxnAbortedException o3),
  ShowLocksResponse show_locks(1: ShowLocksRequest rqst)
}
"""


PORT = 9083
#: for all servers together
_CONNECT_MS = 3_000
_MODULE = "hoodie_hive_metastore_thrift"
#: of every answer: strict Thrift, binary
_BEGINS = b"\x80\x01"
#: one value of an answer is far smaller
_LARGEST_VALUE = 256 << 20
_SHOWN_BYTES = 60
_LINE_S = 1.0

#: host and port
Server = tuple[str, int]
#: carries out one request of the service's client
Ask = Callable[[Callable[[Any], Any]], Any]


class Unreachable(Exception):
    """No server answers, or none in time; the text says why."""


class Foreign(Unreachable):
    """What answers is no metastore, or one with TLS or Kerberos; the text has the address and what came."""

    @staticmethod
    def remedy(setting: str) -> str:
        return (
            f"Check that {setting} names the Thrift port of a metastore ({PORT} by default; 10000 is that of "
            "HiveServer2), and that the metastore has neither TLS nor Kerberos nor HTTP, which are not "
            "supported (hive.metastore.use.SSL, hive.metastore.sasl.enabled, "
            "hive.metastore.server.thrift.transport.mode)"
        )


class Refused(Exception):
    """The metastore answered with an error. `kind`: its class, such as NoSuchObjectException."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def server(uri: str, setting: str) -> Server:
    """Host and port of `thrift://host:port`. Raises ConfigError, which names the setting."""
    text = uri.strip()
    parts = urlsplit(text if "://" in text else f"thrift://{text}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme != "thrift" or not host:
        raise ConfigError(
            f"{setting} has {text!r}, which is no address of a metastore; give "
            f"thrift://host:{PORT}, several with commas",
            setting=setting,
            value=text,
        )
    return host, port or PORT


@contextlib.contextmanager
def connected(servers: Sequence[Server], answer_ms: int, wanted: str) -> Iterator[Ask]:
    """Asks the first of the servers that answers, from any thread. Raises Unreachable, Refused; ConfigError
    as `types`. `answer_ms`: how long one answer may take. After Unreachable the next request is made by a new
    connection.
    """
    connection = _Connection(servers, answer_ms, wanted)
    connection.open()
    try:
        yield connection.ask
    finally:
        connection.close()


class _Connection:
    def __init__(self, servers: Sequence[Server], answer_ms: int, wanted: str) -> None:
        self._servers, self._answer_ms, self._wanted = servers, answer_ms, wanted
        self._thriftpy = _library(wanted)
        self._guard = threading.Lock()
        self._client: Any = None
        self._socket: _CheckedSocket | None = None
        self._address = ""

    def open(self) -> None:
        """Raises Unreachable."""
        connect_ms = max(500, _CONNECT_MS // len(self._servers))
        for number, (host, port) in enumerate(self._servers, 1):
            try:
                self._client, self._socket = _client(host, port, connect_ms, self._answer_ms, self._wanted)
                self._address = f"{host}:{port}"
                return
            except (self._thriftpy.thrift.TException, OSError) as error:
                if number == len(self._servers):
                    raise Unreachable(_text(error)) from error

    def ask(self, request: Callable[[Any], Any]) -> Any:
        with self._guard:
            if self._client is None:
                self.open()
            try:
                return request(self._client)
            except Exception as error:
                found = self._judged(error)
                if not isinstance(found, Refused):  # the rest of its answer may still come
                    self.close()
                raise found from error

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _judged(self, error: Exception) -> Exception:
        """What the error of a request means; the parser of an answer that is none raises errors of any
        kind.
        """
        thrift = self._thriftpy.thrift
        if isinstance(error, thrift.TApplicationException):
            if error.type == thrift.TApplicationException.UNKNOWN_METHOD:
                return Foreign(
                    f"{self._address} is no metastore, it refuses a request of one: {_text(error)}"
                )
            return Refused(type(error).__name__, _text(error))
        if _is_declared(error):
            return Refused(type(error).__name__, _text(error))
        if isinstance(error, _OtherAnswer):
            return Foreign(f"{self._address} {error}")
        if isinstance(error, (thrift.TException, OSError, EOFError)):
            return self._unanswered(error)
        return Foreign(f"{self._address} sends what is no answer of a metastore ({type(error).__name__})")

    def _unanswered(self, error: Exception) -> Unreachable:
        """A server that waits for the end of a line of HTTP gets one."""
        assert self._socket is not None
        if self._socket.begun:
            return Unreachable(f"{self._address} did not end its answer ({_text(error)})")
        if not isinstance(error, TimeoutError):
            return Unreachable(
                f"{self._address} closed the connection without an answer ({_text(error)}); one with TLS or "
                "Kerberos, which are not supported, does that, too"
            )
        other = self._socket.after_a_line()
        return Foreign(f"{self._address} {other}") if other else Unreachable(_text(error))


class _OtherAnswer(Exception):
    """An answer that no metastore gives; the text says what it is."""


class _CheckedSocket:
    """A socket of thriftpy2 whose answers begin as those of Thrift do, and hold no value of an absurd size:
    the parser would make room for it, and wait for as many bytes. `begun`: the first bytes that came.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.begun = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, size: int) -> bytes:
        if size > _LARGEST_VALUE:
            raise _OtherAnswer(f"answers with a value of {size:,} bytes")
        data: bytes = self._inner.read(size)
        if len(self.begun) < len(_BEGINS):
            self.begun += data
            if not self.begun.startswith(_BEGINS[: len(self.begun)]):
                raise _OtherAnswer(_named(self.begun))
        return data

    def after_a_line(self) -> str:
        """What the server answers to the end of a line, "" for nothing; the connection is of no use then."""
        try:
            self._inner.sock.settimeout(_LINE_S)
            self._inner.write(b"\r\n\r\n")
            self.read(_SHOWN_BYTES)
        except _OtherAnswer as other:
            return str(other)
        except Exception:  # noqa: BLE001  it stays what it was: no answer
            return ""
        return ""


def _named(begin: bytes) -> str:
    shown = repr(begin[:_SHOWN_BYTES])[1:]
    if begin.startswith((b"HTTP/", b"<")):
        return f"answers by HTTP: {shown}"
    if begin[:2] == b"\x15\x03":
        return f"answers by TLS: {shown}"
    if begin[0] in _SASL and begin[1:3] in (b"", b"\0", b"\0\0"):
        return f"answers by SASL, as with Kerberos: {shown}"
    return f"does not answer as a metastore: {shown}"


#: how an answer of Thrift's SASL transport begins: its status, then the length of a message
_SASL = range(1, 6)

_LOADED: list[Any] = []


def types(wanted: str) -> Any:
    """The service's module; it lies in a text, as the package may be run from a zip. Raises ConfigError where
    thriftpy2 is missing, for what is `wanted`.
    """
    if not _LOADED:
        _LOADED.append(_library(wanted).parser.load_fp(io.StringIO(DEFINITIONS), _MODULE))
    return _LOADED[0]


def _client(host: str, port: int, connect_ms: int, answer_ms: int, wanted: str) -> tuple[Any, _CheckedSocket]:
    """Raises TException, OSError."""
    thriftpy = _library(wanted)
    socket = thriftpy.transport.TSocket(host, port, socket_timeout=answer_ms, connect_timeout=connect_ms)
    checked = _CheckedSocket(socket)
    buffered = thriftpy.transport.TBufferedTransportFactory().get_transport(checked)
    buffered.open()
    protocol = thriftpy.protocol.TBinaryProtocolFactory().get_protocol(buffered)
    return thriftpy.thrift.TClient(types(wanted).ThriftHiveMetastore, protocol), checked


def _is_declared(error: BaseException) -> bool:
    return type(error).__module__ == _MODULE


def _text(error: BaseException) -> str:
    text = str(getattr(error, "message", "") or error)
    return " ".join(text.split())[:500] or type(error).__name__


def _library(wanted: str) -> Any:
    try:
        import thriftpy2
        import thriftpy2.parser
        import thriftpy2.protocol
        import thriftpy2.thrift
        import thriftpy2.transport
    except ImportError as error:
        raise ConfigError(
            f"{wanted} needs the package thriftpy2, which is not here ({error}): "
            f"{install('hive-metastore')} where the driver runs",
            value="hivemetastore",
        ) from None
    return thriftpy2
