"""`--engine`, `--master`, `--conf`: where a command runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager

from hoodie.backend import BACKENDS, Backend
from hoodie.errors import ConfigError

_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def session(args: argparse.Namespace) -> AbstractContextManager[Backend]:
    """The backend, whose session starts when the context is entered and ends with it.

    Raises ConfigError for options of a session where the engine has none.
    """
    kind = BACKENDS.find("--engine", args.engine)
    if kind.has_session:
        return _session(kind, args)
    for name, value in (("--master", args.master), ("--conf", args.conf)):
        if value:
            raise ConfigError(f"{name} is for --engine spark; add that, or leave it out", option=name)
    return kind.started()


@contextlib.contextmanager
def _session(kind: type[Backend], args: argparse.Namespace) -> Iterator[Backend]:
    with (
        _stdout_reserved(),
        kind.started(args.master or "local[*]", {**_QUIET, **dict(args.conf)}) as backend,
    ):
        yield backend


@contextlib.contextmanager
def _stdout_reserved() -> Iterator[None]:
    """What the JVM prints goes to stderr: stdout is for the answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
