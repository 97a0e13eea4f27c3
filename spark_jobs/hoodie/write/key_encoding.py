"""Keys of one field by ComplexKeyGenerator: the value, or the field's name and the value.

Apache Hudi 0.14.0, 0.14.2, 0.15.1, 1.1 and later write `id:1`; 0.14.1, 0.15.0 and 1.0 write `1` (HUDI-9666).
No property says which. The oldest and the newest base file that commits name are looked at, and a write goes
on in their form.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from hoodie.config.key import Config
from hoodie.errors import TableError, TableMismatch
from hoodie.format.base_file import BaseFileReader
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import BaseFileName
from hoodie.keygen.complex import stored_forms
from hoodie.keygen.settings import KEYGENERATOR_CLASS, NEW_ENCODING, VALIDATE_ENCODING
from hoodie.storage import Storage
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Instant

#: rows that are compared, commits that are asked for a base file
_ROWS, _COMMITS = 100, 20
_COMPLEX = ("complexkeygenerator", "complexavrokeygenerator", "complex")


def with_key_encoding(
    config: Config, props: TableProperties | None, timeline: Timeline, storage: Storage
) -> Config:
    """The settings, with what the table's files say. Raises TableMismatch where they have both forms, or
    another one than is asked for.
    """
    if props is None or len(props.record_key_fields) != 1 or not _may_name_the_field(config, props):
        return config
    (field,), asked = props.record_key_fields, config[NEW_ENCODING]
    if asked is not None and not config[VALIDATE_ENCODING]:
        return config
    found = _stored(field, config, timeline, storage)
    unchecked = f"{VALIDATE_ENCODING.name}=false and {NEW_ENCODING.name}"
    if len(found) > 1:
        raise TableMismatch(
            f"table {props.name!r} has keys as '{field}:1' and as '1', so that it may have rows twice "
            f"(HUDI-9666). Repair it with Apache Hudi, or write on in one form: set {unchecked}",
            table=props.name,
        )
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


def _may_name_the_field(config: Config, props: TableProperties) -> bool:
    """Tables that say nothing of their key generator were made before Apache Hudi kept it."""
    made_by = props.keygenerator_class or config[KEYGENERATOR_CLASS] or "complex"
    return made_by.rpartition(".")[2].lower() in _COMPLEX


def _stored(field: str, config: Config, timeline: Timeline, storage: Storage) -> set[bool]:
    """Whether keys are bare values, as the oldest and the newest base file have them; empty: not known."""
    found: set[bool] = set()
    commits = timeline.commits()
    for instants in (commits[: -_COMMITS - 1 : -1], commits[:_COMMITS]):
        for path in _base_files(instants, timeline, storage):
            with contextlib.suppress(TableError, FileNotFoundError, LookupError):
                found |= _forms(path, field, config, storage)
                break
    return found


def _base_files(instants: Iterable[Instant], timeline: Timeline, storage: Storage) -> Iterator[str]:
    """One of each commit that names any."""
    for instant in instants:
        stats = timeline.commit(instant, storage).write_stats
        path = next((stat.path for stat in stats if stat.path and BaseFileName.parse(stat.file_name)), None)
        if path is not None:
            yield f"{timeline.base_path}/{path}"


def _forms(path: str, field: str, config: Config, storage: Storage) -> set[bool]:
    """Raises LookupError for a file without rows, or without the key's column, as a bootstrap's."""
    with BaseFileReader(storage, path) as reader:
        columns = [RECORD_KEY, field.partition(".")[0]]
        if not {*columns} <= {*reader.schema.names}:
            raise LookupError(path)
        rows = next(reader.batches(columns, _ROWS), None)
    if rows is None:
        raise LookupError(path)
    return stored_forms(rows, field, config)
