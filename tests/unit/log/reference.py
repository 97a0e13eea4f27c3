"""Log files by the book (format.md 8): a second reader and a builder, plain and slow, to check ours with."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro

from hoodie.storage.local import LocalStorage

MAGIC = b"#HUDI#"
CORRUPT = 2
KNOWN_TYPES = (0, 1, 3, 4, 5, 6)


@dataclass(frozen=True)
class Seen:
    type: int
    offset: int
    length: int
    headers: dict[int, str]
    content: bytes


def walk(data: bytes) -> tuple[list[Seen], bool]:
    """(blocks, does the reading end in an error). The whole file is at hand, nothing is clever."""
    blocks: list[Seen] = []
    offset = 0
    while len(data) - offset >= len(MAGIC):
        if data[offset : offset + 6] != MAGIC:
            return blocks, True
        size = agreed_size(data, offset)
        if size is None:
            following = data.find(MAGIC, offset + 6)
            end = following if following >= 0 else len(data)
            blocks.append(Seen(CORRUPT, offset, end - offset, {}, data[offset:end]))
        else:
            end = offset + 14 + size
            try:
                type_, headers, content = parts(data[offset + 14 : end - 8])
            except (struct.error, ValueError):
                return blocks, True
            blocks.append(Seen(type_, offset, end - offset, headers, content))
        offset = end
    return blocks, False


def agreed_size(data: bytes, offset: int) -> int | None:
    """Of both lengths Apache Hudi 0.15.0 looks at the lower 32 bits, of the first one at nothing else."""
    if offset + 14 > len(data):
        return None
    (size,) = struct.unpack_from(">i", data, offset + 10)
    end = offset + 14 + size
    if size < 0 or end > len(data):
        return None
    (length,) = struct.unpack_from(">q", data, end - 8)
    if length != size + 6:
        return None
    following = data[end : end + 6]
    return size if len(following) < 6 or following == MAGIC else None


def parts(body: bytes) -> tuple[int, dict[int, str], bytes]:
    """(type, headers, content) out of what is between the two lengths, which it must fill."""
    (version,) = struct.unpack_from(">i", body)
    if version == 0:
        return 3, {}, body[4:]
    (type_,) = struct.unpack_from(">i", body, 4)
    if version != 1 or type_ not in KNOWN_TYPES:
        raise ValueError
    headers, place = header_map(body, 8)
    if type_ == 0 and headers.get(3) != "0":
        raise ValueError
    (length,) = struct.unpack_from(">i", body, place + 4)
    place += 8
    content = body[place : place + length]
    if length < 0 or len(content) != length:
        raise ValueError
    if header_map(body, place + length)[1] != len(body):
        raise ValueError
    return type_, headers, content


def header_map(body: bytes, place: int) -> tuple[dict[int, str], int]:
    (count,) = struct.unpack_from(">i", body, place)
    place += 4
    headers: dict[int, str] = {}
    if count > 9:
        raise ValueError
    for _ in range(count):
        key, length = struct.unpack_from(">ii", body, place)
        text = body[place + 8 : place + 8 + length]
        if not 0 <= key <= 8 or length < 0 or len(text) != length:
            raise ValueError
        headers[key] = text.decode()
        place += 8 + length
    return headers, place


def block(
    type_: int, headers: Mapping[int, str], content: bytes = b"", *, version: int = 1, cut: int = 0
) -> bytes:
    """One block as a writer leaves it; `cut` bytes are missing at its end."""
    entries = b"".join(
        struct.pack(">ii", key, len(text.encode())) + text.encode() for key, text in headers.items()
    )
    body = struct.pack(">iii", version, type_, len(headers)) + entries
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    whole = MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)
    return whole[: len(whole) - cut]


def avro_records(schema: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """int32 length and Avro binary of every row."""
    parsed = fastavro.parse_schema(dict(schema), named_schemas={})
    out = b""
    for row in rows:
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, parsed, dict(row))
        out += struct.pack(">i", len(datum.getvalue())) + datum.getvalue()
    return out


def avro_content(
    schema: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, content_version: int = 3
) -> bytes:
    return struct.pack(">ii", content_version, len(rows)) + avro_records(schema, rows)


def read_avro(schema: str, content: bytes) -> list[dict[str, Any]]:
    """The rows of an AVRO_DATA or CDC_DATA content."""
    parsed = fastavro.parse_schema(json.loads(schema), named_schemas={})
    _, count = struct.unpack_from(">ii", content)
    place, rows = 8, []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, place)
        datum = io.BytesIO(content[place + 4 : place + 4 + length])
        row: Any = fastavro.schemaless_reader(datum, parsed, None)
        assert datum.tell() == length
        rows.append(row)
        place += 4 + length
    assert place == len(content)
    return rows


class OneFile(LocalStorage):
    """A storage with one file, in memory; it notes how much was read and by which lengths."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[int] = []

    def open_input(self, path: str) -> io.BytesIO:
        return _Noting(self.data, self.asked)


class _Noting(io.BytesIO):
    def __init__(self, data: bytes, asked: list[int]) -> None:
        super().__init__(data)
        self._asked = asked

    def read(self, size: int | None = -1) -> bytes:
        self._asked.append(-1 if size is None else size)
        return super().read(size)


def positions_of(text: str) -> list[int]:
    """The positions of a header, which are a 64-bit roaring bitmap in the portable form."""
    data = base64.b64decode(text, validate=True)
    (buckets,) = struct.unpack_from("<q", data)
    found, place = list[int](), 8
    for _ in range(buckets):
        (high,) = struct.unpack_from("<i", data, place)
        lows, place = _bitmap(data, place + 4)
        found += [(high << 32) + low for low in lows]
    assert place == len(data)
    return found


def _bitmap(data: bytes, begin: int) -> tuple[list[int], int]:
    """(positions of a 32-bit roaring bitmap, where it ends)"""
    cookie, most = struct.unpack_from("<HH", data, begin)
    if cookie == 12347:
        count, place = most + 1, begin + 4
        flags = data[place : place + (count + 7) // 8]
        place += len(flags)
    else:
        assert (cookie, most) == (12346, 0)
        (count,) = struct.unpack_from("<i", data, begin + 4)
        flags, place = bytes(count), begin + 8
    heads = [struct.unpack_from("<HH", data, place + 4 * number) for number in range(count)]
    place += 4 * count
    offsets: tuple[int, ...] = ()
    if cookie == 12346 or count >= 4:
        offsets = struct.unpack_from(f"<{count}i", data, place)
        place += 4 * count
    found = list[int]()
    for number, (key, fewer) in enumerate(heads):
        assert not offsets or begin + offsets[number] == place
        lows, place = _container(data, place, fewer + 1, bool(flags[number // 8] >> number % 8 & 1))
        assert len(lows) == fewer + 1
        found += [(key << 16) + low for low in lows]
    return found, place


def _container(data: bytes, place: int, count: int, runs: bool) -> tuple[list[int], int]:
    if runs:
        (number,) = struct.unpack_from("<H", data, place)
        pairs = struct.iter_unpack("<HH", data[place + 2 : place + 2 + 4 * number])
        return [
            low for start, more in pairs for low in range(start, start + more + 1)
        ], place + 2 + 4 * number
    if count <= 4096:
        return list(struct.unpack_from(f"<{count}H", data, place)), place + 2 * count
    bits = data[place : place + 8192]
    return [low for low in range(1 << 16) if bits[low // 8] >> low % 8 & 1], place + 8192
