"""Where a benchmark's JSON and its tables go."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def write(document: Mapping[str, Any], out: Path | None) -> None:
    """Write the JSON to the file, or to stdout without one."""
    text = json.dumps(document, indent=1)
    if out:
        out.write_text(text + "\n")
    else:
        print(text)


@contextlib.contextmanager
def folder(work: Path | None, name: str, parent: str | None = None) -> Iterator[Path]:
    """`work`, which stays, or without one a temporary folder in `parent` (the system's)."""
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        yield work
        return
    made = Path(tempfile.mkdtemp(prefix=f"hoodie-{name}-", dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made)
