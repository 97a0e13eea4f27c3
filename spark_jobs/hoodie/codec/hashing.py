"""Hash functions of the table format for whole Arrow arrays, and even, repeatable splits of keys.

The hash is that of Apache Hudi 0.15.0 ``MurmurHash`` (a port of Hadoop's), format.md section 7. It differs
from the published MurmurHash2 in its tail: the last one to three bytes are signed and counted from the end
of the key.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.errors import InputError

UInt32Array: TypeAlias = npt.NDArray[np.uint32]
Keys: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
IndexArray: TypeAlias = npt.NDArray[np.intp]

#: keys prepared at a time, which bounds the memory of a large array
PART = 65_536
#: words that at most so many keys have, and more than so many of them, are taken key by key
_FEW = 8
_MANY_WORDS = 64

_M = np.uint32(0x5BD1E995)
_SHIFT_13 = np.uint32(13)
_SHIFT_15 = np.uint32(15)
_SHIFT_24 = np.uint32(24)


def binary_views(
    array: pa.Array[Any],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """Return read-only views ``(data, offsets)`` of a string or binary array (offsets of 32 or 64 bits).

    Value ``i`` is ``data[offsets[i]:offsets[i + 1]]``; ``offsets`` has ``len(array) + 1`` entries and
    need not start at 0. Raises InputError for any other type.
    """
    dtype: np.dtype[Any]
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        dtype = np.dtype(np.int64)
    elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        dtype = np.dtype(np.int32)
    else:
        raise InputError(f"keys are of type {array.type}; cast them to string first")
    _, offset_buffer, data_buffer = cast("Sequence[memoryview[int] | None]", array.buffers())
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
    data.flags.writeable = False
    if not len(array) or offset_buffer is None:
        return data, np.zeros(1, dtype)
    return data, np.frombuffer(offset_buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)


def key_array(keys: Keys) -> pa.Array[Any]:
    """Return record keys as one plain string or binary array, copied only if chunked, dictionary or view.

    Raises InputError for null or empty keys and for types that are neither string nor binary.
    """
    if pa.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    array: Any = keys
    if isinstance(keys, pa.ChunkedArray):
        array = keys.chunk(0) if keys.num_chunks == 1 else keys.cast(_wide(keys.type)).combine_chunks()
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(_wide(array.type))
    if array.null_count:
        raise InputError(f"{array.null_count} of {len(array)} record keys are null; give every row a key")
    if len(array) and not np.diff(binary_views(array)[1]).all():
        raise InputError("a record key is the empty string; give every row a key with content")
    return cast("pa.Array[Any]", array)


def _wide(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary()


class MurmurKeys:
    """Keys prepared for repeated Murmur rounds: everything that does not depend on the seed is done once.

    Keys are held longest first, so that "all keys with more than j words" is a prefix and a round is a
    short sequence of dense array operations whatever the mix of lengths. Words that a few very long keys
    alone have are taken key by key (``rest``, of the first keys held). ``order[i]`` is the place of held key
    ``i`` in the array they came from (None: unchanged). Hashes and seeds are in held order. Immutable.
    """

    __slots__ = ("_factor", "_lengths", "_rest", "_tail", "_words", "order")

    def __init__(
        self,
        lengths: UInt32Array,
        words: Sequence[UInt32Array],
        tail: UInt32Array | None,
        factor: UInt32Array | None,
        order: IndexArray | None,
        rest: Sequence[UInt32Array] = (),
    ) -> None:
        self._rest = rest
        self._lengths = lengths
        self._words = words
        self._tail = tail
        self._factor = factor
        self.order = order

    @classmethod
    def of(cls, array: pa.Array[Any]) -> MurmurKeys:
        """Prepare the keys of a string or binary array without nulls; empty keys hash like any other.

        Holds about as many bytes as the keys plus 12 to 20 a key. Raises InputError for nulls and for other
        types.
        """
        if array.null_count:
            raise InputError(f"{array.null_count} of {len(array)} keys are null; a key must have a value")
        data, offsets = binary_views(array)
        lengths = np.diff(offsets)
        if not lengths.size or lengths[0] == lengths.max() == lengths.min():
            return cls._of_one_length(
                data, int(offsets[0]), len(array), int(lengths[0]) if lengths.size else 0
            )
        order = _longest_first(lengths)
        lengths = lengths[order].astype(np.intp)
        starts = offsets[:-1][order].astype(np.intp)
        counts = np.searchsorted(-lengths, -np.arange(4, int(lengths[0]) + 1, 4), side="right")
        unaligned = np.ndarray((max(data.size - 3, 0),), "<u4", data, strides=(1,))
        shared = _shared(counts)
        rest = (
            [
                _mixed(unaligned[start + 4 * shared : start + (length & ~3) : 4].copy())
                for start, length in zip(starts.tolist(), lengths[: counts[shared]].tolist(), strict=False)
            ]
            if shared < counts.size
            else []
        )
        counts = counts[:shared]
        words = [_mixed(unaligned[starts[:count] + 4 * j]) for j, count in enumerate(counts.tolist())]
        tail, factor = _tails(data, starts + lengths, lengths & 3)
        return cls(lengths.astype(np.uint32), words, tail, factor, order, rest)

    @classmethod
    def _of_one_length(cls, data: npt.NDArray[np.uint8], start: int, count: int, length: int) -> MurmurKeys:
        lengths = np.full(count, length, np.uint32)
        strided = np.ndarray((length // 4, count), "<u4", data, start, (4, length)) if length >= 4 else ()
        few = count <= _FEW and length // 4 > _MANY_WORDS
        words = [] if few else [_mixed(row.astype(np.uint32)) for row in strided]
        rest = [_mixed(row.astype(np.uint32)) for row in np.transpose(strided)] if few else []
        if not length & 3:
            return cls(lengths, words, None, None, None, rest)
        ends = np.arange(start + length, start + (count + 1) * length, length)
        tail, factor = _tails(data, ends, np.full(count, length & 3))
        return cls(lengths, words, tail, factor, None, rest)

    def __len__(self) -> int:
        return self._lengths.size

    def slice(self, start: int, stop: int) -> MurmurKeys:
        """Return the held keys ``start`` to ``stop`` (exclusive) as views."""
        part = slice(start, stop)
        return MurmurKeys(
            self._lengths[part],
            [word[part] for word in self._words if word.size > start],
            None if self._tail is None else self._tail[part],
            None if self._factor is None else self._factor[part],
            None if self.order is None else self.order[part],
            self._rest[part],
        )

    def take(self, indices: IndexArray) -> MurmurKeys:
        """Return the held keys at ``indices``, which must ascend, as copies; ``order`` is ``indices``."""
        counts = np.searchsorted(indices, [word.size for word in self._words]).tolist()
        return MurmurKeys(
            self._lengths[indices],
            [word[indices[:count]] for word, count in zip(self._words, counts, strict=True) if count],
            None if self._tail is None else self._tail[indices],
            None if self._factor is None else self._factor[indices],
            indices,
            [self._rest[place] for place in indices[indices < len(self._rest)].tolist()],
        )

    def hash(
        self, seeds: UInt32Array, out: UInt32Array | None = None, scratch: UInt32Array | None = None
    ) -> UInt32Array:
        """Return the 32-bit hash of every held key from its own seed, as the bits of Java's int.

        ``out`` may be ``seeds`` itself (chained rounds); ``scratch`` spares an allocation. All have one
        entry a key.
        """
        hashes = np.bitwise_xor(seeds, self._lengths, out=out)
        for word in self._words:
            part = hashes[: word.size]
            np.multiply(part, _M, out=part)
            np.bitwise_xor(part, word, out=part)
        for place, rest in enumerate(self._rest):
            hashes[place] = _chained(int(hashes[place]), rest)
        if self._tail is not None and self._factor is not None:
            np.bitwise_xor(hashes, self._tail, out=hashes)
            np.multiply(hashes, self._factor, out=hashes)
        shifted = np.right_shift(hashes, _SHIFT_13, out=scratch)
        np.bitwise_xor(hashes, shifted, out=hashes)
        np.multiply(hashes, _M, out=hashes)
        np.right_shift(hashes, _SHIFT_15, out=shifted)
        np.bitwise_xor(hashes, shifted, out=hashes)
        return hashes

    def chained(self, place: int, rounds: int) -> Iterator[int]:
        """Yield the hashes of one held key, from seed 0 and then each from the last: of few keys that takes a
        tenth of ``hash``.
        """
        factor, length, value = int(_M), int(self._lengths[place]), 0
        words = [int(word[place]) for word in self._words if word.size > place]
        words += self._rest[place].tolist() if place < len(self._rest) else ()
        tail, end = (
            (0, 1)
            if self._tail is None or self._factor is None
            else (int(self._tail[place]), int(self._factor[place]))
        )
        for _ in range(rounds):
            value ^= length
            for word in words:
                value = value * factor & 0xFFFFFFFF ^ word
            value = (value ^ tail) * end & 0xFFFFFFFF
            value = (value ^ value >> 13) * factor & 0xFFFFFFFF
            value ^= value >> 15
            yield value


class HashChain:
    """Hash rounds of some prepared keys: computed when first asked for, for all of them, and kept."""

    def __init__(self, keys: MurmurKeys, seeds: UInt32Array, done: int) -> None:
        self.keys = keys
        self._hashes = [seeds]
        self._done = done
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def rounds(self) -> int:
        """Rounds that cost nothing any more."""
        return self._done + len(self._hashes) - 1

    def round(self, number: int) -> UInt32Array:
        """Return the hashes of round ``number``, counted from 0."""
        with self._lock:
            while self.rounds <= number:
                self._hashes.append(self.keys.hash(self._hashes[-1]))
            return self._hashes[number - self._done + 1]

    def take(self, indices: IndexArray, done: int) -> HashChain:
        """Return a chain of the keys at ``indices`` (ascending) that starts after the first ``done`` rounds.

        Those rounds must have been computed here.
        """
        with self._lock:
            return HashChain(self.keys.take(indices), self._hashes[done - self._done][indices], done)


class KeyHashes:
    """Record keys whose hash rounds are computed once for all filters they are checked against.

    Lazy in both directions: a block of keys is prepared, and a round computed, when a filter first needs it.
    Filters may differ in size; threads may share one. Holds 4 bytes a key and round on top of about the
    keys' own size. Raises InputError for null or empty keys and for types that are neither string nor binary.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = key_array(keys)
        self._bounds = _block_bounds(len(self._keys))
        self._chains: list[HashChain | None] = [None] * (len(self._bounds) - 1)

    def __len__(self) -> int:
        return len(self._keys)

    def blocks(self) -> Iterator[tuple[int, HashChain]]:
        """Yield (place of the first key, chain) per block; the first blocks are small, for early answers."""
        for i, start in enumerate(self._bounds[:-1]):
            chain = self._chains[i]
            if chain is None:
                keys = MurmurKeys.of(self._keys.slice(start, self._bounds[i + 1] - start))
                chain = self._chains[i] = HashChain(keys, np.zeros(len(keys), np.uint32), 0)
            yield start, chain


