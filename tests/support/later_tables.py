"""Tables of versions 8 and 9 that are made here, by tests that have one for every version."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hoodie.write.settings import TABLE_VERSION
from tests.support.defaults import replace_default


@contextlib.contextmanager
def new_tables_of(version: int) -> Iterator[None]:
    """Tables that are made meanwhile have this version by default."""
    default = TABLE_VERSION.default
    replace_default(TABLE_VERSION, version)
    try:
        yield
    finally:
        replace_default(TABLE_VERSION, default)
