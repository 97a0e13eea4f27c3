"""Settings of locks; names and defaults are Apache Hudi's."""

from __future__ import annotations

import enum
from typing import Any

from hoodie.config.key import Key, enum_key, int_key, str_key
from hoodie.errors import HoodieError
from hoodie.storage import normalize


def _folder(text: str) -> str | None:
    path = text.strip()
    if not path:
        return None
    if not (path.startswith(("/", "file:/", "~")) or "://" in path):
        raise ValueError(f"{path!r} is no absolute path of a folder")
    try:
        return normalize(path)
    except HoodieError as error:
        raise ValueError(error.message) from None


PROVIDER: Key[str | None] = Key(
    "hoodie.write.lock.provider",
    None,
    "The lock that writers and services hold while they begin and while they publish: in_process, "
    "filesystem, zookeeper, storage, hivemetastore, dynamodb, their class names of Apache Hudi, or one of "
    "your own, `module:Class`, derived from hoodie.lock.LockProvider. All writers of a table name the same. "
    "None by default: writers of this package exclude one another without it.",
    str.strip,
    group="concurrency",
)
WAIT_TIME_MS = int_key(
    "hoodie.write.lock.wait_time_ms",
    60_000,
    "Milliseconds that one try to get a lock waits. The filesystem lock does not wait inside a try. The "
    "dynamodb lock of a process that does not renew it is free after this time.",
    minimum=0,
    group="concurrency",
)
RETRIES = int_key(
    "hoodie.write.lock.client.num_retries",
    50,
    "Further tries to get a lock, before the write fails with lock_timeout.",
    minimum=0,
    group="concurrency",
)
RETRY_WAIT_MS = int_key(
    "hoodie.write.lock.client.wait_time_ms_between_retry",
    5000,
    "Milliseconds between two tries to get a lock; one that gets free meanwhile is taken sooner.",
    minimum=0,
    group="concurrency",
)
FILESYSTEM_PATH: Key[str | None] = Key(
    "hoodie.write.lock.filesystem.path",
    None,
    "The folder with the file `lock` of the filesystem lock; the table's .hoodie by default.",
    _folder,
    group="concurrency",
)
FILESYSTEM_EXPIRE = int_key(
    "hoodie.write.lock.filesystem.expire",
    0,
    "Minutes after which the filesystem lock of a writer that was killed is taken over; a live writer of "
    "this package renews it before. 0: never, and the file has to be deleted by hand.",
    minimum=0,
    group="concurrency",
)
ZK_URL = str_key(
    "hoodie.write.lock.zookeeper.url",
    None,
    "Servers of the zookeeper lock, `host:port,host:port`.",
    group="concurrency",
)
ZK_PORT = int_key(
    "hoodie.write.lock.zookeeper.port",
    2181,
    "The port of those servers that are named without one.",
    minimum=1,
    group="concurrency",
)
ZK_BASE_PATH = str_key(
    "hoodie.write.lock.zookeeper.base_path",
    None,
    "The node below which the zookeeper lock is; the same for all writers of a table.",
    group="concurrency",
)
ZK_KEY = str_key(
    "hoodie.write.lock.zookeeper.lock_key",
    None,
    "The node of the zookeeper lock, below the base path; the same for all writers of a table. Apache Hudi "
    "uses the table's name where it is not set.",
    group="concurrency",
)
ZK_SESSION_MS = int_key(
    "hoodie.write.lock.zookeeper.session_timeout_ms",
    60_000,
    "Milliseconds of silence after which ZooKeeper frees the lock of a process.",
    minimum=1,
    group="concurrency",
)
ZK_CONNECT_MS = int_key(
    "hoodie.write.lock.zookeeper.connection_timeout_ms",
    12_000,
    "Milliseconds to wait for a connection to ZooKeeper. Apache Hudi waits 15 seconds by default.",
    minimum=1,
    group="concurrency",
)
STORAGE_VALID_S = int_key(
    "hoodie.write.lock.storage.validity.timeout.secs",
    300,
    "Seconds after which the storage lock of a process that does not renew it is free.",
    minimum=1,
    group="concurrency",
)
STORAGE_RENEW_S = int_key(
    "hoodie.write.lock.storage.renew.interval.secs",
    30,
    "Seconds between two renewals of the storage lock; a tenth of its validity at most.",
    minimum=1,
    group="concurrency",
)
HEARTBEAT_MS = int_key(
    "hoodie.write.lock.heartbeat_interval_ms",
    60_000,
    "Milliseconds between two renewals of the hivemetastore lock. The metastore frees the lock of a process "
    "that does not renew it for its hive.txn.timeout, 300 s by default.",
    minimum=1,
    group="concurrency",
)
HMS_URIS = str_key(
    "hoodie.write.lock.hivemetastore.uris",
    None,
    "Servers of the hivemetastore lock, `thrift://host:9083`, several with commas: the first one that "
    "answers is used.",
    group="concurrency",
)
HMS_DATABASE = str_key(
    "hoodie.write.lock.hivemetastore.database",
    None,
    "The database of the hivemetastore lock; the same for all writers of a table.",
    group="concurrency",
)
HMS_TABLE = str_key(
    "hoodie.write.lock.hivemetastore.table",
    None,
    "The table of the hivemetastore lock, which need not exist; the same for all writers of a table.",
    group="concurrency",
)
DYNAMODB_TABLE = str_key(
    "hoodie.write.lock.dynamodb.table",
    None,
    "The DynamoDB table of the dynamodb lock, whose partition key is `key`; made where it is not there.",
    group="concurrency",
)
DYNAMODB_KEY = str_key(
    "hoodie.write.lock.dynamodb.partition_key",
    None,
    "The lock's key in the DynamoDB table; the same for all writers of a table. The table's name by default.",
    group="concurrency",
)
DYNAMODB_REGION = str_key(
    "hoodie.write.lock.dynamodb.region",
    None,
    "The region of the DynamoDB table. AWS_REGION by default, else us-east-1.",
    group="concurrency",
)
DYNAMODB_ENDPOINT = str_key(
    "hoodie.write.lock.dynamodb.endpoint_url",
    None,
    "The address of DynamoDB; that of the region by default.",
    group="concurrency",
)


