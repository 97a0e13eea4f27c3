"""Rows of a delete: keys, of which an index of the whole table needs no partition path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Coded, Column, Rows, coded_texts
from hoodie.config.key import Config
from hoodie.errors import InputError
from hoodie.format.schema import canonical
from hoodie.index import Scope, index_for
from hoodie.keygen import KeyGenerator, key_generator
from hoodie.keygen.settings import PARTITIONPATH_FIELD, RECORDKEY_FIELD
from hoodie.table.properties import TableProperties
from hoodie.write.table_options import check_keys


@dataclass(frozen=True)
class RecordKeys(KeyGenerator):
    """Those of `keys`, without partition paths; the columns of these are not there."""

    keys: KeyGenerator
    record_key_fields: tuple[str, ...]

    @property
    def partition_fields(self) -> tuple[str, ...]:
        return ()

    @property
    def key_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path.split(".")[0] for path in self.record_key_fields))

    def record_keys(self, rows: Rows) -> Column:
        return self.keys.record_keys(rows)

    def partition_codes(self, rows: Rows) -> Coded:
        return coded_texts(np.zeros(rows.num_rows, np.int32), [""])

    def persisted(self) -> dict[str, str]:
        return {}


def keys_to_delete(
    config: Config, props: TableProperties, stored: pa.Schema | None, incoming: pa.Schema
) -> tuple[KeyGenerator, pa.Schema]:
    """The keys, and the columns that they are made of. Raises InputError for missing columns."""
    columns = _columns(config[RECORDKEY_FIELD])
    every = list(dict.fromkeys([*columns, *_columns(config[PARTITIONPATH_FIELD])]))
    missing = [name for name in every if name not in incoming.names]
    by_key = stored is not None and index_for(config).scope is Scope.TABLE
    spared = by_key and not {*missing} & {*columns} and stored is not None and {*missing} <= {*stored.names}
    if missing and not spared:
        needed = columns if by_key else every
        raise InputError(
            f"the input lacks {', '.join(missing)}; a delete needs the columns of record key"
            f"{'' if by_key else ' and partition path'}: {', '.join(needed)}",
            columns=", ".join(missing),
        )
    fields: list[Any] = [
        (stored if name in missing and stored is not None else incoming).field(name) for name in every
    ]
    rows = canonical(pa.schema(fields))
    keys = key_generator(config, rows)
    check_keys(keys, props)
    return (RecordKeys(keys, keys.record_key_fields) if missing else keys), rows


def _columns(fields: Any) -> list[str]:
    """Top-level columns of fields as they are configured: `a.b`, and `ts:timestamp` of a partition path."""
    return [field.partition(":")[0].partition(".")[0] for field in fields]
