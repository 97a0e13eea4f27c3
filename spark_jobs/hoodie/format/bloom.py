"""Bloom filters over record keys, as kept in the footer of a base file.

Byte for byte what Apache Hudi 0.15.0 ``SimpleBloomFilter`` and ``HoodieDynamicBoundedBloomFilter`` write
(format.md section 7): ``|hash mod m|`` for k chained Murmur rounds, one bit vector (SIMPLE) or a matrix of
rows that each take ``num_entries`` keys (DYNAMIC_V0).
"""

from __future__ import annotations

import base64
import copy
import math
import string
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hoodie.codec.hashing import (
    PART,
    HashChain,
    IndexArray,
    Keys,
    MurmurKeys,
    UInt32Array,
    key_array,
)
from hoodie.codec.hashing import KeyHashes as KeyHashes
from hoodie.errors import ConfigError, TableError
from hoodie.format.settings import BloomType

ByteArray: TypeAlias = npt.NDArray[np.uint8]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Probe: TypeAlias = Callable[[UInt32Array], BoolArray]

# names of footer entries
BLOOM_FILTER_KEY = "org.apache.hudi.bloomfilter"
LEGACY_BLOOM_FILTER_KEY = "com.uber.hoodie.bloomfilter"
#: written for DYNAMIC_V0 only; absent means SIMPLE
BLOOM_TYPE_KEY = "hoodie_bloom_filter_type_code"

#: keys of a DYNAMIC_V0 filter, by default, beyond which no row is begun
MAX_ENTRIES = 100_000

_VERSION = -1
_MURMUR = 1
_HEADER = struct.Struct(">iiBi")  # version, k, hash type, m
_MATRIX = struct.Struct(">iii")  # entries a row, keys in the current row, rows
_INT_MAX = 2**31 - 1

# bits of a row up to which large adds go on a byte each: memory, and caches that the bytes do not fit into
_MOST_FLAGS = 1 << 25
# keys whose hashes, words and positions (some 40 bytes a key) stay near the core through all rounds
_CHUNK = 32_768
# keys that are quicker taken one by one
_FEW = 8
# bits from which on sorting is quicker than setting them one by one
_SORTED = 1_024
_ZERO = np.uint32(0)
_THREE, _FIVE, _SIX, _SEVEN = (np.uint32(i) for i in (3, 5, 6, 7))
_ONE = np.uint8(1)
# value of a base64 character; of anything else all bits are set, so that damage never hides a key
_SEXTETS = np.full(256, 0xFF, np.uint8)
_BASE64 = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
_SEXTETS[np.frombuffer(_BASE64.encode(), np.uint8)] = np.arange(64)


