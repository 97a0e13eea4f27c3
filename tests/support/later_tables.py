"""Tables of versions 8 and 9 that are made here, while others are refused (see `hoodie.config.versions`)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping

import pytest

from hoodie.config import versions
from hoodie.table import new_table
from hoodie.table.merge_rule import (
    DEFAULT_MERGER_STRATEGY,
    MERGE_MODE,
    MERGE_STRATEGY,
    ORDERING_FIELDS,
    PAYLOAD_CLASS,
    PAYLOADS,
    PRECOMBINE_FIELD,
    VERSION,
    MergeMode,
)

LATER = (8, 9)
_DEFAULT = MergeMode.EVENT_TIME_ORDERING
_STRATEGIES = {
    MergeMode.EVENT_TIME_ORDERING: DEFAULT_MERGER_STRATEGY,
    MergeMode.COMMIT_TIME_ORDERING: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}


@contextlib.contextmanager
def writable() -> Iterator[pytest.MonkeyPatch]:
    """Tables of versions 8 and 9 are written and served."""
    with pytest.MonkeyPatch.context() as patch:
        for number in LATER:
            known = versions.VERSIONS[number]
            patch.setitem(versions.VERSIONS, number, dataclasses.replace(known, writable=True))
        yield patch


@contextlib.contextmanager
def new_tables_of(version: int) -> Iterator[None]:
    """Tables that are made meanwhile have this version, and the merge mode of their payload class."""
    if version not in LATER:
        yield
        return
    complete = new_table.complete
    with writable() as patch:
        patch.setattr(new_table, "complete", lambda props: complete(_later(props, version)))
        yield


def _later(props: Mapping[str, str], version: int) -> dict[str, str]:
    """As Apache Hudi 1.2.0 makes tables. A metadata table has its version already."""
    if VERSION in props:
        return dict(props)
    mode = next((mode for mode, name in PAYLOADS.items() if name == props.get(PAYLOAD_CLASS)), _DEFAULT)
    older = {PRECOMBINE_FIELD, PAYLOAD_CLASS}
    texts = {name: text for name, text in props.items() if name not in older}
    texts |= {VERSION: str(version), MERGE_MODE: mode.value}
    if ordering := props.get(PRECOMBINE_FIELD):
        texts[ORDERING_FIELDS] = ordering
    if version < max(LATER):
        texts |= {PAYLOAD_CLASS: PAYLOADS[mode], MERGE_STRATEGY: _STRATEGIES[mode]}
    return texts
