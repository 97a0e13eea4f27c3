"""The S3A file system of Hadoop 3.3, which Spark 3.5 has no jars of: the jars, and its settings."""

from __future__ import annotations

from pathlib import Path

from tests.support.jars import jars_of, missing_jar
from tests.support.s3_store import KEY, REGION, SECRET


def jars() -> list[Path]:
    return jars_of("S3A")


def missing() -> str | None:
    """What keeps a session from having the file system here, or None."""
    return missing_jar("S3A")


def settings(endpoint: str) -> dict[str, str]:
    """Hadoop's, of a store that the tests have started."""
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": REGION,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.attempts.maximum": "2",
    }
