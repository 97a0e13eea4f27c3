"""The project's own import contracts find what they forbid."""

from __future__ import annotations

from tests.house.no_circles import circles


def test_circles_of_imports_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "elsewhere"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "e"}}
    assert sorted(map(sorted, circles(imports))) == [["a", "b", "c"], ["d", "e"]]
    assert list(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})) == []


def test_a_module_that_imports_itself_is_one() -> None:
    assert list(circles({"a": {"a"}})) == [{"a"}]
