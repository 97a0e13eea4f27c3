"""Where an ingestion puts records that can't be written: Apache Hudi's settings of error tables.

They are an ingestion's alone, so that it takes them out of the settings of its write; any other write
refuses `hoodie.errortable.enable` (hoodie.config.unsupported). Names: HoodieErrorTableConfig of Hudi 0.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hoodie.errors import ConfigError
from hoodie.text import argument

ENABLE = "hoodie.errortable.enable"
BASE_PATH = "hoodie.errortable.base.path"
NAME = "hoodie.errortable.target.table.name"
_DEFAULT_MAX = 1000

#: name: (accepted values, why not others)
_REFUSED = {
    "hoodie.errortable.write.class": ((), "error rows are written as docs/ingest.md says"),
    "hoodie.errortable.write.failure.strategy": (
        ("rollback_commit",),
        "error rows are committed first, and where that fails, so does the run",
    ),
    "hoodie.errortable.validate.recordcreation.enable": (
        ("true",),
        "rows without a key go to the error table; leave it out",
    ),
    "hoodie.errortable.write.union.enable": (("false",), "error rows are a commit of their own"),
}


@dataclass(frozen=True, kw_only=True)
class ErrorTable:
    """`max_rows`: of one run; one with more bad rows fails."""

    path: str
    name: str
    max_rows: int = _DEFAULT_MAX


def error_table(
    options: Mapping[str, Any], path: str | None = None, max_bad_rows: int | None = None
) -> tuple[ErrorTable | None, dict[str, Any]]:
    """The error table that is named by its path, or else by the settings, and the settings without its own.

    Raises ConfigError for what can't be followed.
    """
    given = {
        name: str(value).strip() for name, value in options.items() if name.startswith("hoodie.errortable.")
    }
    enabled = given.get(ENABLE, "").lower()
    if enabled not in ("", "true", "false"):
        raise ConfigError(f"{ENABLE}={given[ENABLE]!r}: expected true or false", setting=ENABLE)
    if path is not None and (not isinstance(path, str) or not path.strip()):
        raise ConfigError(f"{argument('error_table')} is {path!r}; give the path of a table, or leave it out")
    if path is None and enabled != "true":
        if max_bad_rows is not None:
            raise ConfigError(
                f"{argument('max_bad_rows')} bounds an error table; name one with "
                f"{argument('error_table')}, or leave it out"
            )
        return None, dict(options)
    for name, (accepted, why) in _REFUSED.items():
        if given.get(name, "").lower() not in ("", *accepted):
            raise ConfigError(f"{name}={given[name]!r} is not supported: {why}", setting=name)
    place = (path or given.get(BASE_PATH, "")).strip().rstrip("/")
    if not place:
        raise ConfigError(f"{ENABLE}=true needs {BASE_PATH}, the path of the error table", setting=BASE_PATH)
    most = _DEFAULT_MAX if max_bad_rows is None else max_bad_rows
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ConfigError(
            f"{argument('max_bad_rows')} is {max_bad_rows!r}; give a whole number, 1 or more, or leave it out"
        )
    name = given.get(NAME) or place.rpartition("/")[2]
    own = {*given} & {ENABLE, BASE_PATH, NAME, *_REFUSED, "hoodie.errortable.validate.targetschema.enable"}
    rest = {key: value for key, value in options.items() if key not in own}
    return ErrorTable(path=place, name=name, max_rows=most), rest
