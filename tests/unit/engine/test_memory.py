"""A process that keeps what it freed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hoodie.engine.memory import keep_freed_memory

def faults():
    start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        pc.add(pa.array(np.ones(4 << 20)), 1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start

# the heap grows in the first rounds, by what is in use at once
before = max(faults() for _ in range(2))
kept = keep_freed_memory() and keep_freed_memory()
print(kept, before, min(faults() for _ in range(12)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the settings are those of glibc")
def test_pages_are_not_asked_for_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    kept, before, after = done.stdout.split()
    assert kept == "True"
    assert int(after) < 100 < int(before)
