"""Which engine runs a job: Spark, the local engine in a process of its own on the worker, or a platform.

`auto` compares the bytes that a job has to do with, as far as a worker sees them at once, with a limit
(docs/airflow.md has the measurement behind the default).
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_hoodie.arguments import is_template
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError, from_error
from hoodie.config.functions import is_function_name
from hoodie.config.key import Config
from hoodie.errors import HoodieError, InputError, StorageError
from hoodie.source import Format, Source, source_files
from hoodie.storage import normalize
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table, TableRef

LOCAL, SPARK, AUTO = "local", "spark", "auto"
ENGINES = (LOCAL, SPARK, AUTO)
#: what the jobs import on the local engine, beside hoodie, as indexes of packages have it
NEEDED = ("fastavro", "numpy", "pyarrow")
#: settings (docs/settings.md) whose queries DuckDB answers there
_QUERIES = "hoodie.precommit.validators"
DEFAULT_MAX_SIZE = "128m"
#: of docs/settings.md; its default
MERGE_MEMORY, _MERGE_MOST = "hoodie.memory.merge.max.size", 1 << 30

#: arguments of SparkSubmitOperator that say what a job on Spark has, and mean nothing without it. Others say
#: where and how Spark runs, such as master, spark_binary, name: they do not change what a job does
_OF_SPARK = (
    "application_args",
    "archives",
    "conf",
    "driver_class_path",
    "driver_memory",
    "exclude_packages",
    "executor_cores",
    "executor_memory",
    "files",
    "jars",
    "keytab",
    "num_executors",
    "packages",
    "post_submit_commands",
    "principal",
    "properties_file",
    "proxy_user",
    "py_files",
    "repositories",
    "total_executor_cores",
)
_SIZE = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
#: commits of an operation whose size tells that of the next one, and how far back they are looked for
_LAST, _LOOK_BACK = 3, 10
#: text files that are compressed hold about so many times their bytes
_COMPRESSED, _EXPANSION = (".gz", ".bz2", ".xz", ".zst"), 8
#: exit codes of a process that the system killed, or that aborted, for lack of memory
_DIED = (-signal.SIGKILL, -signal.SIGABRT)


@dataclass(frozen=True)
class Choice:
    """The engine of a job, and why: a clause for the log and for errors."""

    engine: str
    why: str


def is_on_platform(engine: Any) -> bool:
    """Does it name a platform (airflow_hoodie.clusters.platform), if it is no mistake?"""
    return engine not in ENGINES and not (isinstance(engine, str) and is_template(engine))


def size_of(name: str, value: Any) -> int:
    """Bytes of a text such as 512m or 2g, or of a number. Raises HoodieConfigurationError."""
    found = _SIZE.fullmatch(str(value).strip())
    if found is None or isinstance(value, bool):
        raise HoodieConfigurationError(f"{name} is {value!r}; give bytes, or a text such as 512m or 2g")
    return int(found[1]) << _UNITS[found[2].lower()]


def check_no_spark_arguments(given: Mapping[str, Any]) -> None:
    """Raises HoodieConfigurationError for arguments that only a job on Spark can have."""
    wrong = [name for name in _OF_SPARK if given.get(name)]
    if wrong:
        raise HoodieConfigurationError(
            f"engine='local' starts no Spark, so {', '.join(wrong)} would have no effect; leave "
            f"{'them' if len(wrong) > 1 else 'it'} out, or use engine='spark' or 'auto'"
        )


def task_memory(memory: int) -> dict[str, str]:
    """The setting by which a local job spills before it has allocated `memory` bytes."""
    return {MERGE_MEMORY: str(min(_MERGE_MOST, memory // 4))}


def lacked_memory(error: HoodieJobError) -> bool:
    """Did a local job fail for lack of memory?"""
    return error.values.get("out_of_memory") is True or error.exit_code in _DIED


def missing_packages(options: Mapping[str, Any], transform: Any = None, statement: Any = None) -> list[str]:
    """What a local job with these settings, transform and statement needs and this machine lacks."""
    sql = statement or (transform and not is_function_name(transform))
    needed = (*NEEDED, "duckdb") if sql or options.get(_QUERIES) else NEEDED
    needed = (*needed, "sqlglot") if statement else needed
    return [name for name in needed if importlib.util.find_spec(name) is None]


def choose(
    path: str,
    operations: Collection[str],
    source: Mapping[str, Any] | None,
    max_size: int,
    options: Mapping[str, Any],
    transform: Any = None,
    statement: Any = None,
) -> Choice:
    """The engine of a job of one of these operations with these settings, for `engine="auto"`.

    Raises the exception of a source that is missing or malformed.
    """
    if missing := missing_packages(options, transform, statement):
        return Choice(SPARK, f"this worker has no {', '.join(missing)} (pip install {' '.join(missing)})")
    incoming = 0
    if source is not None:
        try:
            described = Source.of(source, options)
            if (problem := described.local_problem()) is not None:
                return Choice(SPARK, problem.message)
            incoming = sum(_sizes(described))
        except HoodieError as error:
            if isinstance(error, InputError) and not os.path.isdir(normalize(path)):
                why = f"neither the table nor its source is on this machine: {error.message}"
                return Choice(SPARK, why)
            if isinstance(error, StorageError):
                return Choice(SPARK, f"this worker can't see the source: {error.message}")
            raise from_error(error) from error
    before = _written(path, operations, options)
    what = f"{_text(incoming)} of source files" if source is not None else "no source"
    what += f", and up to {_text(before)} written by the last such commits" if before else ""
    engine = LOCAL if max(incoming, before) <= max_size else SPARK
    return Choice(engine, f"{what}; the limit is {_text(max_size)}")


def _sizes(source: Source) -> Iterator[int]:
    """Bytes of each file; of a table, of all its data files."""
    if source.format is Format.TABLE:
        source = replace(source, format=Format.PARQUET)
    for files in source_files(source).values():
        for file in files:
            packed = source.format is not Format.PARQUET and file.path.lower().endswith(_COMPRESSED)
            yield file.size * (_EXPANSION if packed else 1)


def _written(path: str, operations: Collection[str], options: Mapping[str, Any]) -> int:
    """The most that one of the last commits of these operations wrote; 0 where there are none."""
    found: list[int] = []
    try:
        timeline = Table(TableRef.of(path, Config.of(options_of(options)))).timeline
        for instant in reversed(timeline.commits()[-_LOOK_BACK:]):
            details = timeline.details(instant)
            if details is not None and details.operation.lower() in operations:
                found.append(details.counts["bytes_written"])
            if len(found) == _LAST:
                break
    except (HoodieError, OSError):
        return max(found, default=0)  # the job says what is wrong
    return max(found, default=0)


def _text(size: int) -> str:
    for unit, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << unit:
            return f"{size / (1 << unit):.1f} {name}"
    return f"{size} bytes"
