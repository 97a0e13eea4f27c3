"""The cluster manager of a Spark master in deploy mode cluster, and one by what Airflow keeps of it, which
may be a platform.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_hoodie.clusters import ON_PLATFORM, ClusterManager
from airflow_hoodie.clusters.kubernetes import SCHEME, Kubernetes
from airflow_hoodie.clusters.yarn import Yarn

YARN = "yarn"
#: as people read it
MASTERS = "yarn or k8s://https://host:port"


def has_cluster(master: str) -> bool:
    """Can applications of this master be watched in deploy mode cluster?"""
    return master == YARN or master.startswith(SCHEME)


def cluster_at(place: Mapping[str, str]) -> ClusterManager:
    """By its `place()`."""
    if ON_PLATFORM in place:
        from airflow_hoodie.clusters.platform import platform_at

        return platform_at(place)
    return Yarn(**place) if "address" in place else Kubernetes.at(place)