@dataclass(frozen=True)
class BloomSize:
    """Bits in a row (``m``) and hash rounds (``k``)."""

    m: int
    k: int

    @classmethod
    def of(cls, num_entries: int, fpp: float) -> BloomSize:
        """Size a row for ``num_entries`` keys at false-positive probability ``fpp``.

        Raises ConfigError when either is out of range or the row would exceed Java's array limit.
        """
        values = {"num_entries": num_entries, "fpp": fpp}
        if num_entries < 1 or not 0 < fpp < 1:
            raise ConfigError(
                f"a bloom filter of {num_entries} entries with fpp {fpp} is impossible; "
                "entries must be at least 1 and fpp between 0 and 1",
                **values,
            )
        m = math.ceil(num_entries * (-math.log(fpp) / (math.log(2) * math.log(2))))
        if m > _INT_MAX:
            raise ConfigError(
                f"a bloom filter of {num_entries} entries with fpp {fpp} takes {m} bits, "
                f"more than {_INT_MAX}; ask for fewer entries",
                **values,
            )
        return cls(m, math.ceil(math.log(2) * m / num_entries))

    @classmethod
    def quick(cls, num_entries: int, fpp: float) -> BloomSize:
        """Size a row for two thirds of the hash rounds of ``of``: at 1e-9 these save a third of the time that
        keys take, and cost 6 % more bits. Raises as ``of``.
        """
        least = cls.of(num_entries, fpp)
        k = math.ceil(-math.log2(fpp) * 2 / 3)
        return cls(max(least.m, math.ceil(num_entries * k / _load(fpp, k))), k)

    def entries(self, fpp: float) -> int:
        """Return how many keys a row may have, until false positives have a probability of ``fpp``."""
        return int(self.m * _load(fpp, self.k) / self.k + 0.001)

    @classmethod
    def parse(cls, raw: bytes) -> BloomSize:
        """Read a header. Raises ValueError, or struct.error when it is cut short."""
        version, k, hash_type, m = _HEADER.unpack_from(raw)
        if (version, hash_type) != (_VERSION, _MURMUR):
            raise ValueError(f"version {version} with hash type {hash_type}, known is -1 with 1 (Murmur)")
        if k < 1 or m < 1:
            raise ValueError(f"{k} hash rounds over {m} bits")
        return cls(m, k)

    @property
    def row_bytes(self) -> int:
        return (self.m + 7) // 8

    def header(self) -> bytes:
        return _HEADER.pack(_VERSION, self.k, _MURMUR, self.m)

    def positions(
        self, hashes: UInt32Array, out: UInt32Array | None = None, scratch: UInt32Array | None = None
    ) -> UInt32Array:
        """Return ``|hash rem m|``; ``out`` and ``scratch`` (results, work space) must be distinct arrays."""
        signed = hashes.view(np.int32)
        # |h| first: Java's remainder keeps the dividend's sign; |-2^31| comes out right as unsigned
        absolute = np.absolute(signed, out=None if scratch is None else scratch.view(np.int32)).view(
            np.uint32
        )
        m = np.uint32(self.m)
        # numpy divides by a scalar with SIMD multiplications, where its remainder divides one by one
        places = np.floor_divide(absolute, m, out=out)
        np.multiply(places, m, out=places)
        return np.subtract(absolute, places, out=places)


