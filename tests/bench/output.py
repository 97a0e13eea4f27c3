"""Where a benchmark's JSON goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write(document: Mapping[str, Any], out: Path | None) -> None:
    """Write the JSON to the file, or to stdout without one."""
    text = json.dumps(document, indent=1)
    if out:
        out.write_text(text + "\n")
    else:
        print(text)
