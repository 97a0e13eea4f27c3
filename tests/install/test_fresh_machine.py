"""Set-up, demo and tests on machines that lack things: scripts/fresh_machine, which is also a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.fresh_machine import LONG, MACHINES, NotHere
from tests.support.tiers import full_but


@pytest.mark.slow
@pytest.mark.parametrize("name", full_but({"old-python"}, [name for name in MACHINES if name not in LONG]))
def test_a_machine_that_lacks_things(name: str, tmp_path: Path) -> None:
    try:
        MACHINES[name](tmp_path, print)
    except NotHere as error:
        pytest.skip(str(error))
