"""Bounds on what a table's metadata may make a process hold (SECURITY.md); a table is untrusted input."""

from __future__ import annotations

import os

#: a file that is read whole (an instant, a plan, properties, markers) has at most so many bytes, and so have
#: what is compressed in it and the footer of a Parquet file; HOODIE_MAX_READ_BYTES in the environment is for
#: tables with larger metadata
MAX_READ_BYTES = int(os.environ.get("HOODIE_MAX_READ_BYTES") or 64 * 1024 * 1024)
#: the rows of one log block, and those of one list column of a row group, have at most so many bytes in
#: memory, and one page of a Parquet file a quarter; HOODIE_MAX_BLOCK_BYTES in the environment is for larger
#: ones. Writers make log blocks of at most half of it
MAX_BLOCK_BYTES = int(os.environ.get("HOODIE_MAX_BLOCK_BYTES") or 512 * 1024 * 1024)
