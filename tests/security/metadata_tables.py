"""Short ways to forge the metadata table of a healthy table, which lists its files."""

from __future__ import annotations

import functools
import io
import json
import os
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodie.format.hfile import IndexEntry, encode_leaf, encode_root
from hoodie.format.hfile_block import (
    HEADER,
    SCHEMA,
    TRAILER_BYTES,
    Checksum,
    Compression,
    Kind,
    Trailer,
    encode_block,
)
from hoodie.format.hfile_writer import HFileOptions, HFileWriter
from hoodie.format.log_block import BlockType, HeaderKey, rollback_headers
from hoodie.format.log_block import encode_block as encode_log_block
from hoodie.format.log_data import DeleteRecords, encode_delete_block
from hoodie.format.names import BaseFileName
from hoodie.timeline.time import InstantTime
from tests.security.corpus import NEW, Case, Lake
from tests.support.metadata_index import (
    Record,
    file_records,
    make_metadata_table,
    schema_text,
    write_base,
)

Names = dict[str, dict[str, int]]


def metadata(lake: Lake) -> Path:
    return lake.meta / "metadata"


def base(lake: Lake, partition: str = "files") -> Path:
    """A base file of a partition."""
    return sorted((metadata(lake) / partition).glob("*.hfile"))[0]


def log(lake: Lake) -> Path:
    """The newest log file of the list of files."""
    found = (metadata(lake) / "files").glob(".*.log.*")
    return max(found, key=lambda path: int(path.name.split(".log.")[1].split("_")[0]))


def names(lake: Lake) -> Names:
    """Data files with their sizes, as the folders have them."""
    return {
        partition: {path.name: path.stat().st_size for path in sorted((lake.table / partition).glob("*_*_*"))}
        for partition in ("apac", "eu", "us")
    }


# records


def listed(change: Callable[[Names], object]) -> Case:
    """The list of files says other things."""

    def forge(lake: Lake) -> None:
        there = names(lake)
        change(there)
        _listing(lake, file_records(there))

    return forge


def _listing(lake: Lake, records: Sequence[Record]) -> None:
    name = BaseFileName.parse(base(lake).name, ".hfile")
    assert name is not None
    write_base(metadata(lake), "files", name.file_id, name.instant, records).rename(base(lake))


def partitions(*more: str) -> Case:
    """The list of partitions has others, too."""

    def forge(lake: Lake) -> None:
        there = names(lake)
        records = file_records({**there, **{name: {} for name in more}})
        _listing(lake, [record for record in records if record["key"] not in more])

    return forge


def more(partition: str, name: str, size: int = 8) -> Case:
    return listed(lambda there: there.setdefault(partition, {}).update({name: size}))


def of_another_partition(there: Names) -> None:
    there["eu"] |= there["us"]


def sizes(size: int) -> Case:
    def change(there: Names) -> None:
        for files in there.values():
            files.update(dict.fromkeys(files, size))

    return listed(change)


def linked(lake: Lake) -> None:
    """A committed base file is a link, and is listed with the size of what it leads to."""
    path = lake.base_file()
    lake.linked(path, lake.path / "moved.parquet")
    there = names(lake)
    there["eu"][path.name] = (lake.path / "moved.parquet").stat().st_size
    _listing(lake, file_records(there))


def indexes(change: Callable[[Record], object], partition: str = "") -> Case:
    """Records of an index, which is made anew with statistics of all columns and bloom filters."""

    def changed(records: list[Record]) -> list[Record]:
        for record in records:
            if partition in record:
                change(record[partition])
        return records

    def forge(lake: Lake) -> None:
        shutil.rmtree(metadata(lake))
        make_metadata_table(lake.table, stats=None, blooms=True, change=changed)

    return forge


def statistics(**values: Any) -> Case:
    return indexes(lambda record: record.update(values), "ColumnStatsMetadata")


def blooms(**values: Any) -> Case:
    return indexes(lambda record: record.update(values), "BloomFilterMetadata")


