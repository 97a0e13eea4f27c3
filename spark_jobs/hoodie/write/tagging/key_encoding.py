"""The two forms of a key of ComplexKeyGenerator with one field: `1`, or `id:1` with the field's name.

Apache Hudi 0.14.0, 0.14.2, 0.15.1, 1.1 and later write `id:1`; 0.14.1, 0.15.0 and 1.0 write `1` (HUDI-9666).
No property of a table has the form. So a write reads it from the oldest and the newest base file that commits
name, and from the newest log file, and continues with it. When its partitions are known, it checks a base
file of each commit that has files there.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from hoodie.config.key import Config
from hoodie.errors import TableError, TableMismatch
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.log_block import DATA_TYPES
from hoodie.format.log_data import read_data_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import BaseFileName, LogFileName
from hoodie.keygen.complex import stored_forms
from hoodie.keygen.settings import KEYGENERATOR_CLASS, NEW_ENCODING, VALIDATE_ENCODING
from hoodie.storage import Storage
from hoodie.table.properties import TableProperties, TableType
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Instant

#: rows that are compared, commits that are asked for a base file
_ROWS, _COMMITS = 100, 20
#: files that are opened at once
_OPENED = 8
_Parse: TypeAlias = Callable[[str], object]
_Forms: TypeAlias = Callable[[str, str, Config, Storage], set[bool]]
_COMPLEX = ("complexkeygenerator", "complexavrokeygenerator", "complex")


def with_key_encoding(
    config: Config, props: TableProperties | None, timeline: Timeline, storage: Storage
) -> Config:
    """The settings, with what the table's files say. Raises TableMismatch where they have both forms, or
    another one than is asked for.
    """
    field, asked = _field(config, props), config[NEW_ENCODING]
    if props is None or not field or (asked is not None and not config[VALIDATE_ENCODING]):
        return config
    found = _stored(field, config, timeline, storage, props.table_type is TableType.MERGE_ON_READ)
    if len(found) > 1:
        raise _both(props, field)
    if not found:
        return config
    (bare,) = found
    if asked is not None and asked is not bare:
        raise TableMismatch(
            f"{NEW_ENCODING.name}={str(asked).lower()}, but table {props.name!r} has keys as "
            f"{'1' if bare else f'{field}:1'!r}: a row would be there twice. Leave it out",
            table=props.name,
        )
    known = {NEW_ENCODING.name: str(bare).lower()}
    if not bare and props.keygenerator_class is None and config[KEYGENERATOR_CLASS] is None:
        known[KEYGENERATOR_CLASS.name] = "complex"
    return config.merged(known)


def check_one_form(
    config: Config, props: TableProperties, slices: Iterable[FileSlice], storage: Storage
) -> None:
    """Raises TableMismatch where keys of these slices have both forms. Opens a base file of each instant."""
    field = _field(config, props)
    if not field or not config[VALIDATE_ENCODING]:
        return
    files = {item.base.instant: item.base.path for item in slices if item.base and not item.base.skeleton}

    def forms(path: str) -> set[bool]:
        with contextlib.suppress(TableError, FileNotFoundError, LookupError):
            return _forms(path, field, config, storage)
        return set()

    with ThreadPoolExecutor(_OPENED) as pool:
        if len(set[bool]().union(*pool.map(forms, files.values()))) > 1:
            raise _both(props, field)


def _both(props: TableProperties, field: str) -> TableMismatch:
    return TableMismatch(
        f"table {props.name!r} has keys as '{field}:1' and as '1', so that it may have rows twice "
        "(HUDI-9666). Repair it with Apache Hudi, or write on in one form: set "
        f"{VALIDATE_ENCODING.name}=false and {NEW_ENCODING.name}",
        table=props.name,
    )


def _field(config: Config, props: TableProperties | None) -> str:
    """The one key field of a table whose keys may have its name, else "". Tables that say nothing of their
    key generator were made before Apache Hudi kept it.
    """
    if props is None or len(props.record_key_fields) != 1:
        return ""
    made_by = props.keygenerator_class or config[KEYGENERATOR_CLASS] or "complex"
    return props.record_key_fields[0] if made_by.rpartition(".")[2].lower() in _COMPLEX else ""


def _stored(field: str, config: Config, timeline: Timeline, storage: Storage, logs: bool) -> set[bool]:
    """Whether keys are bare values: as the oldest and the newest base file have them, with `logs` the newest
    log file too, and the oldest where nothing else says it. Empty: not known.
    """
    commits = timeline.commits()
    newest, oldest = commits[: -_COMMITS - 1 : -1], commits[:_COMMITS]

    def first(instants: list[Instant], named: _Parse, forms: _Forms) -> set[bool]:
        for path in _files(instants, timeline, storage, named):
            with contextlib.suppress(TableError, FileNotFoundError, LookupError):
                return forms(path, field, config, storage)
        return set()

    found = first(newest, BaseFileName.parse, _forms) | first(oldest, BaseFileName.parse, _forms)
    if logs:
        found |= first(newest, LogFileName.parse, _logged_forms)
        found = found or first(oldest, LogFileName.parse, _logged_forms)
    return found


def _files(instants: Iterable[Instant], timeline: Timeline, storage: Storage, named: _Parse) -> Iterator[str]:
    """One of each commit that has any with such a name."""
    for instant in instants:
        stats = timeline.commit(instant, storage).write_stats
        path = next((stat.path for stat in stats if stat.path and named(stat.file_name)), None)
        if path is not None:
            yield f"{timeline.base_path}/{path}"


def _forms(path: str, field: str, config: Config, storage: Storage) -> set[bool]:
    """Of its first rows, and of all where the bounds of its keys look like both, as a clustering of files
    of both leaves them. Raises LookupError for a file without rows, or without the key's column, as a
    bootstrap's.
    """
    with BaseFileReader(storage, path) as reader:
        columns = [RECORD_KEY, field.partition(".")[0]]
        if not {*columns} <= {*reader.schema.names}:
            raise LookupError(path)
        bounds = reader.key_bounds() or ()
        every = len({bound.startswith(f"{field}:") for bound in bounds}) > 1
        batches = reader.batches(columns, READ_BATCH_ROWS if every else _ROWS)
        some = itertools.islice(batches, None if every else 1)
        found = [stored_forms(rows, field, config) for rows in some]
    if not found:
        raise LookupError(path)
    return set[bool]().union(*found)


def _logged_forms(path: str, field: str, config: Config, storage: Storage) -> set[bool]:
    """Of the rows of a log file's first block of rows. Raises LookupError for a file without any, or without
    the key's column.
    """
    columns = [RECORD_KEY, field.partition(".")[0]]
    with LogFileReader(storage, path) as reader:
        block = next((block for block in reader.blocks() if block.type in DATA_TYPES), None)
        if block is None:
            raise LookupError(path)
        rows = read_data_block(block, reader.content(block), columns=columns)
    batches = (stored_forms(batch, field, config) for batch in rows.to_batches())
    return set[bool]().union(*batches)
