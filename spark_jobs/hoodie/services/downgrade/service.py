"""The description of a downgrade of the table version (services.registry)."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.errors import ConfigError
from hoodie.services.registry import Lazy, Service
from hoodie.services.upgrade.service import VERSIONS, VersionRequest


@dataclass(frozen=True, kw_only=True)
class DowngradeRequest(VersionRequest):
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to == VERSIONS[-1]:
            raise ConfigError(
                f"no table is downgraded to version {self.to}; give one of {', '.join(VERSIONS[:-1])}"
            )


SERVICE = Service(
    name="downgrade",
    doc="change the table version to an earlier one",
    request=DowngradeRequest,
    run=Lazy("hoodie.services.upgrade.run", "downgrade"),
    text=Lazy("hoodie.services.upgrade.service", "version_text"),
    function="downgrade_table",
    operator="DowngradeOperator",
)
