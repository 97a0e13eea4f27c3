"""`hoodie.metadata.enable` as tests find it: most go without the metadata table that new tables have.

Tests with the marker `real_defaults` run as users do, and so do most processes that tests start.
"""

from __future__ import annotations

import pytest

from hoodie.metadata.settings import METADATA_ENABLE


def metadata_tables(made: bool) -> None:
    """Do tables without commits get a metadata table in this process, unless the settings say so."""
    object.__setattr__(METADATA_ENABLE, "default", True if made else None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures, which write tables, too."""
    metadata_tables(item.get_closest_marker("real_defaults") is not None)
