"""Apache Hudi tables without a Hudi jar: write path and table services in Python, on Spark or Arrow.

`Table` is a table; the functions do the same for a path.

Importing this package imports neither pyspark nor pyarrow; the functions below do when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoodie import errors
    from hoodie.api import (
        delete_partitions,
        explain,
        explain_read,
        file_groups,
        ingest,
        instants,
        read_batches,
        read_table,
        sql,
        write_table,
    )
    from hoodie.service_api import (
        archive_table,
        cancel_plan,
        clean_table,
        cluster_table,
        compact_table,
        delete_savepoint,
        downgrade_table,
        expire_partitions,
        index_table,
        log_compact_table,
        plan_services,
        resend_callbacks,
        restore_table,
        rollback_table,
        run_services,
        savepoint_table,
        sync_table,
        upgrade_table,
    )
    from hoodie.table_api.table import Table
    from hoodie.write.operation import Operation, WriteResult

    __version__: str

__all__ = [
    "Operation",
    "Table",
    "WriteResult",
    "__version__",
    "archive_table",
    "cancel_plan",
    "clean_table",
    "cluster_table",
    "compact_table",
    "delete_partitions",
    "delete_savepoint",
    "downgrade_table",
    "errors",
    "expire_partitions",
    "explain",
    "explain_read",
    "file_groups",
    "index_table",
    "ingest",
    "instants",
    "log_compact_table",
    "plan_services",
    "read_batches",
    "read_table",
    "resend_callbacks",
    "restore_table",
    "rollback_table",
    "run_services",
    "savepoint_table",
    "sql",
    "sync_table",
    "upgrade_table",
    "write_table",
]


if not TYPE_CHECKING:  # type checkers know the names by the imports above, and refuse others

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                return version("airflow-hoodie")
            except PackageNotFoundError:  # a checkout on PYTHONPATH
                return "0+unknown"
        if name == "errors":
            return import_module("hoodie.errors")
        if name == "Table":
            from hoodie.table_api.table import Table

            return Table
        if name in ("Operation", "WriteResult"):
            from hoodie.write import operation

            return getattr(operation, name)
        if name in __all__:
            from hoodie import api

            if hasattr(api, name):
                return getattr(api, name)
            from hoodie import service_api

            return getattr(service_api, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    dunders = (name for name in globals() if name.startswith("__"))
    return sorted({*dunders, *__all__})
