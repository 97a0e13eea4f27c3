"""Arrow as the tests call it, where its type stubs are narrower than what it takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute


def arrow_schema(fields: Iterable[tuple[str, pa.DataType] | pa.Field[Any]]) -> pa.Schema:
    """`pa.schema` of fields of several types: in a literal the stubs see objects."""
    return pa.schema([field if isinstance(field, pa.Field) else pa.field(*field) for field in fields])
