"""Where WebHDFS of a path's HDFS is: the settings of the call, Hadoop's configuration, or the path itself."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from xml.etree import ElementTree

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.storage import settings
from hoodie.storage.webhdfs_client import Cluster

_PORT, _SECURE_PORT = 9870, 9871
_HOST = re.compile(r"[A-Za-z0-9_.\-]{1,253}(?::\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?")
_ADDRESS = re.compile(rf"(?:https?://)?(?:{_HOST.pattern})/?")


def cluster_of(uri: str, config: Config) -> Cluster:
    """Of a normalized path. Raises ConfigError where it or a setting names no name node."""
    scheme, _, rest = uri.partition("://")
    host = rest.partition("/")[0]
    if not _HOST.fullmatch(host):
        raise ConfigError(
            f"{uri} names no name node; give {scheme}://host:port/folder, and a user by "
            f"{settings.HDFS_USER.name}",
            path=uri,
        )
    given = config[settings.HDFS_HTTP_ADDRESS]
    addresses = _given(given) if given else _found(scheme, host)
    return Cluster(
        root=f"{scheme}://{host}",
        addresses=tuple(addresses),
        user=config[settings.HDFS_USER] or os.environ.get("HADOOP_USER_NAME") or _user(),
        token=config[settings.HDFS_DELEGATION_TOKEN],
        request_ms=config[settings.REQUEST_TIMEOUT_MS],
        retry_ms=config[settings.RETRY_TIMEOUT_MS],
    )


def _given(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    for address in found:
        if not _ADDRESS.fullmatch(address):
            raise ConfigError(
                f"{settings.HDFS_HTTP_ADDRESS.name}={text!r} is no list of addresses; give host:port or "
                "https://host:port of each name node, with commas",
                setting=settings.HDFS_HTTP_ADDRESS.name,
                value=text,
            )
    return [(part if "://" in part else f"http://{part}").rstrip("/") for part in found]


def _found(scheme: str, host: str) -> list[str]:
    name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    if scheme != "hdfs" and port:
        return [f"{'https' if scheme == 'swebhdfs' else 'http'}://{host}"]
    hadoop = _hadoop()
    secure = scheme == "swebhdfs" or hadoop.get("dfs.http.policy", "").upper() == "HTTPS_ONLY"
    kind, start = ("https", "https") if secure else ("http", "http")
    key = f"dfs.namenode.{kind}-address"
    nodes = [node.strip() for node in hadoop.get(f"dfs.ha.namenodes.{host}", "").split(",") if node.strip()]
    several = [hadoop[f"{key}.{host}.{node}"] for node in nodes if f"{key}.{host}.{node}" in hadoop]
    if several:
        return [f"{start}://{address}" for address in several]
    own = hadoop.get(f"{key}.{host}") or hadoop.get(key) or ""
    return [f"{start}://{name}:{own.rpartition(':')[2] or (_SECURE_PORT if secure else _PORT)}"]


def _hadoop() -> Mapping[str, str]:
    """The properties of hdfs-site.xml; none where there is no such file.

    Raises ConfigError for one that can't be read.
    """
    home = os.environ.get("HADOOP_HOME")
    folder = os.environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else None)
    path = f"{folder}/hdfs-site.xml"
    if folder is None or not os.path.exists(path):
        return {}
    try:
        found = ElementTree.parse(path).getroot().iter("property")
        return {item.findtext("name", "").strip(): item.findtext("value", "").strip() for item in found}
    except (OSError, ElementTree.ParseError) as error:
        raise ConfigError(
            f"{path} can't be read ({error}): mend it, or set {settings.HDFS_HTTP_ADDRESS.name}", path=path
        ) from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        return str(os.getuid())
