"""What is public and will go, and the warning that says so.

A name is public where docs/public-api.txt has it. It goes one release after the first one that warned of it,
at the earliest: `scripts/public_api.py` looks here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Deprecation:
    """`name` is a line of docs/public-api.txt, or its beginning: of a class all that it has goes, too.

    `since` is the release that warns first, `removal` the first one without it, `instead` what to write.
    """

    name: str
    since: str
    removal: str
    instead: str

    @property
    def text(self) -> str:
        return (
            f"`{self.name}` is deprecated since airflow-hoodie {self.since} and goes with {self.removal}; "
            f"use {self.instead}"
        )


#: an entry stays until the release without the name is out
DEPRECATED = (
    Deprecation("hoodie ttl", "0.1.0", "0.2.0", "`hoodie expire-partitions`"),
    Deprecation("hoodie delete-partition", "0.1.0", "0.2.0", "`hoodie delete-partitions`"),
    Deprecation("hoodie insert-overwrite --whole-table", "0.1.0", "0.2.0", "`hoodie insert-overwrite-table`"),
)


def notice(name: str, among: Sequence[Deprecation] = DEPRECATED) -> Deprecation:
    """The entry of a name; KeyError for others, which do not warn before the list has them."""
    return {each.name: each for each in among}[name]


def warn_deprecated(
    name: str,
    category: type[Warning] = DeprecationWarning,
    *,
    stacklevel: int = 2,
    among: Sequence[Deprecation] = DEPRECATED,
) -> None:
    """Warns of a name of DEPRECATED, at the caller of what calls this. Raises KeyError for other names.

    Python shows DeprecationWarning to authors of code alone. Operators give Airflow's
    AirflowProviderDeprecationWarning, and settings FutureWarning, which people see. Commands print the text.
    """
    warnings.warn(notice(name, among).text, category, stacklevel=stacklevel + 1)
