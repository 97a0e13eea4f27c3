"""The modules that declare settings; a new one is named here.

Settings are declared in the `settings` module of the package that uses them. These modules need the standard
library only, so that a process knows all of them before it checks the first option.
"""

from __future__ import annotations

MODULES = (
    "hoodie.storage.settings",
    "hoodie.aws.settings",
    "hoodie.format.settings",
    "hoodie.table.settings",
    "hoodie.lock.settings",
    "hoodie.concurrency.settings",
    "hoodie.index.settings",
    "hoodie.keygen.settings",
    "hoodie.merge.settings",
    "hoodie.metadata.settings",
    "hoodie.read.settings",
    "hoodie.write.settings",
    "hoodie.sync.settings",
    "hoodie.callbacks.settings",
    "hoodie.metrics.settings",
    "hoodie.services.settings",
    "hoodie.services.archive.settings",
    "hoodie.services.clean.settings",
    "hoodie.services.clustering.settings",
    "hoodie.services.compaction.settings",
    "hoodie.services.ttl.settings",
)
