"""`hoodie serve`: the timeline page in a browser, without Airflow."""

from __future__ import annotations

import argparse
import contextlib
import sys
from urllib.parse import urlsplit

from hoodie.cli.output import Answer
from hoodie.cli.parsing import Usage
from hoodie.errors import ConfigError
from hoodie.serve.http import LOOPBACK, PageServer
from hoodie.serve.page import Page
from hoodie.serve.tables import parse_tables
from hoodie.text import plural


def serve(args: argparse.Namespace) -> Answer:
    """Serve until interrupted; where the page is stands on stderr as soon as it can be opened."""
    texts = [*map(_with_name, args.tables), *args.table]
    if not texts:
        usage = "usage: hoodie serve [NAME=]PATH ...\n"
        raise Usage("the following arguments are required: [NAME=]PATH, or --table NAME=PATH", usage)
    allowed = parse_tables(texts)
    airflow = _airflow(args.airflow)
    with PageServer(Page(lambda: allowed, airflow), args.host, args.port, args.host_name) as server:
        print(f"hoodie: timeline of {plural(len(allowed), 'table')} at {server.url}", file=sys.stderr)
        if args.host not in LOOPBACK:
            print(f"hoodie: there is no sign-in: all that can reach {args.host} can see it", file=sys.stderr)
        sys.stderr.flush()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
        return Answer({"url": server.url, "tables": allowed}, "stopped")


def _with_name(text: str) -> str:
    """`NAME=PATH` of a table that may be a path alone, which may have `=` in its folders."""
    before, equals, _ = text.partition("=")
    named = equals and "/" not in before
    return text if named else f"{text.rstrip('/').rpartition('/')[2]}={text}"


def _airflow(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            f"--airflow {url!r} is no address; write such as http://localhost:8080", airflow=url
        )
    return url.rstrip("/")
