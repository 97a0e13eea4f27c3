"""HBase's Thrift server as the HBASE index sees it: a real socket and protocol, rows in memory."""

from __future__ import annotations

import re
import socket
import threading
import time
from types import TracebackType
from typing import Any

from tests.support.server_process import free_port

COLUMNS = (b"_s:commit_ts", b"_s:file_name", b"_s:partition_path")
Row = dict[bytes, list[tuple[int, bytes]]]


class MemoryHBase:
    """A context manager. `rows`: the cells of the one table, `index`, newest first. `requests`: the names of
    the methods that were called, with the number of their rows. `sleeps`: seconds before each answer.
    `servers`: region servers of the table.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}
        self.requests: list[tuple[str, int]] = []
        self.sleeps = 0.0
        self.servers = 1
        self._scans: dict[int, list[Any]] = {}
        self._clock = 0
        self._lock = threading.Lock()
        self._done = threading.Event()

    def __enter__(self) -> MemoryHBase:
        import happybase  # noqa: F401  it makes the module below
        import Hbase_thrift
        from thriftpy2.protocol import TBinaryProtocolFactory
        from thriftpy2.server import TThreadedServer
        from thriftpy2.thrift import TProcessor
        from thriftpy2.transport import TBufferedTransportFactory, TServerSocket

        self._types: Any = Hbase_thrift
        self.port = free_port()
        # classes without annotations, of a package that is marked as typed
        server_socket: Any = TServerSocket
        protocols: Any = TBinaryProtocolFactory
        self._socket = server_socket(host="127.0.0.1", port=self.port, client_timeout=None)
        self._server = TThreadedServer(
            TProcessor(Hbase_thrift.Hbase, self),
            self._socket,
            iprot_factory=protocols(decode_response=False),
            itrans_factory=TBufferedTransportFactory(),
            daemon=True,
        )
        self._socket.listen()
        self._socket.listen = lambda: None
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        # `accept` notices that it is closed when somebody comes
        socket.create_connection(("127.0.0.1", self.port), 5).close()
        self._done.wait(10)
        self._socket.close()

    @property
    def options(self) -> dict[str, Any]:
        return {
            "hoodie.index.type": "HBASE",
            "hoodie.index.hbase.table": "index",
            "hoodie.index.hbase.thrift.host": "127.0.0.1",
            "hoodie.index.hbase.thrift.port": self.port,
        }

    def places(self) -> dict[str, tuple[str, str, str]]:
        """commit_ts, file_name and partition_path by record key, as Apache Hudi reads them."""
        found = {}
        for key, row in self.rows.items():
            if not key.startswith(b"\0") and all(column in row for column in COLUMNS):
                time_, file_id, partition = (row[column][0][1].decode() for column in COLUMNS)
                found[key.decode()] = (time_, file_id, partition)
        return found

    def getRowsWithColumns(self, table: bytes, rows: list[bytes], columns: Any, attributes: Any) -> Any:
        self._asked("get", table, len(rows))
        found = ((row, self._cells(row, columns)) for row in rows)
        return [self._types.TRowResult(row=row, columns=cells) for row, cells in found if cells]

    def getRowWithColumnsTs(self, table: bytes, row: bytes, columns: Any, before: int, _: Any) -> Any:
        self._asked("get", table, 1)
        cells = self._cells(row, columns, before)
        return [self._types.TRowResult(row=row, columns=cells)] if cells else []

    def mutateRows(self, table: bytes, batches: list[Any], attributes: Any) -> None:
        self._asked("put", table, len(batches))
        with self._lock:
            for batch in batches:
                for mutation in batch.mutations:
                    self._clock = max(self._clock + 1, int(time.time() * 1000))
                    if mutation.isDelete and mutation.column == b"_s":
                        self.rows.pop(batch.row, None)
                    elif mutation.isDelete:
                        self.rows.get(batch.row, {}).pop(mutation.column, None)
                    else:
                        row = self.rows.setdefault(batch.row, {})
                        row.setdefault(mutation.column, []).insert(0, (self._clock, mutation.value))

    def scannerOpenWithScan(self, table: bytes, scan: Any, attributes: Any) -> int:
        self._asked("scan", table, 0)
        where = re.fullmatch(
            rb"SingleColumnValueFilter\('_s', 'commit_ts', =, 'binary:(\d+)', true, true\)",
            scan.filterString or b"",
        )
        assert bool(where) == bool(scan.filterString)
        found = []
        for row in sorted(self.rows):
            cells = self._cells(row, scan.columns)
            inside = row >= (scan.startRow or b"") and (scan.stopRow is None or row < scan.stopRow)
            wanted = where is None or (COLUMNS[0] in cells and cells[COLUMNS[0]].value == where[1])
            if cells and inside and wanted:
                found.append(self._types.TRowResult(row=row, columns=cells))
        self._scans[len(self._scans)] = found
        return len(self._scans) - 1

    def scannerGetList(self, scanner: int, count: int) -> Any:
        found = self._scans[scanner]
        self._scans[scanner] = found[count:]
        return found[:count]

    def scannerClose(self, scanner: int) -> None:
        self._scans[scanner] = []

    def getTableRegions(self, table: bytes) -> Any:
        self._asked("regions", table, 0)
        return [
            self._types.TRegionInfo(
                startKey=b"", endKey=b"", id=number, name=b"", version=1, serverName=b"s%d" % number, port=1
            )
            for number in range(self.servers)
        ]

    def _serve(self) -> None:
        self._server.serve()
        self._done.set()

    def _cells(self, row: bytes, columns: Any, before: int | None = None) -> dict[bytes, Any]:
        cells = {}
        for column, versions in self.rows.get(row, {}).items():
            known = [item for item in versions if before is None or item[0] < before]
            if column in columns and known:
                cells[column] = self._types.TCell(value=known[0][1], timestamp=known[0][0])
        return cells

    def _asked(self, what: str, table: bytes, rows: int) -> None:
        self.requests.append((what, rows))
        time.sleep(self.sleeps)
        if table != b"index":
            name = table.decode()
            raise self._types.IOError(
                message=f"org.apache.hadoop.hbase.TableNotFoundException: {name}".encode()
            )
