"""Settings that Apache Hudi 0.15.0 and 1.2.0 know, from hudi_settings.tsv beside this module.

The file lists all of them, those that a Key declares here, too; `python -m scripts.hudi_settings` makes it
from Hudi's own classes. A name that no Key declares has no effect here: where ignoring its value would lose
rows, safety or what other systems get, `config.unsupported` refuses it, else it is a warning.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

_FILE = "hudi_settings.tsv"

#: families whose members can't be listed
PASS_THROUGH = (
    "hoodie.payload.",
    "hoodie.deltastreamer.",
    "hoodie.metrics.",
    "hoodie.record.merge.property.",
    "hoodie.streamer.",
)


@dataclass(frozen=True)
class HudiSetting:
    """`default` is "" where there is none; `releases` are those of both that know the name."""

    default: str
    releases: tuple[str, ...]


@cache
def hudi_settings() -> Mapping[str, HudiSetting]:
    """Every setting by name; read when it is first asked for."""
    data = pkgutil.get_data(__package__, _FILE)
    assert data is not None
    lines = (line.split("\t") for line in data.decode().splitlines())
    return {name: HudiSetting(default, tuple(releases.split(","))) for name, default, releases in lines}


def is_known(name: str) -> bool:
    return name in hudi_settings() or name.startswith(PASS_THROUGH)
