from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.services.clean_support import written
from tests.unit.write.support import Pair, Templates


@pytest.fixture
def table(tmp_path: Path, templates: Templates) -> Pair:
    """Six commits, each to all three partitions."""
    return templates.copy(tmp_path / "t", written, 6)
