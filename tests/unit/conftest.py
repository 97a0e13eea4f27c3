"""Fixtures of several folders."""

from __future__ import annotations

import pytest

from tests.support.cli import Run, said
from tests.unit.write.support import Templates


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command: exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        return said(capsys, arguments)

    return call


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates"))
