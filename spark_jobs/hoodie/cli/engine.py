"""`--engine`, `--master`, `--conf`: where a command runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from hoodie.errors import ConfigError


@contextlib.contextmanager
def session(args: argparse.Namespace) -> Iterator[Any]:
    """A Spark session, or None for the local engine. Raises ConfigError for Spark's options without Spark."""
    if args.engine == "local":
        for name, value in (("--master", args.master), ("--conf", args.conf)):
            if value:
                raise ConfigError(f"{name} is for --engine spark; add that, or leave it out", option=name)
        yield None
        return
    from hoodie.engine.session import spark_session

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", **dict(args.conf)}
    with _stdout_kept(), spark_session(args.master or "local[*]", settings) as spark:
        yield spark


@contextlib.contextmanager
def _stdout_kept() -> Iterator[None]:
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
