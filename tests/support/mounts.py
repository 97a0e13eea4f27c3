"""File systems without hard links, as mounts of object stores and of shares are: their answers stand in."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

from hoodie.storage import PARTIAL_SUFFIX, exclusive
from hoodie.storage.exclusive import Way

WAYS = tuple(Way)
_MOUNTED: list[Way] = []


def way() -> Way:
    """The first way by which files can be created now."""
    return _MOUNTED[-1] if _MOUNTED else Way.LINK


def refusing(code: int) -> Any:
    def call(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


@contextlib.contextmanager
def mounted(first: Way, code: int = errno.EPERM) -> Iterator[None]:
    """Inside, this is the first way by which files can be created; forked processes are inside, too."""
    with contextlib.ExitStack() as stack:
        if first is not Way.LINK:
            real = os.link

            def link(source: str, target: str, **kwargs: Any) -> None:
                if str(source).endswith(PARTIAL_SUFFIX):  # tests copy tables by links
                    refusing(code)()
                real(source, target, **kwargs)

            stack.enter_context(mock.patch.object(os, "link", link))
        if first is Way.LOCK:
            stack.enter_context(mock.patch.object(exclusive, "_rename_new", refusing(errno.EINVAL)))
        _MOUNTED.append(first)
        stack.callback(_MOUNTED.pop)
        yield
