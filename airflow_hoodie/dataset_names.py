"""Datasets of OpenLineage, named as Spark's own lineage names them: by namespace (file, s3://bucket,
hdfs://host:port) and path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.mask import masked

#: schemes of one store -> the one that names it
SAME_STORE = {"s3a": "s3", "s3n": "s3"}

_WILDCARDS = "*?[{"


def dataset_name(path: str) -> tuple[str, str]:
    """(namespace, name) of a folder or file: absolute path or URI; without user, password and signature."""
    path = masked(path)
    scheme, separator, rest = path.partition("://")
    if path.startswith("file:") or not separator:
        return "file", "/" + path.removeprefix("file:").strip("/")
    place, _, key = rest.partition("/")
    user, at, host = place.rpartition("@")
    place = host if ":" in user else user + at + host
    return f"{SAME_STORE.get(scheme, scheme)}://{place}", key.rstrip("/") or "/"


def source_places(source: Any) -> list[str]:
    """The folders and files that a task's source names; globs are cut to the folder that holds all of them.

    A query names none that are known without running it, rows that another task returned have none.
    """
    if (places := getattr(source, "places", None)) is not None:
        return [_without_wildcards(place) for place in places]
    described: Mapping[str, Any] = source if isinstance(source, Mapping) else {"path": source}
    path = described.get("path")
    if described.get("format") == "sql" or not isinstance(path, (str, list, tuple)):
        return []
    paths = [path] if isinstance(path, str) else list(path)
    return list(dict.fromkeys(_without_wildcards(item) for item in paths if isinstance(item, str)))


def _without_wildcards(path: str) -> str:
    first = min((at for mark in _WILDCARDS if (at := path.find(mark)) >= 0), default=-1)
    return path if first < 0 else path[:first].rpartition("/")[0] or "/"
