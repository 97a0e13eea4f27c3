"""Which partitions insert_overwrite replaces: those of its rows (dynamic), or named ones (static).

As Apache Hudi 0.15.0 (ProvidesHoodieConfig.deduceOverwriteConfig, SparkInsertOverwriteCommitActionExecutor),
except that its DataFrame writer looks at the mode for SQL only, and lets rows into partitions that are not
replaced. Spark's own spark.sql.sources.partitionOverwriteMode is not asked: its default is to replace all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hoodie.config.key import Config
from hoodie.errors import ConfigError, InputError
from hoodie.write.operation import Operation, WriteRequest
from hoodie.write.settings import OVERWRITE_MODE, STATIC_PARTITIONS, OverwriteMode

_SHOWN = 3


def overwriting(request: WriteRequest, config: Config) -> tuple[WriteRequest, str]:
    """The request with the operation that the mode makes of it, and a warning, or "".

    Raises ConfigError for settings that contradict each other or the operation.
    """
    mode, named = config[OVERWRITE_MODE], config[STATIC_PARTITIONS]
    if request.operation is Operation.INSERT_OVERWRITE_TABLE:
        if mode is OverwriteMode.DYNAMIC or named:
            raise _contradiction(request, mode, named)
        return request, ""
    if request.operation is not Operation.INSERT_OVERWRITE:
        return request, ""
    if mode is OverwriteMode.DYNAMIC and named:
        raise _contradiction(request, mode, named)
    if mode is not OverwriteMode.STATIC or named:
        return request, ""
    warning = (
        f"{OVERWRITE_MODE.name}=STATIC without {STATIC_PARTITIONS.name}: all partitions are replaced, as by "
        "insert_overwrite_table"
    )
    return replace(request, operation=Operation.INSERT_OVERWRITE_TABLE), warning


def refuse_outside(named: Collection[str], partitions: Collection[str]) -> None:
    """Raises InputError for `partitions` with rows that are not among those to be replaced."""
    outside = sorted(set(partitions) - set(named))
    if outside:
        shown = ", ".join(map(repr, outside[:_SHOWN])) + (", …" if len(outside) > _SHOWN else "")
        raise InputError(
            f"there are rows of partition {shown}, and only {', '.join(map(repr, named))} are to be replaced "
            f"({STATIC_PARTITIONS.name}); name these too, or take their rows out. Nothing was written",
            partition=outside[0],
            setting=STATIC_PARTITIONS.name,
        )


def _contradiction(request: WriteRequest, mode: OverwriteMode | None, named: Collection[str]) -> ConfigError:
    asked = f"{OVERWRITE_MODE.name}={mode.value}" if mode is OverwriteMode.DYNAMIC else ""
    paths = f"{STATIC_PARTITIONS.name}={','.join(named)}" if named else ""
    if request.operation is Operation.INSERT_OVERWRITE_TABLE:
        return ConfigError(
            f"{asked or paths} contradicts insert_overwrite_table, which replaces all partitions; leave it "
            "out, or call insert_overwrite",
            setting=OVERWRITE_MODE.name if asked else STATIC_PARTITIONS.name,
        )
    return ConfigError(
        f"{asked} contradicts {paths}; leave one of the two out", setting=STATIC_PARTITIONS.name
    )
