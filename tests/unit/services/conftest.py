from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.services.clean_support import written
from tests.unit.write.support import Pair


@pytest.fixture
def table(tmp_path: Path) -> Pair:
    """Six commits, each to all three partitions."""
    return written(tmp_path / "t", 6)
