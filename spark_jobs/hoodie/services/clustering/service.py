"""Clustering, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Lazy, Service, Turn
from hoodie.services.request import RewriteRequest

SERVICE = Service(
    name="cluster",
    doc="rewrite small files into larger ones, sorted as the settings say",
    request=RewriteRequest,
    run=Lazy("hoodie.services.clustering.run", "cluster"),
    text=Lazy("hoodie.services.clustering.text", "clustering_text"),
    turn=Turn(
        number=40, name="clustering", entry=Lazy("hoodie.services.clustering.entry", "ClusteringEntry")
    ),
    function="cluster_table",
    operator="ClusteringOperator",
)
