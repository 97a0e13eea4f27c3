"""Bloom filters of tables that tests of the write path make without a word about them are small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hoodie.format.settings import BLOOM_ENTRIES
from tests.support.defaults import replace_default
from tests.unit.write.support import SMALL_FILTERS


@pytest.fixture(autouse=True)
def _small_filters(request: pytest.FixtureRequest) -> Iterator[None]:
    """Also of writes that leave the options to the table; not where a test runs as users do."""
    default = BLOOM_ENTRIES.default
    if request.node.get_closest_marker("real_defaults") is None:
        replace_default(BLOOM_ENTRIES, SMALL_FILTERS[BLOOM_ENTRIES.name])
    yield
    replace_default(BLOOM_ENTRIES, default)
