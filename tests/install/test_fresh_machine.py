"""Set-up, demo and tests on machines that lack things: scripts/fresh_machine, which is also a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import fresh_machine
from scripts.fresh_machine import LONG, MACHINES, NotHere
from tests.support.tiers import full_but


@pytest.mark.slow
@pytest.mark.parametrize("name", full_but({"old-python"}, [name for name in MACHINES if name not in LONG]))
def test_a_machine_that_lacks_things(name: str, tmp_path: Path) -> None:
    try:
        MACHINES[name](tmp_path, print)
    except NotHere as error:
        pytest.skip(str(error))


def test_a_copy_without_git_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_machine, "ROOT", tmp_path)
    with pytest.raises(NotHere, match="no checkout of git"):
        fresh_machine.copy_checkout(tmp_path / "copy")
