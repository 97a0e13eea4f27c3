"""File systems without hard links, as mounts of object stores and of shares are: their answers stand in."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

from hoodie.storage import exclusive
from hoodie.storage.exclusive import Way

WAYS = tuple(Way)


def refusing(code: int) -> Any:
    def call(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


@contextlib.contextmanager
def mounted(way: Way, code: int = errno.EPERM) -> Iterator[None]:
    """Inside, this is the first way by which files can be created; forked processes are inside, too."""
    with contextlib.ExitStack() as stack:
        if way is not Way.LINK:
            stack.enter_context(mock.patch.object(os, "link", refusing(code)))
        if way is Way.LOCK:
            stack.enter_context(mock.patch.object(exclusive, "_rename_new", refusing(errno.EINVAL)))
        yield
