"""File systems of Hadoop, by which Spark itself reads: what a session that lacks one is to be given."""

from __future__ import annotations

import re

from hoodie.errors import ConfigError, StorageError
from hoodie.mask import masked

_LACKS = re.compile(r"No FileSystem for scheme|Class \S*FileSystem\S* not found")
_NEEDED = {
    "s3a": (
        "org.apache.hadoop:hadoop-aws in the version of Spark's Hadoop, with its AWS SDK",
        "spark.hadoop.fs.s3a.access.key, .secret.key and .endpoint, where the environment or the machine's "
        "role does not say them",
    ),
    "gs": (
        "com.google.cloud.bigdataoss:gcs-connector (the shaded jar)",
        "spark.hadoop.fs.gs.impl=com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    ),
    "abfss": (
        "org.apache.hadoop:hadoop-azure in the version of Spark's Hadoop",
        "spark.hadoop.fs.azure.account.key.ACCOUNT.dfs.core.windows.net",
    ),
}


def lacks_file_system(error: Exception) -> bool:
    """Is it Spark's error for a path of which its session has no file system."""
    return _LACKS.search(str(error)) is not None


def unseen(path: str, error: Exception, otherwise: str) -> StorageError:
    """The error for a path whose file system is there and refuses it."""
    scheme = path.partition("://")[0]
    lines = [line.strip() for line in masked(str(error)).splitlines() if line.strip()]
    causes = [line.partition(":")[2].strip() for line in lines if line.startswith("Caused by:")]
    why = (causes[-1:] or lines or [type(error).__name__])[0]
    return StorageError(
        f"Spark can't read {path[:500]} ({why[:300]}): check the session's settings "
        f"spark.hadoop.fs.{scheme}.*, such as credentials and endpoint; or {otherwise}",
        path=path,
    )


def no_file_system(path: str, otherwise: str) -> ConfigError:
    """The error for such a path; `otherwise` is what does without."""
    scheme = path.partition("://")[0]
    jars, settings = _NEEDED.get(scheme, ("the jars of its file system", f"spark.hadoop.fs.{scheme}.impl"))
    return ConfigError(
        f"Spark's session has no file system for {scheme}://, so that it can't read {path[:500]}: start it "
        f"with {jars} (spark.jars.packages or --packages), and set {settings}; or {otherwise}",
        path=path,
        cause="no_file_system",
    )
