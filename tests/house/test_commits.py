"""Every instant is completed in the order of a commit: participants and hooks see all of them.

Those of the metadata table are no table's own: they are what a participant prepares.
"""

from __future__ import annotations

import ast

import pytest

from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import InstantTime
from tests.house.test_versions import named, place, sources
from tests.house.test_walls import HOODIE
from tests.support.stores import store_at

COMMIT = HOODIE / "write/commit.py"
STORE = HOODIE / "timeline/store.py"
METADATA = HOODIE / "metadata/written_table.py"
#: what makes a file of a name that is given
MAKERS = {"create", "write", "output"}
COMPLETING = {"create_instant", "create_alone"}


def test_instants_are_completed_by_the_commit_module_alone() -> None:
    """Others begin instants with `begin_instant`, which refuses completed ones."""
    found = [
        place(path, node)
        for path, tree in sources(COMMIT, STORE, METADATA, having=(*COMPLETING, "store"))
        for node in ast.walk(tree)
        if (isinstance(node, ast.alias) and node.name in COMPLETING)
        or (isinstance(node, ast.Attribute) and node.attr in COMPLETING)
        or (isinstance(node, ast.Attribute) and node.attr == "create" and named(node.value) == "store")
        or (
            isinstance(node, ast.Call)
            and named(node.func) in MAKERS
            and any(
                isinstance(item, ast.Attribute) and item.attr == "path" and named(item.value) == "store"
                for item in ast.walk(node)
            )
        )
    ]
    assert found == []


def test_a_completed_instant_is_no_beginning() -> None:
    with pytest.raises(ValueError, match=r"completed by hoodie\.write\.commit alone"):
        begin_instant(store_at("/t"), Instant(InstantTime("1"), Action.CLEAN, State.COMPLETED))
