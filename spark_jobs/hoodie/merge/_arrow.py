"""Arrow types and kernels as this folder uses them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

Rows: TypeAlias = pa.RecordBatch | pa.Table
Array: TypeAlias = "pa.Array[Any]"
Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]

#: untyped on purpose: the stubs know neither plain Python values nor chunked arrays as arguments
pc: Any = pyarrow.compute
array: Any = pa.array
