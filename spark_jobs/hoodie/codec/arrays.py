"""Arrow types and kernels as all of this package uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

Rows: TypeAlias = pa.RecordBatch | pa.Table
Array: TypeAlias = "pa.Array[Any]"
Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Coded: TypeAlias = "pa.DictionaryArray[Any, Any]"
Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]

#: untyped on purpose: the stubs know neither plain Python values nor chunked arrays as arguments
pc: Any = pyarrow.compute
array: Any = pa.array

#: what values of dictionaries are decoded as, as polars has them in categories
OF_VIEWS: dict[pa.DataType, pa.DataType] = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def whole(values: Column) -> Array:
    """One array, also of a chunked column; copied only where it has several chunks."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    joined: Any = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return cast("Array", joined)


def decoded(values: Column) -> Column:
    """Of a dictionary the value of each row, as a plain text where it is a view, which few kernels know."""
    kind: Any = values.type
    if not pa.types.is_dictionary(kind):
        return values
    plain = OF_VIEWS.get(kind.value_type, kind.value_type)
    if plain != kind.value_type:
        values = values.cast(pa.dictionary(kind.index_type, plain, kind.ordered))
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values.cast(plain)


def column(rows: Rows, path: str) -> Column:
    """The column at a dotted path, a row null where any struct on the way is, dictionaries decoded."""
    top, *rest = path.split(".")
    values = rows.column(top)
    return decoded(pc.struct_field(values, rest) if rest else values)


def places(mask: Column) -> list[int]:
    """Where the mask is true. Arrow's own function ends the process for a column without chunks."""
    found: list[int] = pc.indices_nonzero(whole(mask)).to_pylist()
    return found


def rows_of(rows: Rows, size: int) -> int:
    """How many of the rows are of about this size in memory; at least one."""
    return max(1, rows.num_rows * size // max(size, rows.nbytes))


def halved(rows: pa.Table, most: int, beside: int) -> Iterator[pa.Table]:
    """The rows in parts of at most so many bytes in memory, and `beside` a row, one row at least: the long
    ones may stand together.
    """
    half = rows.num_rows // 2
    if half and rows.nbytes + rows.num_rows * beside > most:
        yield from halved(rows.slice(0, half), most, beside)
        yield from halved(rows.slice(half), most, beside)
    else:
        yield rows


def coded_texts(indices: Any, names: list[str]) -> Coded:
    """dictionary<int32, string> of numpy or Arrow indices; the names may repeat."""
    numbers = indices if isinstance(indices, pa.Array) else array(indices)
    made: Any = pa.DictionaryArray.from_arrays(numbers.cast(pa.int32()), array(names, pa.string()))
    return cast("Coded", made)