def locations(**values: Any) -> Case:
    """A record index of one key, which is not where it says."""

    def forge(lake: Lake) -> None:
        info = {"partitionName": "eu", "fileId": "f-0", "fileIdEncoding": 1, "instantTime": 1}
        numbers = dict.fromkeys(("fileIdHighBits", "fileIdLowBits"), -1) | {"fileIndex": -1}
        record = {"key": "k00003", "type": 5, "recordIndexMetadata": {**info, **numbers, **values}}
        name = BaseFileName.parse(base(lake).name, ".hfile")
        assert name is not None
        write_base(metadata(lake), "record_index", "record-index-0000-0", name.instant, [record])
        lake.property("hoodie.table.metadata.partitions", "files,record_index")

    return forge


# HFiles


def raw(value: bytes, schema: str | None = None, key: bytes = b"eu") -> Case:
    """The list of files is one record of these bytes."""

    def forge(lake: Lake) -> None:
        sink = io.BytesIO()
        writer = HFileWriter(sink, HFileOptions())
        writer.append(pa.array([key], pa.binary()), pa.array([value], pa.binary()))
        writer.finish({SCHEMA: (schema_text() if schema is None else schema).encode()})
        base(lake).write_bytes(sink.getvalue())

    return forge


def block(**fields: int) -> Case:
    """The header of the first block says other things; nobody checks the sums of its bytes."""
    known = ("stored", "size", "previous", "checksum", "chunk", "end")

    def forge(lake: Lake) -> None:
        data = base(lake).read_bytes()
        kind, *numbers = HEADER.unpack_from(data)
        said = {**dict(zip(known, numbers, strict=True)), "checksum": Checksum.UNCHECKED, **fields}
        base(lake).write_bytes(HEADER.pack(kind, *said.values()) + data[HEADER.size :])

    return forge


def trailer(**fields: int) -> Case:
    def forge(lake: Lake) -> None:
        data = base(lake).read_bytes()
        said = replace(Trailer.parse(data[-TRAILER_BYTES:]), **fields)  # type: ignore[arg-type]
        base(lake).write_bytes(data[:-TRAILER_BYTES] + said.to_bytes())

    return forge


def indexed(entries: Callable[[int], list[IndexEntry]], levels: int = 1) -> Case:
    """Another index, from the place where it begins; leaf indexes that list themselves lie before it."""

    def forge(lake: Lake) -> None:
        data = base(lake).read_bytes()
        old = Trailer.parse(data[-TRAILER_BYTES:])
        info = data[old.info : -TRAILER_BYTES]
        place = old.load_on_open
        leaf = _block(Kind.LEAF_INDEX, encode_leaf([IndexEntry(place, 200, b"")]), old.compression)
        place += len(leaf)
        given = entries(old.load_on_open)
        root = _block(Kind.ROOT_INDEX, encode_root(given), old.compression)
        root += _block(Kind.ROOT_INDEX, b"", old.compression)
        said = replace(
            old,
            load_on_open=place,
            info=place + len(root),
            data_entries=len(given),
            meta_entries=0,
            levels=levels,
        )
        base(lake).write_bytes(data[: old.load_on_open] + leaf + root + info + said.to_bytes())

    return forge


def _block(kind: Kind, content: bytes, compression: Compression) -> bytes:
    return encode_block(kind, content, -1, compression, Checksum.UNCHECKED)


@functools.cache
def _zeros(mebibytes: int) -> bytes:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()


