"""Fixtures of several folders."""

from __future__ import annotations

import pytest

from tests.support.cli import Run, said


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command: exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        return said(capsys, arguments)

    return call
