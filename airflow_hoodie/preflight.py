"""What would fail a minute after Spark was started, found before: masters that can't work or don't answer,
sources without files.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow_hoodie.compat.spark_provider import has_kubernetes
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError, from_error
from airflow_hoodie.spark_conf import conf_folder
from hoodie.errors import HoodieError
from hoodie.source import Format, Source, source_files

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


def check_source(
    source: Mapping[str, Any],
    conf: Mapping[str, Any],
    environ: Mapping[str, str],
    binary: str,
) -> None:
    """Raises HoodieSourceNotFoundError for a source without files, which the job's driver would not find.

    The driver runs on this machine. Paths without a scheme are its own, unless Hadoop's configuration says
    otherwise; the job looks for those of other storages.
    """
    paths = [source["path"]] if isinstance(source["path"], str) else source["path"]
    if source.get("format") in _NO_FILES or not all(map(_is_known, paths)):
        return
    if not all(path.startswith("file:") for path in paths) and _elsewhere(conf, environ, binary):
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
