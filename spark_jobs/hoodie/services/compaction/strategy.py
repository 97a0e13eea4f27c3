"""Which file slices go into a compaction plan, and in which order (Apache Hudi 0.15.0's strategies)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.services.compaction.settings import (
    NUM_THRESHOLD,
    SIZE_THRESHOLD,
    STRATEGY,
    TARGET_IO,
    TARGET_PARTITIONS,
    Strategy,
)
from hoodie.timeline.models.compaction import (
    TOTAL_IO_MB,
    TOTAL_LOG_FILES_SIZE,
    CompactionOperation,
)

_MEGABYTE = 1 << 20
#: 2024/05/31, 2024-05-31, 20240531, and each with field=value parts
_DAY = re.compile(r"(\d{4})([/-]?)(\d{1,2})\2(\d{1,2})(?!\d)")


def candidates(partitions: Sequence[str], config: Config) -> list[str]:
    """The partitions that have to be listed.

    Raises ConfigError for day_based when no partition is a day; those that are none count as the oldest.
    """
    if config[STRATEGY] is not Strategy.DAY_BASED:
        return list(partitions)
    days = {partition: _day(partition) for partition in partitions}
    if partitions and not any(days.values()):
        raise ConfigError(
            f"{STRATEGY.name}={Strategy.DAY_BASED.value} needs partitions that are days, such as 2024/05/31 "
            f"or day=2024-05-31; this table has {partitions[0]!r}. Use another strategy",
            partition=partitions[0],
        )
    newest = sorted(partitions, key=lambda partition: days[partition] or date.min, reverse=True)
    return newest[: config[TARGET_PARTITIONS]]


def choose(operations: Sequence[CompactionOperation], config: Config) -> tuple[CompactionOperation, ...]:
    """The operations of a plan, out of those of all slices with logs in `candidates`."""
    strategy: Strategy = config[STRATEGY]
    chosen = list(operations)
    if strategy is Strategy.LOG_FILE_SIZE:
        threshold = config[SIZE_THRESHOLD]
        chosen = [item for item in chosen if item.metric(TOTAL_LOG_FILES_SIZE) >= threshold]
        chosen.sort(key=lambda item: -item.metric(TOTAL_LOG_FILES_SIZE))
    elif strategy is Strategy.LOG_FILE_NUM:
        chosen = [item for item in chosen if len(item.log_files) >= config[NUM_THRESHOLD]]
        chosen.sort(key=lambda item: -len(item.log_files))
    if strategy in (Strategy.UNBOUNDED, Strategy.DAY_BASED):
        return tuple(chosen)
    return _within(chosen, config[TARGET_IO])


def _within(operations: Sequence[CompactionOperation], target: int) -> tuple[CompactionOperation, ...]:
    """The first operations, up to and with the one that uses the target up."""
    left = target
    for number, item in enumerate(operations, 1):
        left -= int(item.metric(TOTAL_IO_MB))
        if left <= 0:
            return tuple(operations[:number])
    return tuple(operations)


def _day(partition: str) -> date | None:
    plain = re.sub(r"[^/]*=", "", partition)
    match = _DAY.match(plain)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[3]), int(match[4]))
    except ValueError:
        return None
