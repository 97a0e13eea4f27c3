"""The command line, run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hoodie.cli import main

Run = Callable[..., tuple[int, str, str]]


def said(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command."""
    capsys.readouterr()
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(out: str) -> dict[str, Any]:
    """What `--json` printed, which is one line."""
    assert out.count("\n") == 1
    value: dict[str, Any] = json.loads(out)
    return value
