"""A lock in a table of Amazon DynamoDB; Apache Hudi's DynamoDBBasedLockProvider.

One item of the table, whose partition key `key` is the lock's name, is there while the lock is held, as
Amazon's lock client (which Apache Hudi uses) writes it: `ownerName`, `leaseDuration` in milliseconds, and
`recordVersionNumber`, which every renewal changes. One that saw the same version for as long as the lease
lasts may replace the item: no clocks are compared.

A holder looks right before it publishes whether the item is its own.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hoodie.aws.client import Library, Service, check_keys, client, library, mask, region_around
from hoodie.aws.settings import AWS_ACCESS_KEY
from hoodie.config.key import Config
from hoodie.errors import StorageError
from hoodie.lock import Holder, Lease, LockProvider
from hoodie.lock.settings import (
    DYNAMODB_BILLING,
    DYNAMODB_CREATION_MS,
    DYNAMODB_ENDPOINT,
    DYNAMODB_KEY,
    DYNAMODB_READS,
    DYNAMODB_REGION,
    DYNAMODB_TABLE,
    DYNAMODB_WRITES,
    PROVIDER,
    WAIT_TIME_MS,
)

if TYPE_CHECKING:
    from hoodie.table.handle import Table

_PARTITION = "key"
_OWNER, _LEASE, _VERSION, _RELEASED = "ownerName", "leaseDuration", "recordVersionNumber", "isReleased"
_TABLE_NAME = "hoodie.table.name"
_CONNECT_S, _ANSWER_S = 3, 5
#: renewals while a lease lasts, as Apache Hudi has it
_RENEWALS = 3
_FREE = f"attribute_not_exists(#{_PARTITION}) OR #{_RELEASED} = :released"
_SAME = f"#{_VERSION} = :version"
_OURS = f"#{_OWNER} = :owner"


class DynamoDBLock(LockProvider):
    needed = (DYNAMODB_TABLE,)

    def __init__(self, *, table: Table, config: Config) -> None:
        super().__init__(table=table, config=config)
        check_keys(config)
        self.expires_s = config[WAIT_TIME_MS] / 1000
        self._items: _Items | None = None
        #: the version that was there, and since when it has been, by this machine's steady clock
        self._seen: tuple[str, float] | None = None

    @property
    def name(self) -> str:
        return f"{self.key} in DynamoDB {self.config[DYNAMODB_TABLE]}"

    def try_acquire(self) -> Lease | None:
        items = self._opened()
        found = items.get()
        if found is None or found.released:
            self._seen = None
            return self._made(items, None)
        if self._seen is None or self._seen[0] != found.version:
            self._seen = (found.version, time.monotonic())
        if time.monotonic() - self._seen[1] <= found.lasts_s:
            return None
        return self._made(items, found.version)

    def holder(self) -> Holder | None:
        found = self._opened().get()
        return None if found is None or found.released else Holder.of_owner(found.owner)

    def _made(self, items: _Items, version: str | None) -> Lease | None:
        holder, token = Holder.this_process(), str(uuid.uuid4())
        owner = holder.owner(token)
        return _Lease(items, holder, token, owner) if items.put(owner, version) else None

    @property
    def key(self) -> str:
        """The item's."""
        named = self.config[DYNAMODB_KEY] or self.config.text(_TABLE_NAME)
        return named or self.table.properties.name

    def _opened(self) -> _Items:
        if self._items is None:
            made = _Items(self)
            made.make_table()
            self._items = made
        return self._items


@dataclass(frozen=True, kw_only=True)
class _Item:
    owner: str
    version: str
    lasts_s: float
    released: bool


