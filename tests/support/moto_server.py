"""Moto's S3 as a process of its own, on loopback."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.support.s3_store import environment
from tests.support.server_process import await_port, free_port


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[str]:
    """The server's endpoint; its log is in the folder. Stopped at the end."""
    port = free_port()
    command = [sys.executable, "-m", "tests.support.moto_process", str(port)]
    root = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with (
        (folder / "moto.log").open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=root
        ) as server,
    ):
        try:
            await_port(server, port, 60, [folder / "moto.log"])
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(10)


@contextlib.contextmanager
def bucket_on(endpoint: str) -> Iterator[str]:
    """The URI of a new bucket, which the environment leads to inside."""
    name = f"lake-{uuid.uuid4().hex[:12]}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT"), timeout=30).close()
    with mock.patch.dict(os.environ, environment(endpoint)):
        yield f"s3://{name}"
