"""Memory of Python workers: what a task frees is used again, not given back and asked for anew.

Columns are megabytes, which allocators take from the system and soon return; the system clears every page
before its next use, a seventh of the CPU time of merging 720,000 log records. The peak is not higher for it:
Arrow and numpy share one heap.
"""

from __future__ import annotations

import ctypes
import functools

import pyarrow as pa

#: parameters of glibc's mallopt (malloc.h)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEPT = 1 << 30
#: more than this is refused by older releases
_OLD_MOST = 32 << 20


@functools.cache
def keep_freed_memory() -> bool:
    """For the process that calls it, once; False where the C library has no such settings."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mallopt(_ARENA_MAX, 1)
    mallopt(_TRIM_THRESHOLD, _KEPT)
    if not (mallopt(_MMAP_THRESHOLD, _KEPT) or mallopt(_MMAP_THRESHOLD, _OLD_MOST)):
        return False
    pa.set_memory_pool(pa.system_memory_pool())
    return True
