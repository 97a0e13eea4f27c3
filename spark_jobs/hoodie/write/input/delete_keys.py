"""Keys of a delete, and rows with equal keys.
- The rows of a delete are keys. An index of the whole table needs no partition path of them.
- Rows with one key may be in one batch, or the table may have the key already. Upserts and deletes look keys
  up; inserts do so if these settings say it.

As Apache Hudi 0.15.0 (HoodieSparkSqlWriter, HoodieMergeHandleFactory), except for the policy of 1.2.0: the
DataFrame writer of 0.15.0 has none. In a batch that is not combined, 0.15.0 and this package take the last
row against a stored one. 1.2.0 takes the one that the ordering column selects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.arrays import Bools, Coded, Column, Rows, array, coded_texts, whole
from hoodie.config.key import Config
from hoodie.errors import ConfigError, DuplicateKey, InputError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.schema import canonical
from hoodie.index import Scope, index_for
from hoodie.index.locations import NOWHERE, Positions
from hoodie.index.settings import INDEX_TYPE, RECORD_INDEXES
from hoodie.keygen import KeyGenerator, key_generator
from hoodie.keygen.settings import PARTITIONPATH_FIELD, RECORDKEY_FIELD
from hoodie.merge.commit_time import CommitTime
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.storage import Storage
from hoodie.table.properties import TableProperties
from hoodie.table.view import FileSlice
from hoodie.write.operation import Operation, WriteRequest
from hoodie.write.settings import (
    ALLOW_DUPLICATES,
    COMBINE_BEFORE_INSERT,
    COMBINE_BEFORE_UPSERT,
    DROP_DUPLICATES,
    DUPLICATE_POLICY,
    Known,
)
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


#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute


#: of a key's rows the last one stays, whatever its ordering value
LAST: Any = CommitTime(None)


@dataclass(frozen=True)
class Duplicates:
    """`combine`: the merger makes one row of a key's rows in the batch. `merge`: rows that go into a base
    file that is there are merged with its rows by key. `known`: rows whose key is stored.
    """

    combine: bool
    merge: bool
    known: Known

    @property
    def merges(self) -> bool:
        """Does the merger see rows."""
        return self.combine or self.merge

    @classmethod
    def of(cls, config: Config, operation: Operation) -> Duplicates:
        policy = _policy(config)
        if operation is Operation.UPSERT:
            return cls(config[COMBINE_BEFORE_UPSERT], True, policy)
        if operation is Operation.DELETE:
            return cls(True, True, Known.NONE)
        combine = config[COMBINE_BEFORE_INSERT]
        if not config.given(COMBINE_BEFORE_INSERT):
            combine = policy is not Known.NONE
        inserts = operation in (Operation.INSERT, Operation.BULK_INSERT)
        merge = operation is Operation.INSERT and not config[ALLOW_DUPLICATES]
        return cls(combine, merge, policy if inserts else Known.NONE)


def dropping_inserts(request: WriteRequest, config: Config) -> tuple[WriteRequest, str]:
    """An upsert that must not replace stored rows is an insert, as in Apache Hudi; with a warning, or ""."""
    if request.operation is not Operation.UPSERT or _policy(config) is not Known.DROP:
        return request, ""
    given = f"{DROP_DUPLICATES.name}=true" if config[DROP_DUPLICATES] else f"{DUPLICATE_POLICY.name}=drop"
    warning = (
        f"{given}: the upsert is an insert that leaves stored rows as they are; leave it out to update them"
    )
    return replace(request, operation=Operation.INSERT), warning


def unseen_copies(config: Config, operation: Operation, known: Known) -> tuple[str, ...]:
    """A warning of inserts into a table with an index that knows one place of a key."""
    inserts = operation in (Operation.INSERT, Operation.BULK_INSERT)
    if not inserts or known is not Known.NONE or config[INDEX_TYPE] not in RECORD_INDEXES:
        return ()
    return (
        f"the {operation.value} looks up no key, and {INDEX_TYPE.name}={config[INDEX_TYPE].value} knows the "
        "newest place of one only: a row whose key is stored already is there twice, and later writes change "
        f"one of the two; take an upsert, or {DUPLICATE_POLICY.name}={Known.DROP.value}",
    )


def _policy(config: Config) -> Known:
    policy: Known = config[DUPLICATE_POLICY]
    if not config[DROP_DUPLICATES]:
        return policy
    if config.given(DUPLICATE_POLICY) and policy is not Known.DROP:
        raise ConfigError(
            f"{DROP_DUPLICATES.name}=true contradicts {DUPLICATE_POLICY.name}={policy.value}; leave one out",
            setting=DUPLICATE_POLICY.name,
            value=policy.value,
        )
    return Known.DROP


def known_keys(
    context: SliceContext, storage: Storage, files: Sequence[FileSlice], keys: pa.Array[Any], found: Positions
) -> Bools:
    """Which of the distinct `keys` the slices show; `found` has the slice whose base file has it: a key that
    a log has deleted since is not there any more. Memory: as `read_slice`, for slices with logs.
    """
    known: Bools = found != NOWHERE
    for number, slice_ in enumerate(files):
        mine = np.flatnonzero(found == number)
        if slice_.logs and len(mine):
            mine_keys, live = keys.take(array(mine)), np.zeros(len(mine), dtype=np.bool_)
            for rows in read_slice(storage, slice_, context, [RECORD_KEY]):
                live |= np.asarray(pc.is_in(mine_keys, value_set=whole(rows.column(RECORD_KEY))))
            known[mine] = live
    return known


def check_no_known_keys(keys: pa.Array[Any], known: Bools, partition: str) -> None:
    """Raises DuplicateKey that names the first of the rows' keys that is `known`."""
    if not known.any():
        return
    key = str(keys[int(np.flatnonzero(known)[0])].as_py())
    place = f" in partition {partition!r}" if partition else ""
    raise DuplicateKey(
        f"{int(known.sum())} of {len(keys)} rows have a key that the table has already{place}, such as "
        f"{key!r}, and {DUPLICATE_POLICY.name} is {Known.FAIL.value}; nothing was written. Take the rows "
        f"out, or set the policy to {Known.DROP.value}",
        key=key,
        partition=partition,
        setting=DUPLICATE_POLICY.name,
    )
