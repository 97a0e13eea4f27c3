"""Source files as syntax trees, each parsed once in a process: house tests look at the same ones."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
