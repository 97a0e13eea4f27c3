"""`hoodie serve`: the timeline page in a browser, without Airflow."""

from __future__ import annotations

import argparse
import contextlib
import sys
from urllib.parse import urlsplit

from hoodie.cli.output import Answer
from hoodie.errors import ConfigError
from hoodie.serve.http import LOOPBACK, PageServer
from hoodie.serve.page import Page
from hoodie.serve.tables import parse_tables
from hoodie.text import plural


def serve(args: argparse.Namespace) -> Answer:
    """Serve until interrupted; where the page is stands on stderr as soon as it can be opened."""
    allowed = parse_tables(args.table)
    airflow = _airflow(args.airflow)
    with PageServer(Page(lambda: allowed, airflow), args.host, args.port, args.host_name) as server:
        print(f"hoodie: timeline of {plural(len(allowed), 'table')} at {server.url}", file=sys.stderr)
        if args.host not in LOOPBACK:
            print(f"hoodie: there is no sign-in: all that can reach {args.host} can see it", file=sys.stderr)
        sys.stderr.flush()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
        return Answer({"url": server.url, "tables": allowed}, "stopped")


def _airflow(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            f"--airflow {url!r} is no address; write such as http://localhost:8080", airflow=url
        )
    return url.rstrip("/")
