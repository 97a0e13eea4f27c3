"""Clustering, described (services.description)."""

from __future__ import annotations

from hoodie.services.description import Service, Turn, lazily
from hoodie.services.request import RewriteRequest

SERVICE = Service(
    name="cluster",
    doc="rewrite small files into larger ones, sorted as the settings say",
    request=RewriteRequest,
    run=lazily("hoodie.services.clustering.run", "cluster"),
    text=lazily("hoodie.services.clustering.text", "clustering_text"),
    turn=Turn(
        number=40, name="clustering", entry=lazily("hoodie.services.clustering.entry", "ClusteringEntry")
    ),
    function="cluster_table",
    operator="ClusteringOperator",
)
