"""What a source's columns become in a table that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hoodie.config.key import Config
from hoodie.errors import TableNotFound
from hoodie.format.meta_fields import without_meta
from hoodie.format.schema import from_avro
from hoodie.table.handle import Table
from hoodie.table.table_schema import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa


def target_schema(path: str, options: Mapping[str, Any]) -> pa.Schema | None:
    """Arrow schema of the data columns of the table at `path`, opened with these settings; None where there
    is no table yet.
    """
    try:
        table = Table.open(path, Config.of(options))
        text = TableSchema.load(table.timeline, table.storage, table.properties).avro
    except TableNotFound:
        return None
    return without_meta(from_avro(text)) if text else None
