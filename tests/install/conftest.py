"""What the tests of installations leave behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from scripts.environment import TOOLS


@pytest.fixture(autouse=True)
def unused_builds_are_removed(request: pytest.FixtureRequest) -> Iterator[None]:
    """On CI's machine uv's cache keeps no build that nothing refers to any more.

    Where a registry sends no cache headers, each resolution unpacks pyspark's 470 MB anew, twice, beside what
    it unpacked before (https://docs.astral.sh/uv/concepts/cache/). Other machines' caches are their owners'.
    """
    yield
    uv = TOOLS / "bin" / "uv"
    costly = request.node.get_closest_marker("slow") or request.node.get_closest_marker("full")
    if costly and os.environ.get("CI") == "true" and uv.exists():
        subprocess.run([uv, "cache", "prune", "--quiet"], check=False)
