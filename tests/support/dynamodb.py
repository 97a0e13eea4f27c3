"""DynamoDB as moto has it, in a process of its own, and a lock in it for each test."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.moto_server import moto


@dataclass(frozen=True)
class DynamoDB:
    endpoint: str
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_lock(self, lease_ms: int = 60_000) -> dict[str, str]:
        """The settings of a lock that no other test has, in a table that they share."""
        return {
            "hoodie.write.lock.provider": "dynamodb",
            "hoodie.write.lock.dynamodb.table": "locks",
            "hoodie.write.lock.dynamodb.partition_key": f"t{next(self.numbers)}",
            "hoodie.write.lock.dynamodb.endpoint_url": self.endpoint,
            "hoodie.write.lock.dynamodb.region": "us-east-1",
            "hoodie.aws.access.key": "AKIAIOSFODNN7EXAMPLE",
            "hoodie.aws.secret.key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "hoodie.write.lock.wait_time_ms": str(lease_ms),
        }


@contextlib.contextmanager
def served() -> Iterator[DynamoDB]:
    with tempfile.TemporaryDirectory(prefix="dynamodb-") as folder, moto(Path(folder)) as endpoint:
        yield DynamoDB(endpoint)
