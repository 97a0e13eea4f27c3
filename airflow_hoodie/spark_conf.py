"""Settings with secrets for spark-submit: in a file, not on its command line, which `ps` shows.

`--properties-file` replaces `conf/spark-defaults.conf`, so the file begins with what that one has, or the
user's own file. Standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_hoodie.exceptions import HoodieConfigurationError
from hoodie.mask import holds_secret

_DEFAULTS = "spark-defaults.conf"
#: what Spark hides in its UI and its event log: its own default, and names of other stores' keys
_REDACTION = (
    "spark.redaction.regex",
    "(?i)secret|password|passwd|passphrase|token|credential|(access|account|api|private)[._-]?key|azure[.]sas",
)
_FILE_OPTION = "--properties-file"


def taken_out(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command without each `--conf name=value` that holds a secret, and these."""
    rest: list[str] = []
    secrets: dict[str, str] = {}
    items = iter(command)
    for item in items:
        given = [item, next(items, "")] if item == "--conf" else [item]
        name, _, value = given[-1].partition("=")
        if len(given) > 1 and holds_secret(name, value):
            secrets[name] = value
        else:
            rest += given
    return rest, secrets


def with_properties(command: Sequence[str], path: Path) -> list[str]:
    """The command with this properties file instead of its own."""
    rest = list(command)
    if _FILE_OPTION in rest:
        at = rest.index(_FILE_OPTION)
        del rest[at : at + 2]
    return [rest[0], _FILE_OPTION, str(path), *rest[1:]]


def properties(
    command: Sequence[str], secrets: Mapping[str, str], environ: Mapping[str, str]
) -> bytes | None:
    """Content of the file: the settings that spark-submit would have read from one, then the secrets.

    None if that file is not known. Raises HoodieConfigurationError.
    """
    given = command[command.index(_FILE_OPTION) + 1] if _FILE_OPTION in command else None
    before = _file(given, command[0], environ)
    if before is None:
        return None
    return b"\n".join(
        [_line(*_REDACTION), before, b"", *(_line(name, value) for name, value in secrets.items()), b""]
    )


def settings(
    conf: Mapping[str, object], given: str | None, binary: str, environ: Mapping[str, str]
) -> dict[str, str] | None:
    """Spark's settings as spark-submit finds them: those of its properties file, then `conf`.

    `given`: the argument `properties_file`. None if the file is not known. Raises HoodieConfigurationError.
    """
    content = _file(given, binary, environ)
    if content is None:
        return None
    pairs = (
        re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1) for line in content.decode("latin-1").split("\n")
    )
    found = {pair[0]: pair[1] for pair in pairs if len(pair) > 1 and pair[0][:1] not in ("#", "!")}
    return {**found, **{name: str(value) for name, value in conf.items()}}


def _file(given: str | None, binary: str, environ: Mapping[str, str]) -> bytes | None:
    """Content of the properties file that spark-submit reads; empty where there is none.

    None if it is not known. Raises HoodieConfigurationError.
    """
    if given:
        base = Path(given)
    else:
        folder = conf_folder(binary, environ)
        if folder is None:
            return None
        base = folder / _DEFAULTS
        if not base.is_file():
            return b""
    try:
        return base.read_bytes()
    except OSError as error:
        raise HoodieConfigurationError(
            f"can't read the Spark properties file {base}: {error.strerror}; correct properties_file"
        ) from None


def conf_folder(binary: str, environ: Mapping[str, str]) -> Path | None:
    """Where spark-submit looks for spark-defaults.conf, as its scripts find it."""
    if folder := environ.get("SPARK_CONF_DIR"):
        return Path(folder)
    if home := environ.get("SPARK_HOME"):
        return Path(home, "conf")
    found = shutil.which(binary, path=environ.get("PATH"))
    home_of_it = Path(os.path.abspath(found)).parents[1] if found else None
    return home_of_it / "conf" if home_of_it is not None and (home_of_it / "jars").is_dir() else None


def _line(name: str, value: str) -> bytes:
    """A line of a Java properties file."""
    return f"{_escaped(name, ' =:#!')}={_escaped(value, ' ')}".encode("ascii")


def _escaped(text: str, marked: str) -> str:
    text = re.sub(rf"[\\{re.escape(marked)}]", lambda found: "\\" + found[0], text)
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    units = text.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in pairs)
