"""Defaults of settings as tests find them: most go without the metadata table that new tables have.

Tests with the marker `real_defaults` run as users do, and so do most processes that tests start. The marker
`table_version` names the version of the tables that a test makes in its process, where it says nothing else.
"""

from __future__ import annotations

from typing import Any

import pytest

from hoodie.config import versions
from hoodie.config.key import Key
from hoodie.metadata.settings import METADATA_ENABLE
from hoodie.write.settings import TABLE_VERSION


def replace_default(key: Key[Any], value: Any) -> None:
    """In this process; keys are frozen for all others."""
    object.__setattr__(key, "default", value)


def metadata_tables(made: bool) -> None:
    """Do tables without commits get a metadata table in this process, unless the settings say so."""
    replace_default(METADATA_ENABLE, True if made else None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures, which write tables, too."""
    metadata_tables(item.get_closest_marker("real_defaults") is not None)
    version = item.get_closest_marker("table_version")
    replace_default(TABLE_VERSION, version.args[0] if version else versions.DEFAULT.number)