class _Items:
    """The lock's item. Requests raise StorageError."""

    def __init__(self, lock: DynamoDBLock) -> None:
        config = lock.config
        self._lock, self._config = lock, config
        self._table = str(config[DYNAMODB_TABLE])
        self._key = {_PARTITION: {"S": lock.key}}
        self._lasts_ms = config[WAIT_TIME_MS]
        self.lasts_s = self._lasts_ms / 1000
        self._library: Library = library(f"{PROVIDER.name}=dynamodb", "dynamodb")
        self._mask = mask(config)
        self._region = config[DYNAMODB_REGION] or region_around() or "us-east-1"
        service = Service(
            name="dynamodb",
            region=self._region,
            endpoint=config[DYNAMODB_ENDPOINT],
            connect_s=_CONNECT_S,
            answer_s=_ANSWER_S,
            attempts=2,
        )
        with self._requests():
            self._client = client(self._library, service, config)

    def get(self) -> _Item | None:
        with self._requests():
            found = self._client.get_item(TableName=self._table, Key=self._key, ConsistentRead=True).get(
                "Item"
            )
        if found is None:
            return None
        texts = {name: str(value.get("S") or value.get("N") or "") for name, value in found.items()}
        lasts = texts.get(_LEASE, "")
        return _Item(
            owner=texts.get(_OWNER, ""),
            version=texts.get(_VERSION, ""),
            lasts_s=int(lasts) / 1000 if lasts.isascii() and lasts.isdigit() else self.lasts_s,
            released=_RELEASED in found,
        )

    def put(self, owner: str, version: str | None) -> bool:
        """Make the item, or replace it while it has that version; was it done."""
        new = str(uuid.uuid4())
        item = {
            **self._key,
            _OWNER: {"S": owner},
            _LEASE: {"S": str(self._lasts_ms)},
            _VERSION: {"S": new},
        }
        free = version is None
        condition: dict[str, Any] = {
            "ConditionExpression": _FREE if free else _SAME,
            "ExpressionAttributeNames": _named(*((_PARTITION, _RELEASED) if free else (_VERSION,))),
            "ExpressionAttributeValues": {":released": {"S": "1"}} if free else {":version": {"S": version}},
        }
        try:
            if self._conditional("put_item", Item=item, **condition):
                return True
            found = self.get()  # the request may have been repeated because its answer was lost
            return found is not None and found.owner == owner
        except StorageError:  # it may have been made in spite of the error
            with contextlib.suppress(StorageError):
                self.delete(owner)
            raise

    def renew(self, owner: str) -> None:
        self._conditional(
            "update_item",
            Key=self._key,
            UpdateExpression=f"SET #{_LEASE} = :lease, #{_VERSION} = :new",
            ConditionExpression=_OURS,
            ExpressionAttributeNames=_named(_OWNER, _LEASE, _VERSION),
            ExpressionAttributeValues={
                ":owner": {"S": owner},
                ":lease": {"S": str(self._lasts_ms)},
                ":new": {"S": str(uuid.uuid4())},
            },
        )

    def delete(self, owner: str) -> None:
        self._conditional(
            "delete_item",
            Key=self._key,
            ConditionExpression=_OURS,
            ExpressionAttributeNames=_named(_OWNER),
            ExpressionAttributeValues={":owner": {"S": owner}},
        )

    def make_table(self) -> None:
        """The table where there is none, as Apache Hudi makes it."""
        config, table = self._config, self._table
        try:
            with self._requests(self._client.exceptions.ResourceNotFoundException):
                self._client.describe_table(TableName=table)
            return
        except self._client.exceptions.ResourceNotFoundException:
            pass
        billing = config[DYNAMODB_BILLING].value
        capacity = {
            "ReadCapacityUnits": config[DYNAMODB_READS],
            "WriteCapacityUnits": config[DYNAMODB_WRITES],
        }
        with (
            self._requests(self._client.exceptions.ResourceInUseException),
            contextlib.suppress(self._client.exceptions.ResourceInUseException),
        ):
            self._client.create_table(
                TableName=table,
                KeySchema=[{"AttributeName": _PARTITION, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": _PARTITION, "AttributeType": "S"}],
                BillingMode=billing,
                **({"ProvisionedThroughput": capacity} if billing == "PROVISIONED" else {}),
            )
        with self._requests():
            waiter = self._client.get_waiter("table_exists")
            tries = max(1, config[DYNAMODB_CREATION_MS] // 1000)
            waiter.wait(TableName=table, WaiterConfig={"Delay": 1, "MaxAttempts": tries})

    def _conditional(self, operation: str, **arguments: Any) -> bool:
        refused = self._client.exceptions.ConditionalCheckFailedException
        try:
            with self._requests(refused):
                getattr(self._client, operation)(TableName=self._table, **arguments)
        except refused:
            return False
        return True

    @contextlib.contextmanager
    def _requests(self, *known: type[Exception]) -> Iterator[None]:
        try:
            yield
        except known:
            raise
        except self._library.failures as error:
            lock, text = self._lock, self._mask.text(" ".join(str(error).split()))[:300]
            raise StorageError(
                f"the lock of {lock.table.base_path}, {lock.name}, can't be reached: {text}. Check "
                f"{DYNAMODB_REGION.name} ({self._region}), the credentials ({AWS_ACCESS_KEY.name}, the "
                "environment, or the machine's role) and that they may use the table; then run again",
                path=lock.table.base_path,
                lock=lock.name,
                transient=True,
            ) from None


class _Lease(Lease):
    def __init__(self, items: _Items, holder: Holder, token: str, owner: str) -> None:
        super().__init__(holder=holder, token=token)
        self.lasts_s = items.lasts_s
        self.renewed_s = items.lasts_s / _RENEWALS
        self._items = items
        self._owner = owner
        self._released = False

    @property
    def held(self) -> bool:
        """Also False where it can't be asked: another process may have taken the lock."""
        if self._released:
            return False
        try:
            found = self._items.get()
        except StorageError:
            return False
        return found is not None and found.owner == self._owner and not found.released

    def renew(self) -> None:
        if not self._released:
            self._items.renew(self._owner)

    def release(self) -> None:
        if not self._released:
            self._items.delete(self._owner)
        self._released = True


def _named(*names: str) -> dict[str, str]:
    return {f"#{name}": name for name in names}