class BillingMode(enum.Enum):
    PAY_PER_REQUEST = "PAY_PER_REQUEST"
    PROVISIONED = "PROVISIONED"


DYNAMODB_BILLING = enum_key(
    "hoodie.write.lock.dynamodb.billing_mode",
    BillingMode.PAY_PER_REQUEST,
    "How a DynamoDB table that is made is paid for: PAY_PER_REQUEST, or PROVISIONED.",
    group="concurrency",
)
DYNAMODB_READS = int_key(
    "hoodie.write.lock.dynamodb.read_capacity",
    20,
    "Read capacity units of a DynamoDB table that is made with PROVISIONED.",
    minimum=1,
    group="concurrency",
)
DYNAMODB_WRITES = int_key(
    "hoodie.write.lock.dynamodb.write_capacity",
    10,
    "Write capacity units of a DynamoDB table that is made with PROVISIONED.",
    minimum=1,
    group="concurrency",
)
DYNAMODB_CREATION_MS = int_key(
    "hoodie.write.lock.dynamodb.table_creation_timeout",
    600_000,
    "Milliseconds to wait until a DynamoDB table that is made can be used.",
    minimum=1,
    group="concurrency",
)
#: settings of one provider each, the fourth word of whose name is its own
OF_PROVIDERS: tuple[Key[Any], ...] = (
    FILESYSTEM_PATH,
    FILESYSTEM_EXPIRE,
    ZK_URL,
    ZK_PORT,
    ZK_BASE_PATH,
    ZK_KEY,
    ZK_SESSION_MS,
    ZK_CONNECT_MS,
    STORAGE_VALID_S,
    STORAGE_RENEW_S,
    HMS_URIS,
    HMS_DATABASE,
    HMS_TABLE,
    DYNAMODB_TABLE,
    DYNAMODB_KEY,
    DYNAMODB_REGION,
    DYNAMODB_ENDPOINT,
    DYNAMODB_BILLING,
    DYNAMODB_READS,
    DYNAMODB_WRITES,
    DYNAMODB_CREATION_MS,
)
