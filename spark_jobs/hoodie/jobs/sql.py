"""Runs a SQL statement that changes a table. Run by spark-submit; see hoodie.jobs._main."""

from __future__ import annotations

import sys

from hoodie.jobs._main import main

if __name__ == "__main__":
    sys.exit(main("sql"))