def murmur(keys: pa.Array[Any], seed: int = 0) -> npt.NDArray[np.int32]:
    """Return the Java int ``MurmurHash.hash(key, seed)`` of every key, in the order of ``keys``."""
    prepared = MurmurKeys.of(keys)
    hashes = prepared.hash(np.full(len(prepared), seed & 0xFFFFFFFF, np.uint32)).view(np.int32)
    if prepared.order is None:
        return hashes
    unsorted = np.empty_like(hashes)
    unsorted[prepared.order] = hashes
    return unsorted


def _longest_first(lengths: npt.NDArray[Any]) -> IndexArray:
    longest = int(lengths.max())
    # numpy's stable sort is a radix sort for 16-bit keys, ten times faster than for wider ones
    shortfall = longest - lengths
    return np.argsort(shortfall.astype(np.uint16) if longest < 1 << 16 else shortfall, kind="stable")


def _shared(counts: IndexArray) -> int:
    """How many words are taken of all keys at once; so many keys have each."""
    shared = int(np.searchsorted(-counts, -_FEW))
    return shared if counts.size - shared > _MANY_WORDS else counts.size


def _chained(value: int, words: UInt32Array) -> int:
    """One key's words, one after the other: for few keys cheaper than an array operation a word."""
    factor = int(_M)
    for word in words.tolist():
        value = value * factor & 0xFFFFFFFF ^ word
    return value


