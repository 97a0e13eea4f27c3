"""How many keys the bloom filter of a file is for: as many as the settings name, or as many as it gets.

The second, `SizedFilter`, holds keys until the file is closed. Beyond HELD_BYTES of them it adds them to a
filter of the most bits, which is folded at the end: a position modulo a divisor of the bits is the position
in a filter of so many bits (format.md section 7), so that the result is the same as of a filter made so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.codec.hashing import Keys, key_array
from hoodie.config.key import Config
from hoodie.format.bloom import MAX_ENTRIES, BloomFilter, BloomSize
from hoodie.format.settings import BLOOM_ENTRIES, BLOOM_FPP, BLOOM_MAX_ENTRIES, BLOOM_TYPE, BloomType

#: entries of the smallest filter: 570 bytes at the default rate of false positives
FEWEST = 100
#: bits of the largest, whose text of 43 MiB a footer may have (config.limits); at the default rate of false
#: positives they are for 5.9 million keys
MOST_BITS = 1 << 28
#: bytes of the keys that are held until their filter is made
HELD_BYTES = 64 << 20
#: a filter for more keys than a file needs, by this factor, is not continued for its next version
_OVERSIZE = 4
#: entries whose bits say those of one
_SAMPLE = 100_000


@dataclass(frozen=True)
class FilterSettings:
    """What the filters of a write are like. `entries` None: filters are sized by their files, and DYNAMIC_V0
    filters have at most `max_entries` where these are named.
    """

    entries: int | None
    fpp: float
    type: BloomType
    max_entries: int | None

    @classmethod
    def of(cls, config: Config) -> FilterSettings:
        return cls(config[BLOOM_ENTRIES], config[BLOOM_FPP], config[BLOOM_TYPE], config[BLOOM_MAX_ENTRIES])

    def new(self) -> BloomFilter | SizedFilter:
        """An empty filter. Raises ConfigError for impossible sizes."""
        if self.entries is not None:
            return BloomFilter.create(self.entries, self.fpp, self.type, self.max_entries or MAX_ENTRIES)
        BloomSize.quick(FEWEST, self.fpp)
        return SizedFilter(self)

    def continued(
        self, known: BloomFilter, rows: int, stored: Callable[[], Iterable[Keys]]
    ) -> BloomFilter | SizedFilter | None:
        """The filter of a file, for its next version; None where a new one is to be built.

        Keys are never removed from a filter, which would grow with every new key. `rows`: the file's.
        `stored` returns its keys; it is called where the next version has more than the filter is for.
        """
        if self.entries is not None:
            if known.type is BloomType.DYNAMIC_V0 and known.rows > max(1, -(-rows // known.num_entries)):
                return None
            return known
        wanted = self.sized(rows)
        if known.rows > 1 or not min(rows, wanted) <= self.taken_by(known) <= _OVERSIZE * wanted:
            return None
        return SizedFilter(self, known, stored)

    def sized(self, keys: int) -> int:
        """The entries of a filter for so many keys, and an eighth more that later versions may add."""
        most = self.most()
        if self.max_entries is not None and self.type is BloomType.DYNAMIC_V0:
            most = min(most, self.max_entries)
        return max(1, min(max(FEWEST, keys + keys // 8), most))

    def most(self) -> int:
        """The entries of a filter of MOST_BITS."""
        return MOST_BITS * _SAMPLE // BloomSize.quick(_SAMPLE, self.fpp).m

    def taken_by(self, known: BloomFilter) -> int:
        """How many keys a filter of one row may have."""
        by_rate = known.size.entries(self.fpp)
        return min(by_rate, known.num_entries) if known.type is BloomType.DYNAMIC_V0 else by_rate

    def empty(self, entries: int, size: BloomSize) -> BloomFilter:
        """A filter of one row that never begins another."""
        return BloomFilter(self.type, size, entries, entries, 0, 1)


class SizedFilter:
    """A filter that is made of all its keys at the end, or that of the file's last version while it has room.

    Not safe for several threads.
    """

    def __init__(
        self,
        settings: FilterSettings,
        known: BloomFilter | None = None,
        stored: Callable[[], Iterable[Keys]] | None = None,
    ) -> None:
        self.type = settings.type if known is None else known.type
        self._settings = settings
        self._known = known
        self._stored = stored
        self._room: int | None = None
        self._held: list[pa.Array[Any]] = []
        self._held_bytes = self._count = 0
        self._largest: BloomFilter | None = None

    def add(self, keys: Keys) -> None:
        """Raises InputError for null or empty keys; the filter is unchanged then."""
        array = key_array(keys)
        if not len(array):
            return
        self._hold(array)
        if self._known is None:
            return
        if self._room is None:
            self._room = self._settings.taken_by(self._known) - self._known.count()
        self._room -= len(array)
        if self._room >= 0:
            self._known.add(array)
            return
        self._known, self.type = None, self._settings.type
        assert self._stored is not None
        for part in self._stored():
            self._hold(key_array(part))

    def to_string(self) -> str:
        """Return the footer text."""
        if self._known is None:
            self._known = self._made()
        return self._known.to_string()

    def _hold(self, array: pa.Array[Any]) -> None:
        self._count += len(array)
        if self._largest is not None:
            self._largest.add(array)
            return
        # of one type, and copied: slices would keep the rows that they are cut from
        self._held.append(pa.concat_arrays([array.cast(pa.large_binary())]))
        self._held_bytes += self._held[-1].nbytes
        if self._held_bytes > HELD_BYTES:
            most = self._settings.most()
            size = BloomSize(MOST_BITS, BloomSize.quick(most, self._settings.fpp).k)
            self._largest = self._filled(self._settings.empty(most, size))

    def _made(self) -> BloomFilter:
        entries = self._settings.sized(self._count)
        size = BloomSize.quick(entries, self._settings.fpp)
        if self._largest is None:
            return self._filled(self._settings.empty(entries, size))
        times = 1
        while 2 * times * size.m <= MOST_BITS:
            times *= 2
        return self._largest.folded(times)

    def _filled(self, empty: BloomFilter) -> BloomFilter:
        if self._held:
            empty.add(pa.concat_arrays(self._held))
            self._held = []
        return empty
