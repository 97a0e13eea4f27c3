"""HFiles that are written here: read again by keys, prefixes and ranges, counted, damaged."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.errors import InputError, TableError
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_block import Checksum, Compression
from hoodie.format.hfile_cells import KEY_END, MAX_KEY
from hoodie.format.hfile_writer import HFileOptions, HFileWriter
from tests.unit.test_hfile import cells

Cell = tuple[bytes, bytes]

#: short keys of few letters have prefixes of one another, and are equal now and then
KEYS = st.lists(st.sampled_from([b"", b"a", b"b", b"\x00", b"\xff", b"key"]), max_size=4).map(b"".join)
#: also values with what ends keys
VALUES = st.binary(max_size=40) | st.lists(st.sampled_from([KEY_END, b"\x7f", b"\0\0"]), max_size=3).map(
    b"".join
)
CELLS = st.lists(st.tuples(KEYS, VALUES), max_size=60).map(
    lambda found: sorted(found, key=lambda cell: cell[0])
)
OPTIONS = st.builds(
    HFileOptions,
    compression=st.sampled_from(Compression),
    checksum=st.sampled_from(Checksum),
    block_bytes=st.sampled_from([1, 60, 200, 1 << 20]),
    index_bytes=st.sampled_from([None, 1, 100]),
)


def written(rows: Sequence[Cell], options: HFileOptions, calls: int = 1, **metas: bytes) -> bytes:
    sink = io.BytesIO()
    writer = HFileWriter(sink, options)
    step = max(1, -(-len(rows) // calls))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        writer.append(*(pa.array([cell[side] for cell in part], pa.binary()) for side in (0, 1)))
    for name, content in metas.items():
        writer.append_meta(name.encode(), content)
    assert writer.finish({b"about": b"x"}) == len(sink.getvalue())
    return sink.getvalue()


class Counted(io.BytesIO):
    """Counts the reads."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[int] = []

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.reads.append(len(data))
        return data


@given(CELLS, OPTIONS, st.integers(1, 4), st.lists(KEYS, max_size=6), KEYS, KEYS)
@settings(deadline=None, max_examples=30)
def test_what_is_written_is_read(
    rows: list[Cell], options: HFileOptions, calls: int, asked: list[bytes], start: bytes, stop: bytes
) -> None:
    with HFileReader.of_bytes(written(rows, options, calls, bloom=b"bits"), "made") as reader:
        assert cells(reader.scan()) == rows
        assert reader.entries == len(rows)
        assert cells(reader.get(asked)) == [cell for cell in rows if cell[0] in asked]
        begun = [cell for cell in rows if cell[0].startswith(tuple(asked))] if asked else []
        assert cells(reader.get_prefixes(asked)) == begun
        assert cells(reader.scan(start, stop)) == [cell for cell in rows if start <= cell[0] < stop]
        assert cells(reader.scan(start)) == [cell for cell in rows if start <= cell[0]]
        assert (reader.meta(b"bloom"), reader.meta(b"other")) == (b"bits", None)
        assert reader.info[b"about"] == b"x"


def many(count: int = 4000) -> list[Cell]:
    return [(f"key {number:06d}".encode(), b"value of a row " * (number % 3)) for number in range(count)]


SMALL = HFileOptions(compression=Compression.NONE, block_bytes=2000)


def test_a_look_up_reads_the_blocks_that_hold_the_keys() -> None:
    """And the end of the file, once, on opening. Blocks that follow one another are read together."""
    rows = many()
    source = Counted(written(rows, SMALL))
    with HFileReader(source, "made") as reader:
        assert len(source.reads) == 1
        source.reads.clear()
        wanted = [rows[number][0] for number in (0, 1, 2, 1500, 3999)]
        assert [key for key, _ in cells(reader.get(wanted))] == wanted
        assert len(source.reads) == 3
        assert max(source.reads) < 2200
        source.reads.clear()
        assert cells(reader.get([b"a", b"z", b"key 0000005"])) == []
        assert len(source.reads) == 2
        source.reads.clear()
        assert len(cells(reader.get_prefixes([b"key 0010"]))) == 100
        assert len(source.reads) == 1
        source.reads.clear()
        assert cells(reader.scan()) == rows
        assert len(source.reads) == 1


def test_of_an_index_of_several_levels_only_what_is_above_the_blocks_is_read() -> None:
    rows = many()
    options = HFileOptions(compression=Compression.NONE, block_bytes=500, index_bytes=200)
    source = Counted(written(rows, options))
    with HFileReader(source, "made") as reader:
        assert len(source.reads) == 1
        source.reads.clear()
        assert cells(reader.get([rows[2000][0]])) == [rows[2000]]
        levels = len(source.reads)
        assert 3 <= levels <= 8
        source.reads.clear()
        assert cells(reader.get([rows[2000][0]])) == [rows[2000]]
        assert len(source.reads) == 1, "indexes are kept"
        assert cells(reader.scan()) == rows


