"""`hoodie`, the command line: every job without Airflow."""

from __future__ import annotations

from hoodie.cli.command import main

__all__ = ["main"]
