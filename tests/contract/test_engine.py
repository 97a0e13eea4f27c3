"""The verbs of an engine; tests/spark has Spark's run of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.engine.local import LocalEngine
from tests.support.verbs import check_verbs


@pytest.mark.parametrize("parallelism", [1, 3])
def test_verbs(tmp_path: Path, parallelism: int) -> None:
    check_verbs(LocalEngine(parallelism), tmp_path)
