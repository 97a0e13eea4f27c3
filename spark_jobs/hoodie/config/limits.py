"""Bounds on what a table's metadata may make a process hold (SECURITY.md); a table is untrusted input."""

from __future__ import annotations

import os

#: a file that is read whole (an instant, a plan, properties, markers) has at most so many bytes, and so has
#: what is compressed in it; HOODIE_MAX_READ_BYTES in the environment is for tables with larger metadata
MAX_READ_BYTES = int(os.environ.get("HOODIE_MAX_READ_BYTES") or 64 * 1024 * 1024)
