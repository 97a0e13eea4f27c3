"""Even, repeatable splits of keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.hashing import murmur

#: seeds of the splits; they differ so that a file group's keys still spread over spill parts
FILE_GROUP_SEED = 1
SPILL_SEED = 2
COMBINE_SEED = 3


def key_fractions(keys: pa.Array[Any], seed: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for every key, the same for equal keys, evenly spread over distinct ones."""
    return murmur(keys, seed).view(np.uint32).astype(np.float64) / 2.0**32