def _mixed(words: npt.NDArray[Any]) -> UInt32Array:
    """Mix the 4-byte words (in place): the half of a Murmur step that is independent of the seed."""
    np.multiply(words, _M, out=words)
    np.bitwise_xor(words, words >> _SHIFT_24, out=words)
    np.multiply(words, _M, out=words)
    return words


def _tails(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.integer[Any]], left: npt.NDArray[np.integer[Any]]
) -> tuple[UInt32Array, UInt32Array]:
    """Return what the last ``left`` (0 to 3) bytes are xored in as, and the factor after it (1 if none)."""
    signed = data.view(np.int8)
    tail = np.zeros(ends.size, np.int32)
    for back in range(1, int(left.max(initial=0)) + 1):
        byte = signed[np.maximum(ends - back, 0)].astype(np.int32) << (8 * (back - 1))
        tail ^= np.where(left >= back, byte, 0)
    return tail.view(np.uint32), np.where(left > 0, _M, np.uint32(1))


def _block_bounds(count: int) -> list[int]:
    bounds, width = [0], 64
    while bounds[-1] < count:
        bounds.append(min(count, bounds[-1] + width))
        width = min(width * 32, PART)
    return bounds


#: seeds of the splits; they differ so that a file group's keys still spread over spill parts
FILE_GROUP_SEED = 1
SPILL_SEED = 2
COMBINE_SEED = 3


def key_fractions(keys: pa.Array[Any], seed: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for every key, the same for equal keys, evenly spread over distinct ones."""
    return murmur(keys, seed).view(np.uint32).astype(np.float64) / 2.0**32