def bomb(mebibytes: int, said: int) -> Case:
    """The first block becomes zeros: so many, and as many as its header says."""

    def forge(lake: Lake) -> None:
        data = base(lake).read_bytes()
        old = Trailer.parse(data[-TRAILER_BYTES:])
        packed = _zeros(mebibytes)
        end = HEADER.size + len(packed)
        sums = bytes(4 * -(-end // (1 << 14)))
        head = HEADER.pack(Kind.DATA, len(packed) + len(sums), said, -1, Checksum.UNCHECKED, 1 << 14, end)
        whole = head + packed + sums
        root = _block(Kind.ROOT_INDEX, encode_root([IndexEntry(0, len(whole), b"")]), Compression.GZIP)
        root += _block(Kind.ROOT_INDEX, b"", Compression.GZIP)
        info = data[old.info : -TRAILER_BYTES]
        trailer_ = replace(
            old,
            load_on_open=len(whole),
            info=len(whole) + len(root),
            data_entries=1,
            meta_entries=0,
            levels=1,
        )
        base(lake).write_bytes(whole + root + info + trailer_.to_bytes())

    return forge


# logs


def logged(
    kind: BlockType, content: bytes, headers: Mapping[int, str] | None = None, undo: bool = False
) -> Case:
    """One more log file of the list of files, of the last commit."""

    def forge(lake: Lake) -> None:
        given: dict[int, str] = {HeaderKey.INSTANT_TIME: lake.last, HeaderKey.SCHEMA: schema_text()}
        given = (
            rollback_headers(InstantTime(NEW), InstantTime(lake.last))
            if undo
            else given | dict(headers or {})
        )
        _add_log(lake, b"".join(map(bytes, encode_log_block(kind, given, content))))

    return forge


def raw_log(data: bytes) -> Case:
    return lambda lake: _add_log(lake, data)


def _add_log(lake: Lake, data: bytes) -> None:
    newest = log(lake)
    head, _, rest = newest.name.partition(".log.")
    version = int(rest.split("_")[0])
    newest.with_name(f"{head}.log.{version + 1}_0-0-0").write_bytes(data)


def deletes(*keys: str) -> bytes:
    folders = pa.array(["files"] * len(keys), pa.string())
    return encode_delete_block(DeleteRecords(pa.array(keys, pa.string()), folders))


# its timeline, its properties, its folders


def says(change: Callable[[dict[str, Any]], object]) -> Case:
    """The newest deltacommit of the metadata table says other things."""

    def forge(lake: Lake) -> None:
        path = max((metadata(lake) / ".hoodie").glob("*.deltacommit"))
        content = json.loads(path.read_bytes())
        change(content)
        path.write_text(json.dumps(content))

    return forge


def paths(path: str) -> Case:
    def change(content: dict[str, Any]) -> None:
        for stats in content["partitionToWriteStats"].values():
            for stat in stats:
                stat["path"] = path

    return says(change)


def prop(name: str, value: str) -> Case:
    def forge(lake: Lake) -> None:
        path = metadata(lake) / ".hoodie/hoodie.properties"
        lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}=")]
        path.write_text("\n".join([*lines, f"{name}={value}"]) + "\n")

    return forge


def link(place: str, target: str) -> Case:
    return lambda lake: lake.linked(metadata(lake) / place, lake.path / target)


def pipe(find: Callable[[Lake], Path]) -> Case:
    def forge(lake: Lake) -> None:
        path = find(lake)
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    return forge


def huge(find: Callable[[Lake], Path]) -> Case:
    def forge(lake: Lake) -> None:
        with find(lake).open("r+b") as file:
            file.truncate(1 << 40)

    return forge


def text(find: Callable[[Lake], Path], data: str) -> Case:
    def forge(lake: Lake) -> None:
        find(lake).write_text(data)

    return forge


def cut(find: Callable[[Lake], Path], keep: float) -> Case:
    def forge(lake: Lake) -> None:
        path = find(lake)
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])

    return forge


def deltacommit(lake: Lake) -> Path:
    return max((metadata(lake) / ".hoodie").glob("*.deltacommit"))


def schema(**types: Any) -> str:
    """Of records, with other types of some columns; None: without."""
    known = {"key": "string", "type": "int", "filesystemMetadata": {"type": "map", "values": "long"}, **types}
    fields = [{"name": name, "type": type_} for name, type_ in known.items() if type_ is not None]
    return json.dumps({"type": "record", "name": "HoodieMetadataRecord", "fields": fields})
