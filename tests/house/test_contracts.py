"""The project's own import contracts find what they forbid."""

from __future__ import annotations

from pathlib import Path

import pytest
from grimp import ImportGraph

from tests.house.no_circles import NoCircles, circles


def test_circles_of_imports_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "elsewhere"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "e"}}
    assert sorted(map(sorted, circles(imports))) == [["a", "b", "c"], ["d", "e"]]
    assert list(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})) == []


def test_imports_for_type_checkers_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roundabout").mkdir()
    (tmp_path / "roundabout" / "__init__.py").write_text("")
    (tmp_path / "roundabout" / "there.py").write_text("from roundabout.back import Back\n")
    (tmp_path / "roundabout" / "back.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from roundabout import there\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = {"name": "circles", "packages": ["roundabout"]}
    found = NoCircles("circles", {}, options).check(ImportGraph(), verbose=False)
    assert not found.kept
    assert found.metadata["found"] == [["roundabout.back", "roundabout.there"]]


def test_a_module_that_imports_itself_is_one() -> None:
    assert list(circles({"a": {"a"}})) == [{"a"}]