def test_keys_of_many_lengths() -> None:
    rows = [(b"k" * number, b"v" * (number % 5)) for number in range(1, 200)]
    with HFileReader.of_bytes(written(rows, HFileOptions()), "made") as reader:
        assert cells(reader.scan()) == rows


def test_equal_keys_stay_in_one_block() -> None:
    rows = sorted((bytes([97 + number % 5]), b"v" * 100) for number in range(100))
    source = Counted(written(rows, HFileOptions(compression=Compression.NONE, block_bytes=300)))
    with HFileReader(source, "made") as reader:
        source.reads.clear()
        assert len(cells(reader.get([b"c"]))) == 20
        assert len(source.reads) == 1


def test_bad_cells_are_refused_before_they_are_written() -> None:
    writer = HFileWriter(io.BytesIO())
    for keys in ([b"b", b"a"], [None], ["b", "a"]):
        with pytest.raises(ValueError, match=r"order|nulls"):
            writer.append(pa.array(keys), pa.array([b""] * len(keys)))
    writer.append(pa.array([b"b"]), pa.array([b""]))
    with pytest.raises(ValueError, match="order"):
        writer.append(pa.array([b"a"]), pa.array([b""]))
    with pytest.raises(InputError, match=r"32,768 bytes"):
        writer.append(pa.array([b"c" * (MAX_KEY + 1)]), pa.array([b""]))
    writer.append(pa.array([b"c" * MAX_KEY]), pa.array([b""]))
    assert writer.finish({}) > 4096


def everything(data: bytes) -> dict[str, Any]:
    """What an HFile says, TableErrors for what it can't."""
    found: dict[str, Any] = {}
    rows = many(40)

    def ask(name: str, look: Callable[[], Any]) -> None:
        try:
            found[name] = look()
        except TableError as error:
            found[name] = TableError if "made.hfile" in str(error) else error

    try:
        reader = HFileReader.of_bytes(data, "made.hfile")
    except TableError as error:
        return {} if "made.hfile" in str(error) else {"scan": error}
    with reader:
        ask("scan", lambda: cells(reader.scan()))
        ask("get", lambda: cells(reader.get([key for key, _ in rows[::3]] + [b"key", b"z"])))
        ask("prefix", lambda: cells(reader.get_prefixes([b"key 00001", b"key 000030"])))
        ask("range", lambda: cells(reader.scan(b"key 000007", b"key 000029")))
        ask("meta", lambda: reader.meta(b"bloom"))
        ask("info", lambda: dict(reader.info))
    return found


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.full), 29])
@pytest.mark.parametrize(
    ("compression", "index_bytes"),
    [(Compression.NONE, None), (Compression.GZIP, None), (Compression.GZIP, 30)],
)
def test_a_flipped_bit_is_an_error_or_changes_nothing(
    compression: Compression, index_bytes: int | None, step: int
) -> None:
    """In every byte of the file, but for the padding of its trailer, or in some."""
    options = HFileOptions(
        compression=compression, checksum=Checksum.CRC32, block_bytes=400, index_bytes=index_bytes
    )
    whole = written(many(40), options, bloom=b"bits")
    truth = everything(whole)
    assert truth["scan"] == many(40)
    end = len(whole) - 4096
    places = [*range(0, end, step), *range(end, end + 140, -(-step // 2)), *range(len(whole) - 4, len(whole))]
    for place in places:
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        found = everything(bytes(data))
        assert all(value is TableError or value == truth[name] for name, value in found.items()), place


def test_a_cut_file_is_an_error() -> None:
    whole = written(many(40), SMALL)
    for length in range(0, len(whole), 101):
        assert everything(whole[:length]) == {}
    assert everything(whole + b"x") == {}


def test_blocks_elsewhere_than_the_index_says_are_an_error() -> None:
    """Two files with checksums that hold, the blocks of one behind the index of the other."""
    options = HFileOptions(compression=Compression.NONE, block_bytes=400)
    one = written(many(40), options)
    other = written([(key.replace(b"key", b"kez"), value) for key, value in many(40)], options)
    start = one.index(b"IDXROOT2")
    found = everything(other[:start] + one[start:])
    assert found["scan"] is TableError
    assert found["get"] in (TableError, [])


def test_a_file_on_storage_is_closed(tmp_path: Path) -> None:
    closed: list[bool] = []

    class Source(io.BytesIO):
        def close(self) -> None:
            closed.append(True)
            super().close()

    source: BinaryIO = Source(b"short")
    with pytest.raises(TableError, match="5 bytes, fewer than a trailer"):
        HFileReader(source, "short")
    assert closed
