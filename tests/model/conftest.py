"""What tests of forced interleavings get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.forcing import StoppingFiles, reset
from tests.support.storages import registered


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    """Of a table whose writers stop where a test says."""
    with registered("file", StoppingFiles):
        yield str(tmp_path / "t")
    reset()