class BloomFilter:
    """A filter that is built, continued and asked in bulk. Not safe for writing from several threads.

    Adding keys in several calls gives the same bytes as adding them in one, or one by one in Hudi.
    """

    def __init__(
        self, type: BloomType, size: BloomSize, num_entries: int, max_entries: int, current: int, rows: int
    ) -> None:
        """Make an empty filter; use ``create`` or ``from_string``."""
        self.type = type
        self.size = size
        self.num_entries = num_entries  # keys a DYNAMIC_V0 row takes before the next is begun
        self.max_entries = max_entries  # a row is added only while rows x num_entries is below
        self.rows = rows
        self._current = current
        # The bits, in one of three forms: the footer text; (rows, row bytes); while large adds go on a byte
        # each, (rows, m). None of them: no bit is set.
        self._text: bytes | None = None
        self._packed: ByteArray | None = None
        self._flags: ByteArray | None = None

    @classmethod
    def create(
        cls,
        num_entries: int = 60_000,
        fpp: float = 1e-9,
        type: BloomType = BloomType.DYNAMIC_V0,
        max_entries: int = MAX_ENTRIES,
    ) -> BloomFilter:
        """Return an empty filter. Raises ConfigError for impossible sizes."""
        return cls(type, BloomSize.of(num_entries, fpp), num_entries, max_entries, 0, 1)

    @classmethod
    def from_string(
        cls, text: str | bytes, type_code: str | None = None, max_entries: int = MAX_ENTRIES
    ) -> BloomFilter:
        """Read a filter from its footer text and type code (None: SIMPLE).

        The text is decoded only when keys are added: questions are answered from its characters, of which
        a damaged one counts as set bits. ``max_entries`` is not stored; it matters only if keys are added.
        Raises TableError for a text of the wrong length and for filters older than Murmur hashing (Jenkins),
        ConfigError for an unknown type code.
        """
        kind = BloomType.of(type_code)
        try:
            chars = text.encode("ascii") if isinstance(text, str) else text
            # 27 bytes, both headers; four characters at a time decode on their own
            head = base64.b64decode(chars[:36], validate=True)
            size = BloomSize.parse(head)
            num_entries, current, rows = 0, 0, 1
            if kind is BloomType.DYNAMIC_V0:
                num_entries, current, rows = _MATRIX.unpack_from(head, _HEADER.size)
                if num_entries < 1 or current < 0 or rows < 1:
                    raise ValueError(f"{rows} rows, {current} keys in a row for {num_entries}")
            length = _first_row(kind) + rows * size.row_bytes + (rows - 1) * _HEADER.size
            if len(chars) != 4 * -(-length // 3):
                raise ValueError(f"{len(chars)} characters for {length} bytes: {rows} rows of {size.m} bits")
        except (ValueError, struct.error) as e:
            raise _damaged(kind, e) from e
        bloom = cls(kind, size, num_entries, max_entries, current, rows)
        bloom._text = chars
        if length * 8 >= 1 << 32:  # bit numbers are unsigned 32 bit
            bloom._pack()
        return bloom

    def to_string(self) -> str:
        """Return the footer text."""
        if self._text is not None:
            return self._text.decode("ascii")
        packed = self._pack()
        header = self.size.header()
        if self.type is BloomType.SIMPLE:
            return base64.b64encode(header + packed.tobytes()).decode("ascii")
        rows = np.empty((self.rows, len(header) + self.size.row_bytes), np.uint8)
        rows[:, : len(header)] = np.frombuffer(header, np.uint8)
        rows[:, len(header) :] = packed
        matrix = _MATRIX.pack(self.num_entries, self._current, self.rows)
        return base64.b64encode(header + matrix + rows.tobytes()).decode("ascii")

    def copy(self) -> BloomFilter:
        """Return an independent filter of the same content, to continue it for the next version of a file."""
        twin = copy.copy(self)
        twin._packed = None if self._packed is None else self._packed.copy()
        twin._flags = None if self._flags is None else self._flags.copy()
        return twin

    def count(self) -> int:
        """Return about how many keys were added to the last row; of a SIMPLE filter its bits say it."""
        if self.type is BloomType.DYNAMIC_V0:
            return self._current
        m, k = self.size.m, self.size.k
        unset = m - int(np.unpackbits(self._pack()).sum())
        return math.ceil(m / k * math.log(m / unset)) if unset else _INT_MAX

    def folded(self, times: int) -> BloomFilter:
        """Return what a filter with 1/``times`` of the bits and entries became of the same keys.

        For filters of one row, whose bits are a multiple of 8 x ``times``.
        """
        size = BloomSize(self.size.m // times, self.size.k)
        entries = max(1, self.num_entries // times)
        twin = BloomFilter(self.type, size, entries, entries, self._current, 1)
        twin._packed = np.bitwise_or.reduce(self._pack().reshape(times, -1))[np.newaxis]
        return twin

    def add(self, keys: Keys) -> None:
        """Add every key, in order (which decides the row in a DYNAMIC_V0 filter that outgrew its first).

        Raises InputError for null or empty keys; the filter is unchanged then.
        """
        array = key_array(keys)
        if not len(array):
            return
        row_of, rows, self._current = self._assign(len(array))
        # a scattered bit costs ten times a scattered byte; unpacking and packing cost m/10 of the latter
        few = len(array) * self.size.k * 100 < self.size.m or self.size.m > _MOST_FLAGS
        packed = few and self._flags is None and rows == self.rows
        target = self._writable() if packed else self._unpack(rows)
        for start in range(0, len(array), PART):
            part = MurmurKeys.of(array.slice(start, PART))
            places = row_of if isinstance(row_of, int) else row_of[start : start + PART]
            _insert(part, places, self.size, target, packed=packed)

    def might_contain(self, keys: Keys | KeyHashes, where: BoolArray | None = None) -> BoolArray:
        """Return per key whether the filter may hold it: False is certain. Keys not in ``where`` are False.

        A key is dropped at its first unset bit, so a key that is absent costs about two rounds.
        """
        hashes = keys if isinstance(keys, KeyHashes) else KeyHashes(keys)
        result = np.zeros(len(hashes), np.bool_)
        for matches in self._matches(hashes, where):
            result[matches] = True
        return result

    def any_might_contain(self, keys: Keys | KeyHashes, where: BoolArray | None = None) -> bool:
        """Return whether the filter may hold any of the keys (in ``where``).

        Asks blocks of 64, 2048 and then 65536 keys and stops after the first that has one.
        """
        hashes = keys if isinstance(keys, KeyHashes) else KeyHashes(keys)
        return any(matches.size for matches in self._matches(hashes, where))

    def _matches(self, hashes: KeyHashes, where: BoolArray | None) -> Iterator[IndexArray]:
        """Yield, per block and row, the places of the keys that the row may hold."""
        probes = self._probes()
        for start, chain in hashes.blocks():
            asked = None
            if where is not None:
                block = where[start : start + len(chain)]
                asked = np.flatnonzero(block if chain.keys.order is None else block[chain.keys.order])
            for probe in probes:
                held = _members(chain, asked, probe, self.size)
                yield start + (held if chain.keys.order is None else chain.keys.order[held])

    def _assign(self, count: int) -> tuple[int | IndexArray, int, int]:
        """Return (row of each of the next ``count`` keys, rows then, current then); an int if it is one row.

        Rows fill one after the other; when no more may be begun, the first key too many goes to row 0 and the
        following ones round robin, again from row 0.
        """
        if self.type is BloomType.SIMPLE:
            return 0, 1, 0
        n, current, rows = self.num_entries, self._current, self.rows
        surplus = max(0, current - n)  # keys that found every row full; once there are any, no row is added
        final = rows if surplus else max(rows, -(-self.max_entries // n))
        room = 0 if surplus else (final - rows + 1) * n - current
        if count <= room:
            begun, last = divmod(current + count - 1, n)
            after = rows + begun, last + 1
            if current // n == begun:
                return rows - 1 + begun, *after
        else:
            after = final, n + surplus + count - room
        keys = np.arange(count)
        turn = np.maximum(surplus + keys - room - 1, 0)
        return np.where(keys < room, rows - 1 + (current + keys) // n, turn % final), *after

    def _probes(self) -> list[Probe]:
        """Return per row the function that looks up which positions are set."""
        if self._text is None:
            return [partial(_set_in_row, row) for row in self._pack()]
        chars = np.frombuffer(self._text, np.uint8)
        first, stride = _first_row(self.type), _HEADER.size + self.size.row_bytes
        starts = range(first, first + self.rows * stride, stride)
        return [partial(_set_in_text, chars, np.uint32(8 * start)) for start in starts]

    def _pack(self) -> ByteArray:
        """Return the rows, (rows, row bytes), and hold them in this form only."""
        if self._text is not None:
            self._packed = self._decode(self._text)
        elif self._flags is not None:
            self._packed = np.packbits(self._flags, axis=1, bitorder="little")
        elif self._packed is None:
            self._packed = np.zeros((self.rows, self.size.row_bytes), np.uint8)
        self._text = self._flags = None
        return self._packed

    def _decode(self, text: bytes) -> ByteArray:
        """Decode a footer text to read-only rows; the headers of the rows between are skipped."""
        first, stride = _first_row(self.type), _HEADER.size + self.size.row_bytes
        try:
            raw = base64.b64decode(text, validate=True)
            return np.ndarray((self.rows, self.size.row_bytes), np.uint8, raw, first, (stride, 1))
        except (ValueError, TypeError) as e:  # numpy says TypeError when the bytes are too few
            raise _damaged(self.type, e) from e

    def _writable(self) -> ByteArray:
        packed = self._pack()
        if not packed.flags.writeable:
            packed = self._packed = packed.copy()
        return packed

    def _unpack(self, rows: int) -> ByteArray:
        """Return the bits, a byte each, grown to ``rows`` rows, and hold them in this form only."""
        if self._flags is None:
            self._flags = np.unpackbits(self._pack(), axis=1, count=self.size.m, bitorder="little")
            self._packed = None
        if rows > self.rows:
            grown = np.zeros((rows, self.size.m), np.uint8)
            grown[: self.rows] = self._flags
            self._flags, self.rows = grown, rows
        return self._flags


def _load(fpp: float, k: int) -> float:
    """Return how often each bit is set on average, by ``k`` rounds, where false positives reach ``fpp``."""
    return -math.log1p(-(fpp ** (1 / k)))


def _members(chain: HashChain, asked: IndexArray | None, probe: Probe, size: BloomSize) -> IndexArray:
    """Return which of the asked keys (held places, ascending; None: all) have their k bits set, ascending."""
    among: IndexArray | None = None  # held places, in the first chain, of the keys of `chain`; None: the same
    alive = asked  # places in `chain` of the keys still in question; None: all
    for number in range(size.k):
        if alive is not None and number >= chain.rounds and alive.size * 4 < len(chain):
            # a new round for all keys would be mostly wasted
            among = alive if among is None else among[alive]
            chain, alive = chain.take(alive, number), None
        hashes = chain.round(number)
        # nonzero of a boolean array is ten times faster than of bytes
        matches = np.flatnonzero(probe(size.positions(hashes if alive is None else hashes[alive])))
        alive = matches if alive is None else alive[matches]
        if not alive.size:
            return alive
    assert alive is not None
    return alive if among is None else among[alive]


def _set_in_row(row: ByteArray, places: UInt32Array) -> BoolArray:
    values: ByteArray = row.take((places >> _THREE).astype(np.intp))
    return ((values >> (places & _SEVEN).astype(np.uint8)) & _ONE).view(np.bool_)


def _set_in_text(chars: ByteArray, first_bit: np.uint32, places: UInt32Array) -> BoolArray:
    """Look bits up in base64: six a character, the most significant first; ``first_bit`` is the row's."""
    bits: UInt32Array = (places ^ _SEVEN) + first_bit
    index = np.floor_divide(bits, _SIX)
    shifts = _FIVE - (bits - index * _SIX)
    values: ByteArray = _SEXTETS.take(chars.take(index.astype(np.intp)))
    return ((values >> shifts.astype(np.uint8)) & _ONE).view(np.bool_)


def _insert(
    keys: MurmurKeys, row_of: int | IndexArray, size: BloomSize, target: ByteArray, *, packed: bool
) -> None:
    """Set the keys' bits in ``target``: (rows, row bytes) if packed, else (rows, m) with a byte a bit."""
    if packed and isinstance(row_of, int) and len(keys) <= _FEW:
        _insert_few(keys, size, target[row_of])
        return
    for start in range(0, len(keys), _CHUNK):
        chunk = keys.slice(start, start + _CHUNK)
        count = len(chunk)
        hashes, scratch, places = np.zeros((3, count), np.uint32)
        index = np.empty(count, np.intp)
        if isinstance(row_of, int):
            base, row = None, target[row_of]
        else:
            order = slice(start, start + count) if chunk.order is None else chunk.order
            base, row = row_of[order] * target.shape[1], target.reshape(-1)
        for _ in range(size.k):
            chunk.hash(hashes, out=hashes, scratch=scratch)
            size.positions(hashes, out=places, scratch=scratch)
            np.right_shift(places, _THREE if packed else _ZERO, out=index)
            if base is not None:
                np.add(index, base, out=index)
            if packed:
                _set_bits(row, index, (places & _SEVEN).astype(np.uint8))
            else:
                row[index] = 1


def _insert_few(keys: MurmurKeys, size: BloomSize, row: ByteArray) -> None:
    for place in range(len(keys)):
        for value in keys.chained(place, size.k):
            bit = min(value, (1 << 32) - value) % size.m
            row[bit >> 3] |= 1 << (bit & 7)


def _set_bits(row: ByteArray, index: IndexArray, bits: ByteArray) -> None:
    """Set bit ``bits[i]`` of byte ``index[i]``, in place."""
    if index.size < _SORTED:
        np.bitwise_or.at(row, index, np.left_shift(_ONE, bits))
        return
    # those of one bit together: what is written twice to a byte is the same then
    index = index[np.argsort(bits, kind="stable")]
    ends = np.cumsum(np.bincount(bits, minlength=8)).tolist()
    for bit, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        part = index[start:end]
        row[part] |= np.uint8(1 << bit)


def _first_row(kind: BloomType) -> int:
    """Return where the bits of the first row begin, in bytes."""
    return _HEADER.size if kind is BloomType.SIMPLE else _HEADER.size + _MATRIX.size + _HEADER.size


def _damaged(kind: BloomType, reason: Exception) -> TableError:
    return TableError(
        f"bloom filter of type {kind.value} is damaged: {reason}; "
        "rewrite the file or use an index without bloom filters",
        type=kind.value,
    )
