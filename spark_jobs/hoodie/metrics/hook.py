"""The hook that pushes the figures of a completed instant to a push gateway of Prometheus.

The figures have the names of Apache Hudi's HoodieMetrics.
"""

from __future__ import annotations

import base64
import random
import re
import time
import urllib.parse
from collections.abc import Callable, Iterable

from hoodie.config.key import Config
from hoodie.errors import ConfigError, StorageError
from hoodie.hooks import CommitEvent, HookContext, PostCommitHook
from hoodie.metrics.settings import HOST, JOB, LABELS, ON, PORT, PREFIX, PUSHGATEWAY, RANDOM, TYPE
from hoodie.post import address, post
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.commit import NO_COMMIT, CommitMetadata, RuntimeStats, WriteStat
from hoodie.timeline.instant_metadata import deleted_files

_COMPACT = "COMPACT"


def figures(event: CommitEvent) -> dict[str, int]:
    """Values by name, `commit.totalBytesWritten`. Times are milliseconds, sizes bytes."""
    action = event.instant.action.value
    found = {"duration": round(event.seconds * 1000)}
    if isinstance(event.metadata, CommitMetadata):
        if event.operation.upper() == _COMPACT:
            action = "compaction"
        found |= _written(event.metadata)
        found["commitTime"] = instant_millis(event.instant.time, event.table.properties.timeline_utc)
    else:
        found["numFilesDeleted"] = sum(map(len, deleted_files(event.metadata).values()))
    return {f"{action}.{name}": value for name, value in found.items()}


def _written(metadata: CommitMetadata) -> dict[str, int]:
    stats = list(metadata.write_stats)
    new = sum((stat.prev_commit or "").lower() == NO_COMMIT for stat in stats)
    times = [stat.runtime_stats or RuntimeStats() for stat in stats]
    return {
        "totalPartitionsWritten": len(metadata.partition_to_write_stats),
        "totalFilesInsert": new,
        "totalFilesUpdate": len(stats) - new,
        "totalRecordsWritten": metadata.num_writes,
        "totalUpdateRecordsWritten": metadata.num_updates,
        "totalInsertRecordsWritten": metadata.num_inserts,
        "totalRecordsDeleted": metadata.num_deletes,
        "totalBytesWritten": metadata.bytes_written,
        "totalScanTime": sum(each.total_scan_time for each in times),
        "totalCreateTime": sum(each.total_create_time for each in times),
        "totalUpsertTime": sum(each.total_upsert_time for each in times),
        "totalCompactedRecordsUpdated": _sum(stats, lambda stat: stat.total_updated_records_compacted),
        "totalLogFilesCompacted": _sum(stats, lambda stat: stat.total_log_files_compacted),
        "totalLogFilesSize": _sum(stats, lambda stat: stat.total_log_size_compacted),
    }


def _sum(stats: Iterable[WriteStat], value: Callable[[WriteStat], int]) -> int:
    return sum(map(value, stats))


_TIMEOUT_S = 5.0
#: seconds over it that the lookup of a host's name may take
_GRACE_S = 1.0
_HEADERS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Metrics(PostCommitHook):
    """After every instant, of writes and of services. After a failure the rest of the job pushes nothing: a
    gateway that hangs costs one time-out.
    """

    name = "the push of metrics"

    def __init__(self) -> None:
        self._ended = False
        self._suffix = random.randrange(2**63)

    def check(self, config: Config) -> None:
        if config[ON] and _pushes(config):
            _base(config)
            _labels(config)

    def wants(self, config: Config, event: CommitEvent) -> bool:
        return bool(config[ON]) and not self._ended

    def run(self, event: CommitEvent, context: HookContext) -> list[str]:
        config = context.config
        self._ended = True  # until it has succeeded
        if not _pushes(config):
            return [
                f"metrics go to a push gateway only ({TYPE.name}={PUSHGATEWAY}); {ON.name}=true has no effect"
            ]
        table = event.table.properties.name
        url = _group(config, config[JOB] or table, self._suffix if config[RANDOM] else None)
        prefix = table if config[PREFIX] is None else config[PREFIX]
        text = text_of(
            {f"{prefix}.{name}" if prefix else name: each for name, each in figures(event).items()}
        )
        try:
            status, answer = post(url, text.encode(), _HEADERS, time.monotonic() + _TIMEOUT_S)
        except TimeoutError:
            raise StorageError(
                f"the push gateway at {url.netloc} did not answer in {_TIMEOUT_S:g} s"
            ) from None
        except OSError as error:
            raise StorageError(f"the push gateway at {url.netloc} is out of reach: {error}") from error
        if status >= 300:
            raise StorageError(f"the push gateway at {url.netloc} answered {status}: {answer}")
        self._ended = False
        return []

    def timeout(self, config: Config) -> float | None:
        return _TIMEOUT_S + _GRACE_S


def text_of(values: dict[str, int]) -> str:
    """Gauges in the text format of Prometheus, with names as Apache Hudi's reporter makes them."""
    lines = []
    for name, value in values.items():
        gauge = re.sub(r"[^a-zA-Z0-9:_]", "_", name)
        gauge = f"_{gauge}" if gauge[0].isdigit() else gauge
        lines.append(f"# TYPE {gauge} gauge\n{gauge} {value}\n")
    return "".join(lines)


def _pushes(config: Config) -> bool:
    return (config[TYPE] or "").upper() == PUSHGATEWAY


def _base(config: Config) -> str:
    """The gateway's address. Raises ConfigError."""
    host, port = config[HOST] or "", config[PORT]
    base = f"{'https' if port == 443 else 'http'}://{host}:{port}"
    found = address(base)
    if found is None or found.path or found.query or found.username is not None:
        raise ConfigError(
            f"{HOST.name}={host!r} with {PORT.name}={port} is no host and port", setting=HOST.name, value=host
        )
    return base


def _group(config: Config, job: str, suffix: int | None) -> urllib.parse.SplitResult:
    """Where the metrics of a job with its labels go: a push replaces those of the same names."""
    labels = {"job": job if suffix is None else f"{job}{suffix}", **_labels(config)}
    path = "".join(f"/{_segment(name, value)}" for name, value in labels.items())
    return urllib.parse.urlsplit(f"{_base(config)}/metrics{path}")


def _segment(name: str, value: str) -> str:
    """Values with a slash, and empty ones, are written in base64."""
    if value and "/" not in value:
        return f"{name}/{urllib.parse.quote(value, safe='')}"
    return f"{name}@base64/{base64.urlsafe_b64encode(value.encode()).decode() or '='}"


def _labels(config: Config) -> dict[str, str]:
    """Raises ConfigError."""
    found = {}
    for part in filter(str.strip, (config[LABELS] or "").split(",")):
        name, colon, value = part.strip().partition(":")
        if not colon or not _LABEL.fullmatch(name) or name == "job":
            raise ConfigError(
                f"{LABELS.name}={config[LABELS]!r} has a part that is no label; give name:value,name:value",
                setting=LABELS.name,
            )
        found[name] = value
    return found
