"""The verbs of the Spark engine, with the session to be tested (see server.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hoodie.engine.spark import SparkEngine
from tests.support.verbs import check_verbs


def answer(spark: Any, folder: str) -> dict[str, Any]:
    check_verbs(SparkEngine(spark), Path(folder))
    return {}
