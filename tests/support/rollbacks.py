"""Rollbacks that are run without a service."""

from __future__ import annotations

from hoodie.config.key import Config
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.write.rollback.executor import PendingRollback
from hoodie.write.transaction import Transaction


def roll_back(base: str, pending: PendingRollback) -> RollbackMetadata:
    """Run a rollback of the table at this path to its end."""
    return Transaction(Table(TableRef(base), LocalStorage()), Config.of({}), True).roll_back(pending)
