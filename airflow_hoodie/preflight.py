"""Finds before Spark starts what would fail a minute later: masters that can't work or don't answer, sources
without files. Standard library only.

It also writes settings with secrets for spark-submit into a file: `ps` would show its command line.
`--properties-file` replaces `conf/spark-defaults.conf`. So the file begins with the content of that one, or
of the user's own file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_hoodie.compat.spark_provider import (
    DEFAULT_SPARK_BINARY,
    has_kubernetes,
    installed_spark_home,
)
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError, from_error
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.mask import holds_secret
from hoodie.source import Format, Source, source_files
from hoodie.storage import storage_for

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


#: all addresses of a master together are tried for so many seconds at most
_PATIENCE_S = 20.0
#: what makes another storage than this machine's the one of paths without a scheme
_DEFAULT_STORAGE = ("fs.defaultFS", "fs.default.name")
#: formats whose path is no path of files
_NO_FILES = (Format.TABLE.value, Format.SQL.value)
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_WRONG = {
    "sc": "Spark Connect has no spark-submit; name the cluster's own master, such as spark://host:7077, yarn "
    'or k8s://https://host, or run small jobs without Spark by engine="local"',
    "generic": "it is a type of connection and no master; make the connection of type spark, with the master "
    "as its host",
    "http": "it is the address of a server; a Kubernetes master is written k8s://http://host:port",
    "https": "it is the address of a server; a Kubernetes master is written k8s://https://host:port",
}


def check_master(master: str) -> None:
    """Raises HoodieConfigurationError for a Spark master that spark-submit can't have, on this machine."""
    scheme, _, rest = master.partition("://")
    if rest and scheme in _WRONG:
        raise HoodieConfigurationError(f"Spark master {master!r} can't work: {_WRONG[scheme]}")
    if rest and scheme == "k8s" and not has_kubernetes():
        raise HoodieConfigurationError(
            f"Spark master {master!r} needs a package that is not installed beside Airflow: pip install "
            "apache-airflow-providers-cncf-kubernetes"
        )


def check_reachable(master: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raises HoodieJobError (code `unreachable`) where no address of the master takes a connection.

    Of YARN Spark finds the address itself, and a master behind a proxy is not looked at.
    """
    addresses = list(_addresses(master, environ))
    failures: list[str] = []
    for host, port in addresses:
        try:
            with contextlib.closing(
                socket.create_connection((host, port), timeout=_PATIENCE_S / len(addresses))
            ):
                return
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    if failures:
        raise HoodieJobError(
            f"the Spark master {master} is unreachable from this worker ({'; '.join(failures)}); is it "
            "running, and is the address right?",
            code="unreachable",
            values={"master": master},
        )


def check_settings(request: Mapping[str, Any]) -> None:
    """Raises the exception of a table's path, or of settings, that the job would not take either."""
    try:
        storage_for(request["table"])
        Config.of(request["options"])
    except HoodieError as error:
        raise from_error(error) from error


def check_source(
    source: Mapping[str, Any],
    conf: Mapping[str, Any],
    env_vars: Mapping[str, Any],
    binary: str | None,
) -> None:
    """Raises HoodieSourceNotFoundError for a source without files, which the job's driver would not find.

    The driver runs on this machine, with `env_vars`. Paths without a scheme are its own, unless Hadoop's
    configuration says otherwise; the job looks for those of other storages.
    """
    environ = {**os.environ, **{name: str(value) for name, value in env_vars.items()}}
    if (home := installed_spark_home()) and not environ.get("SPARK_HOME"):
        environ["SPARK_HOME"] = home
    paths = [source["path"]] if isinstance(source["path"], str) else source["path"]
    if source.get("format") in _NO_FILES or not all(map(_is_known, paths)):
        return
    if not all(path.startswith("file:") for path in paths) and _elsewhere(
        conf, environ, binary or DEFAULT_SPARK_BINARY
    ):
        return
    described = {name: value for name, value in source.items() if name != "options"}  # Spark has others
    try:
        source_files(Source.of(described))
    except HoodieError as error:
        raise from_error(error) from error


def _addresses(master: str, environ: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    scheme, _, rest = master.partition("://")
    if scheme == "spark":
        for address in rest.split(","):
            host, _, port = address.rpartition(":")
            if host and port.isdigit():
                yield host.strip("[]"), int(port)
    elif scheme == "k8s" and not any(environ.get(name) for name in ("HTTPS_PROXY", "https_proxy")):
        url = urlsplit(rest if "://" in rest else f"https://{rest}")
        if url.hostname:
            yield url.hostname, url.port or (80 if url.scheme == "http" else 443)


def _is_known(path: str) -> bool:
    """Is it on this machine, and no pattern that Spark takes and Python's glob does not?"""
    here = "://" not in path or path.startswith("file:")
    return here and not any(mark in path for mark in ("{", "\\", "[^"))


def _elsewhere(conf: Mapping[str, Any], environ: Mapping[str, str], binary: str) -> bool:
    """May Hadoop's configuration name another storage for paths without a scheme?"""
    if any(environ.get(name) for name in _HADOOP):
        return True
    if any(f"spark.hadoop.{name}" in conf for name in _DEFAULT_STORAGE):
        return True
    folder = conf_folder(binary, environ)
    return folder is not None and any(
        _says(folder, name) for name in ("spark-defaults.conf", "core-site.xml")
    )


def _says(folder: Path, name: str) -> bool:
    try:
        text = (folder / name).read_text(errors="replace")
    except OSError:
        return False
    return any(item in text for item in _DEFAULT_STORAGE)
