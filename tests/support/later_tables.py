"""Tables of versions 8 and 9 that are made here, while others are refused (see `hoodie.config.versions`)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest

from hoodie.config import versions
from hoodie.write.settings import TABLE_VERSION

LATER = (8, 9)


@contextlib.contextmanager
def writable() -> Iterator[pytest.MonkeyPatch]:
    """Tables of versions 8 and 9 are written and served."""
    with pytest.MonkeyPatch.context() as patch:
        for number in LATER:
            known = versions.VERSIONS[number]
            patch.setitem(versions.VERSIONS, number, dataclasses.replace(known, writable=True))
        yield patch


@contextlib.contextmanager
def new_tables_of(version: int) -> Iterator[None]:
    """Tables that are made meanwhile have this version by default."""
    if version not in LATER:
        yield
        return
    with writable():
        default = TABLE_VERSION.default
        object.__setattr__(TABLE_VERSION, "default", version)
        try:
            yield
        finally:
            object.__setattr__(TABLE_VERSION, "default", default)
