"""Settings of the storage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hoodie.config.key import Config, Key, bool_key, int_key, parse_fields, str_key
from hoodie.errors import HoodieError
from hoodie.storage import Access, normalize

FSYNC = bool_key(
    "hoodie.write.fsync",
    True,
    "Sync data files, timeline files and their folders to the disk before a commit is published, so that a "
    "power failure loses no commit and damages none. `false` leaves that to the operating system: for tables "
    "that can be made again.",
    group="storage",
)


def _folders(text: str) -> tuple[str, ...]:
    found = []
    for path in parse_fields(text):
        try:
            folder = os.path.realpath(normalize(path))
        except HoodieError as error:
            raise ValueError(error.message) from None
        if not path.startswith(("/", "file:/", "~")) or folder == "/":
            raise ValueError(f"{path!r} is no absolute path of a folder")
        found.append(folder)
    return tuple(found)


ALLOWED_FOLDERS: Key[tuple[str, ...]] = Key(
    "hoodie.storage.allowed.folders",
    (),
    "Folders outside the table, with commas, whose files a call may use as the table's own: those that a "
    "partition which is a link leads to, and those of a table that Apache Hudi bootstrapped "
    "(hoodie.bootstrap.base.path). Everyone who may write into the table decides which files below them are "
    "read and deleted. None by default: such a link, and such a table, is refused.",
    _folders,
    group="storage",
)
S3_ENDPOINT = str_key(
    "hoodie.storage.s3.endpoint",
    None,
    "Of s3:// paths: the URL of an S3-compatible store, such as http://minio:9000. AWS_ENDPOINT_URL by "
    "default, else Amazon's of the region.",
    group="storage",
)
S3_REGION = str_key(
    "hoodie.storage.s3.region",
    None,
    "The region of the bucket. AWS_REGION or AWS_DEFAULT_REGION by default, else us-east-1.",
    group="storage",
)
S3_ACCESS_KEY = str_key(
    "hoodie.storage.s3.access.key",
    None,
    "The access key; with hoodie.storage.s3.secret.key. By default AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, a web identity, the container's or the machine's role.",
    group="storage",
)
S3_SECRET_KEY = str_key(
    "hoodie.storage.s3.secret.key", None, "The secret of hoodie.storage.s3.access.key.", group="storage"
)
S3_SESSION_TOKEN = str_key(
    "hoodie.storage.s3.session.token",
    None,
    "The session token of a temporary hoodie.storage.s3.access.key.",
    group="storage",
)
GCS_SERVICE_ACCOUNT_FILE = str_key(
    "hoodie.storage.gcs.service.account.file",
    None,
    "Of gs:// paths: the file of a service account, on each machine. GOOGLE_SERVICE_ACCOUNT or "
    "GOOGLE_APPLICATION_CREDENTIALS by default, else the machine's account.",
    group="storage",
)
GCS_SERVICE_ACCOUNT_KEY = str_key(
    "hoodie.storage.gcs.service.account.key",
    None,
    "The content of such a file, in its place: it travels with the table.",
    group="storage",
)
AZURE_ACCOUNT_NAME = str_key(
    "hoodie.storage.azure.account.name",
    None,
    "Of az://container/... paths: the storage account. AZURE_STORAGE_ACCOUNT_NAME by default; a path "
    "abfss://container@account.dfs.core.windows.net/... names it itself.",
    group="storage",
)
AZURE_ACCOUNT_KEY = str_key(
    "hoodie.storage.azure.account.key",
    None,
    "The key of the storage account. By default AZURE_STORAGE_ACCOUNT_KEY, a SAS token, a client's secret "
    "or a managed identity.",
    group="storage",
)
AZURE_SAS_TOKEN = str_key(
    "hoodie.storage.azure.sas.token",
    None,
    "A shared access signature in place of the account's key.",
    group="storage",
)
AZURE_TENANT_ID = str_key(
    "hoodie.storage.azure.tenant.id",
    None,
    "The tenant of a service principal, which is used in place of the account's key; with "
    "hoodie.storage.azure.client.id and hoodie.storage.azure.client.secret.",
    group="storage",
)
AZURE_CLIENT_ID = str_key(
    "hoodie.storage.azure.client.id", None, "The service principal's id.", group="storage"
)
AZURE_CLIENT_SECRET = str_key(
    "hoodie.storage.azure.client.secret", None, "The service principal's secret.", group="storage"
)
AZURE_ENDPOINT = str_key(
    "hoodie.storage.azure.endpoint",
    None,
    "The URL of an Azure-compatible store; that of the account by default.",
    group="storage",
)
HDFS_HTTP_ADDRESS = str_key(
    "hoodie.storage.hdfs.http.address",
    None,
    "Of hdfs:// and webhdfs:// paths: where the name nodes serve WebHDFS, host:port or https://host:port, "
    "with commas if there are several. By default that of a webhdfs:// path itself; of an hdfs:// path "
    "dfs.namenode.http-address in the hdfs-site.xml of HADOOP_CONF_DIR, else port 9870 of its host.",
    group="storage",
)
HDFS_USER = str_key(
    "hoodie.storage.hdfs.user",
    None,
    "The user whose rights HDFS looks at, where it asks for no proof. HADOOP_USER_NAME by default, else the "
    "process's.",
    group="storage",
)
HDFS_DELEGATION_TOKEN = str_key(
    "hoodie.storage.hdfs.delegation.token",
    None,
    "A delegation token of an HDFS that asks for proof (Kerberos), as `hdfs fetchdt` has it.",
    group="storage",
)
REQUEST_TIMEOUT_MS = int_key(
    "hoodie.storage.request.timeout.ms",
    60_000,
    "Milliseconds that one request to an object store or to HDFS may take. Before it has answered this "
    "process once, at most 5 seconds.",
    minimum=100,
    group="storage",
)
RETRY_TIMEOUT_MS = int_key(
    "hoodie.storage.retry.timeout.ms",
    120_000,
    "Milliseconds during which a request to an object store or to HDFS is repeated that failed because it is "
    "busy (429, 503), failing (5xx) or out of reach. Before it has answered this process once, at most 8 "
    "seconds.",
    minimum=0,
    group="storage",
)


def access(config: Config) -> Access:
    """What these settings say; call it with those of a caller, before any of the table's are added."""
    return Access(config[FSYNC], config[ALLOWED_FOLDERS])


def options_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the storage among these, as texts. None is checked."""
    return {key.name: str(settings[key.name]) for key in SETTINGS if settings.get(key.name) is not None}


#: all of them: they travel with a table to where its storage is opened
SETTINGS: tuple[Key[Any], ...] = (
    FSYNC,
    ALLOWED_FOLDERS,
    S3_ENDPOINT,
    S3_REGION,
    S3_ACCESS_KEY,
    S3_SECRET_KEY,
    S3_SESSION_TOKEN,
    GCS_SERVICE_ACCOUNT_FILE,
    GCS_SERVICE_ACCOUNT_KEY,
    AZURE_ACCOUNT_NAME,
    AZURE_ACCOUNT_KEY,
    AZURE_SAS_TOKEN,
    AZURE_TENANT_ID,
    AZURE_CLIENT_ID,
    AZURE_CLIENT_SECRET,
    AZURE_ENDPOINT,
    HDFS_HTTP_ADDRESS,
    HDFS_USER,
    HDFS_DELEGATION_TOKEN,
    REQUEST_TIMEOUT_MS,
    RETRY_TIMEOUT_MS,
)
