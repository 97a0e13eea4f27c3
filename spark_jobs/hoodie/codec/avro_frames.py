"""Where the records of a log data block begin and end (format.md 8.4).

The content is a chain of records, each an int32 big-endian length and as many bytes, so that a record's place
follows from the one before it. To find them without a step of Python for each, many places of the data are
searched for something that looks like a record's start, and the chains from all of them are followed side by
side. A chain must arrive exactly at the start of the next one; where one does not, a guess was wrong and the
records of this stretch are followed one after the other. The answer never depends on a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hoodie.errors import TableError

Bytes: TypeAlias = npt.NDArray[np.uint8]
Places: TypeAlias = npt.NDArray[np.int64]

HEAD = 4
#: bytes whose records are looked for at a time
SEGMENT = 16 << 20
#: records that are followed one by one first, to learn how long records are
_SAMPLE = 64
#: bytes searched for starts, over all places of a segment
_SEARCHED = 1 << 19
#: how many starts in a row must look right, and how much longer than the sample's a record may be
_ROW, _LONGER = 4, 16
#: so few chains are followed one by one
_FEW = 16

_LENGTH: Any = struct.Struct(">I").unpack_from


def segments(data: Bytes, count: int) -> Iterator[tuple[Places, Places]]:
    """Yield the places (starts, ends) in `data` of the `count` records, in order, without their lengths.

    Each pair covers about SEGMENT bytes. Raises TableError when `data` is not exactly `count` records.
    """
    if not 0 <= count <= data.size // HEAD:
        raise _damaged(f"it has {data.size} bytes, too few for {count} records")
    at = done = 0
    while done < count:
        starts, stop = _walk(_segment(data, at, done))
        if starts.size > count - done:
            stop = int(starts[count - done])
            starts = starts[: count - done]
        ends = np.append(starts[1:], stop)
        yield starts + (at + HEAD), ends + at
        done += starts.size
        at += stop
    if at != data.size:
        raise _damaged(f"{data.size - at} bytes follow its {count} records")


def _segment(data: Bytes, at: int, record: int) -> Bytes:
    """The next bytes of `data`, with one whole record at least."""
    if at + HEAD > data.size:
        raise _damaged(f"it ends before record {record}", record=record)
    length = HEAD + int(_LENGTH(data, at)[0])
    if length > data.size - at:
        raise _damaged(
            f"record {record} has {length - HEAD} bytes where {data.size - at - HEAD} are left", record=record
        )
    return data[at : at + max(SEGMENT, length)]


def _walk(data: Bytes) -> tuple[Places, int]:
    """(starts of the whole records, end of the last one)"""
    starts, stop = _follow(data, 0, _SAMPLE)
    if len(starts) < _SAMPLE:
        return np.array(starts, np.int64), stop
    longest = int(np.diff(starts).max())
    anchors = _guesses(data, longest)
    found = _follow_all(data, anchors) if anchors.size > 1 else None
    if found is None:
        every, stop = _follow(data, 0, data.size)
        return np.array(every, np.int64), stop
    return found


def _follow(data: Bytes, at: int, most: int) -> tuple[list[int], int]:
    """The chain from `at`: starts of up to `most` whole records, and the end of the last."""
    starts: list[int] = []
    size = data.size
    while len(starts) < most and at + HEAD <= size:
        stop = at + HEAD + _LENGTH(data, at)[0]
        if stop > size:
            break
        starts.append(at)
        at = stop
    return starts, at


def _guesses(data: Bytes, longest: int) -> Places:
    """0, and ascending places that seem to be starts, from windows spread evenly over the data."""
    window = 2 * longest
    lanes = min(_SEARCHED // window, (data.size - HEAD) // (2 * window), 1 << 15)
    if lanes <= _FEW:
        return np.zeros(1, np.int64)
    step = (data.size - HEAD - window) // lanes
    zeros = np.lib.stride_tricks.as_strided(data, (lanes, window), (step, 1), writeable=False) == 0
    limit = _LONGER * longest
    if limit < 1 << 16:
        zeros[:, :-1] &= zeros[:, 1:]
    lane, offset = np.divmod(np.flatnonzero(zeros), window)
    heads, place = _heads(data), lane * step + offset
    for _ in range(_ROW):
        right = np.flatnonzero(place < heads.size)
        right = right[heads[place[right]] - np.uint32(1) < np.uint32(min(limit, 1 << 31))]
        lane, place = lane[right], place[right]
        place = place + heads[place] + HEAD
    # where a chain comes to is a better guess than its begin: a wrong one soon meets a right one
    first = place[np.flatnonzero(np.diff(lane, prepend=-1))]
    return np.unique(np.append(first[first < heads.size], 0))


def _follow_all(data: Bytes, anchors: Places) -> tuple[Places, int] | None:
    """The records of the chains from all anchors; None when a chain does not arrive at the next anchor."""
    heads = _heads(data)
    at, goals, lanes = anchors[:-1], anchors[1:], np.arange(anchors.size - 1, dtype=np.uint16)
    starts, owners = [], []
    while at.size > _FEW:
        starts.append(at)
        owners.append(lanes)
        at = at + heads[at] + HEAD
        going = at < goals
        if not going.all():
            if not np.array_equal(at[~going], goals[~going]):
                return None
            at, goals, lanes = at[going], goals[going], lanes[going]
    for lane, place, goal in zip(lanes.tolist(), at.tolist(), goals.tolist(), strict=True):
        chain, arrived = _follow(data[:goal], place, goal)
        if arrived != goal:
            return None
        starts.append(np.array(chain, np.int64))
        owners.append(np.full(len(chain), lane, np.uint16))
    order = np.argsort(np.concatenate(owners), kind="stable")  # a radix sort, for 16 bits
    chain, stop = _follow(data, int(anchors[-1]), data.size)
    return np.append(np.concatenate(starts)[order], np.array(chain, np.int64)), stop


def _heads(data: Bytes) -> npt.NDArray[Any]:
    """The length that would stand at every place of `data`; at least one head long."""
    return np.ndarray((data.size - HEAD + 1,), ">u4", data, strides=(1,))


def _damaged(why: str, **values: Any) -> TableError:
    return TableError(
        f"a block of log records is damaged ({why}); restore the log file from a copy, or roll the table "
        "back to an instant before it",
        **values,
    )
