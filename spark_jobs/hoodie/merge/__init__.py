"""Which of two rows with the same key survives: protocol, settings, registry.

A merger is a module of this folder that defines `PLUGIN`, a class with `java_class`, `aliases` and
`make(config, ordering_field, schema)`. The folder is the registry; Apache Hudi's payload class names name
the same plugins. A user's own is given as "module:Class"; the class is called with the keyword arguments
`config`, `ordering_field` and `schema` and fulfils `Merger`.

Format: spec section 1 "Payloads / merge modes"; behaviour of Apache Hudi 0.15.0's payload classes, with the
order of equal ordering values in a batch fixed: the later row wins.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.merge.settings import MERGE_MODE, PAYLOAD_CLASS, PRECOMBINE_FIELD, MergeMode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Column: TypeAlias = pa.Array[Any] | pa.ChunkedArray[Any]

DELETED_COLUMN = "_hoodie_is_deleted"


_MODE_NAMES = {MergeMode.EVENT_TIME_ORDERING: "event_time", MergeMode.COMMIT_TIME_ORDERING: "commit_time"}


@dataclass(frozen=True)
class Outcome:
    """Decision for n aligned pairs of a stored and an incoming row.

    take[i]: the incoming row (or row i of `rows`) replaces the stored one; otherwise the stored row stays as
    it is, with its commit time. delete[i]: the record disappears; implies take[i]. rows: the merged rows of
    all n pairs, in the incoming rows' schema, or None when a row is taken whole.
    """

    take: npt.NDArray[np.bool_]
    delete: npt.NDArray[np.bool_]
    rows: pa.Table | None = None


class Merger(Protocol):
    """Pure and picklable; built once on the driver, used on executors.

    A merger may have more, which the ones here all have:
    `check(rows: pa.Table) -> None` sees all rows that will be combined before anything is written, and
    raises InputError for rows that can't be.
    `combine_columns(schema) -> tuple[str, ...] | None` names the top-level columns that `combine` looks at,
    as `columns` does for `merge`; without it: all.
    `fold(earlier: pa.Table, later: pa.Table) -> pa.Table` makes one row of each of n aligned pairs of rows of
    a log; it is there where that is not what `combine` makes of all rows of a key at once. Of a later row
    that is `deleted` it keeps nothing earlier, no ordering value either.
    `delete_ordering` is the column by which a logged delete is compared with rows, None: it always wins.
    `keeps_newer` is false where an incoming row may replace a stored one that is newer by its ordering value,
    so that batches must be written in their order; without it: true.
    `ignores_stored` is true where `merge` takes every incoming row whole.
    `outlives(rows: pa.Table, ordering: Column) -> bools` is asked about n aligned pairs of a row in a log and
    a later delete of its key, which has an ordering value or null: which rows stay? Without it: none.
    """

    java_class: str

    def columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """Top-level columns that `merge` looks at, of both sides; None: all of them."""

    def combine(self, rows: pa.Table, keys: Column | Sequence[Column]) -> pa.Table:
        """One row per key, in arrival order of the surviving rows.

        `keys` is aligned with the rows: one array, or several that together are the key (record key,
        partition path). Raises InputError for a null ordering value.
        """

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        """n aligned pairs: row i of both has the same key. At least `columns` are there."""

    def deleted(self, rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which incoming rows are deletes."""


def merger(config: Config, ordering_field: str | None, schema: pa.Schema) -> Merger:
    """The configured merger, checked against the columns of the incoming rows.

    Raises ConfigError for settings that don't fit each other or an ordering column of no order, InputError
    for an ordering column that isn't there.
    """
    name, mode = config[PAYLOAD_CLASS], config[MERGE_MODE]
    if mode is MergeMode.CUSTOM and not name:
        raise ConfigError(
            f"{MERGE_MODE.name}=CUSTOM needs {PAYLOAD_CLASS.name}.", setting=MERGE_MODE.name, value=mode.value
        )
    if mode is MergeMode.EVENT_TIME_ORDERING and not ordering_field:
        raise ConfigError(
            f"{MERGE_MODE.name}={mode.value} needs {PRECOMBINE_FIELD.name}.",
            setting=MERGE_MODE.name,
            value=mode.value,
        )
    by_mode = _MODE_NAMES.get(mode) if mode else None
    by_mode = by_mode or (None if name else "event_time" if ordering_field else "commit_time")
    if name and ":" in name:
        if by_mode:
            raise ConfigError(_contradiction(str(mode and mode.value), name), value=name)
        return _own(name, config, ordering_field, schema)
    plugins = registry()
    if name and name.lower() not in plugins:
        known = ", ".join(sorted({plugin.java_class for plugin in plugins.values()}))
        raise ConfigError(
            f"{PAYLOAD_CLASS.name}={name!r} is no payload known here; use one of {known}, or your own Python "
            "class as module:Class.",
            setting=PAYLOAD_CLASS.name,
            value=name,
        )
    plugin = plugins[(name or by_mode or "").lower()]
    if by_mode and plugin is not plugins[by_mode]:
        raise ConfigError(_contradiction(str(mode and mode.value), str(name)), value=name)
    made: Merger = plugin.make(config, ordering_field, schema)
    return made


@lru_cache(maxsize=1)
def registry() -> dict[str, Any]:
    """Every plugin class of this folder by lower-case name: Java classes and short names."""
    plugins: dict[str, Any] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_") and info.name != "settings":
            plugin = importlib.import_module(f"{__name__}.{info.name}").PLUGIN
            plugins.update({name.lower(): plugin for name in (plugin.java_class, *plugin.aliases)})
    return plugins


def _own(name: str, config: Config, ordering_field: str | None, schema: pa.Schema) -> Merger:
    module, _, attribute = name.partition(":")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{PAYLOAD_CLASS.name}={name!r} can't be imported ({error}); ship its module to driver and "
            "executors (--py-files).",
            setting=PAYLOAD_CLASS.name,
            value=name,
        ) from error
    made: Merger = cls(config=config, ordering_field=ordering_field, schema=schema)
    lacking = [
        part for part in ("java_class", "columns", "combine", "merge", "deleted") if not hasattr(made, part)
    ]
    if lacking:
        raise ConfigError(
            f"{PAYLOAD_CLASS.name}={name!r} is no merger: it lacks {', '.join(lacking)}; "
            "see hoodie.merge.Merger.",
            setting=PAYLOAD_CLASS.name,
            value=name,
        )
    return made


def _contradiction(mode: str, name: str) -> str:
    return f"{MERGE_MODE.name}={mode} contradicts {PAYLOAD_CLASS.name}={name!r}; give one of the two."
