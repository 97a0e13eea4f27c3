"""The Avro codec of log blocks beside fastavro: the same records, in turns, on one core of one process.

fastavro starts from and ends with a dict for each row, ours with Arrow rows; nobody's conversion is timed.
"""

from __future__ import annotations

import functools
import gc
import io
import json
import multiprocessing
import os
import platform
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

from hoodie.codec.arrow_avro import decode_records, encode_records
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.format.schema import to_avro_text

from . import output
from .workload import rows_of

NAME, ROWS = "codec", 200_000
TARGETS = {"encode": 20.0, "decode": 15.0}
INSTANT = "20240101000000000"
Json = dict[str, Any]


@dataclass
class Side:
    """Samples of one implementation of one direction, in seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def time(self, work: Callable[[], Any]) -> Any:
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        return result


def main(rows: int, repeat: int, out: Path | None) -> int:
    """Print the measurement as JSON; exit status 1 when the two sides' records or rows differ."""
    doc = measure(rows, repeat)
    output.write(doc, out)
    for name in TARGETS:
        side = doc[name]
        line = "{name}: ours {ours:,.0f} rows/s, fastavro {fastavro:,.0f}, {ratio:.1f} times (CPU {cpu:.1f})"
        speeds = {who: side[who]["rows_per_second"] for who in ("ours", "fastavro")}
        print(line.format(name=name, ratio=side["ratio"], cpu=side["cpu_ratio"], **speeds), file=sys.stderr)
    return 0 if doc["equal"] else 1


def measure(rows: int, repeat: int) -> Json:
    import fastavro

    pa.set_cpu_count(1)
    table = log_rows(rows)
    text = to_avro_text(table.schema, "bench")
    parsed = fastavro.parse_schema(json.loads(text))
    dicts = table.to_pylist()
    sides = {name: {"ours": Side(), "fastavro": Side()} for name in TARGETS}
    block, equal = b"", True
    for _ in range(repeat):
        theirs = sides["encode"]["fastavro"].time(lambda: _fastavro_encode(dicts, parsed))
        pieces = sides["encode"]["ours"].time(lambda: encode_records(table, text))
        block = b"".join(map(memoryview, pieces))
        equal &= block == theirs
        del theirs, pieces
        read = sides["decode"]["fastavro"].time(functools.partial(_fastavro_decode, block, parsed))
        equal &= read == dicts
        del read
        decoded = sides["decode"]["ours"].time(functools.partial(decode_records, block, rows, text))
        equal &= decoded.equals(table.cast(decoded.schema))
    return {
        "scenario": NAME,
        "settings": {"rows": rows, "repeat": repeat, "columns": table.num_columns, "threads": 1},
        "bytes_a_row": round(len(block) / rows, 1),
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
        "equal": equal,
        **{name: _compared(rows, **side) for name, side in sides.items()},
        "memory": _memory(table, text, block),
        "targets": [
            {
                "target": f"rows/s of ours to fastavro, {name} >= {bound:g}",
                "measured": (ratio := _compared(rows, **sides[name])["ratio"]),
                "met": ratio >= bound,
            }
            for name, bound in TARGETS.items()
        ],
    }


def log_rows(rows: int) -> pa.Table:
    """Rows of a data block as an upsert writes them: the workload's columns behind the meta columns."""
    ids = np.arange(rows, dtype=np.int64)
    own = rows_of(ids, ids * 20 // rows, ordering=1_000_000, rng=np.random.default_rng(7))
    meta = [
        pa.array([INSTANT] * rows),
        pa.array([f"{INSTANT}_{row % 8}_{row}" for row in range(rows)]),
        own.column("key"),
        own.column("day"),
        pa.array(["7d8f3c1a-0b52-4a6e-9c41-2f6b8e0d9a17-0"] * rows),
    ]
    return pa.table([*meta, *own.columns], names=[*META_COLUMNS, *own.column_names]).combine_chunks()


def _compared(rows: int, ours: Side, fastavro: Side) -> Json:
    def side(samples: Side) -> Json:
        return {
            "rows_per_second": round(rows / statistics.median(samples.wall)),
            "cpu_rows_per_second": round(rows / statistics.median(samples.cpu)),
            **{
                f"{name}_seconds": [round(value, 4) for value in values]
                for name, values in asdict(samples).items()
            },
        }

    return {
        "ours": side(ours),
        "fastavro": side(fastavro),
        "ratio": round(statistics.median(fastavro.wall) / statistics.median(ours.wall), 1),
        "cpu_ratio": round(statistics.median(fastavro.cpu) / statistics.median(ours.cpu), 1),
    }


def _fastavro_encode(rows: list[Json], schema: Any) -> bytes:
    import fastavro

    out = io.BytesIO()
    for row in rows:
        record = io.BytesIO()
        fastavro.schemaless_writer(record, schema, row)
        out.write(struct.pack(">i", record.tell()))
        out.write(record.getvalue())
    return out.getvalue()


def _fastavro_decode(block: bytes, schema: Any) -> list[Any]:
    import fastavro

    rows, at = [], 0
    while at < len(block):
        (length,) = struct.unpack_from(">i", block, at)
        rows.append(fastavro.schemaless_reader(io.BytesIO(block[at + 4 : at + 4 + length]), schema, None))
        at += 4 + length
    return rows


# --- memory, in fresh processes ------------------------------------------------------------------------


def _memory(table: pa.Table, text: str, block: bytes) -> Json:
    """Peak resident memory of our side above what was there before, inputs included, in blocks."""
    with tempfile.TemporaryDirectory(prefix="hoodie-bench-") as folder:
        rows, data = Path(folder, "rows"), Path(folder, "block")
        feather.write_feather(table, rows, compression="uncompressed")
        data.write_bytes(block)
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            encode = pool.apply(_encode_peak, (str(rows), text))
            decode = pool.apply(_decode_peak, (str(data), table.num_rows, text))
    return {
        "meaning": "MiB of peak RSS above the process with its input loaded; the result is part of it",
        "block_mib": round(len(block) / 2**20, 1),
        "rows_mib": round(table.nbytes / 2**20, 1),
        "encode_mib": round(encode, 1),
        "decode_mib": round(decode, 1),
        "encode_in_blocks": round(encode * 2**20 / len(block), 2),
        "decode_in_blocks": round(decode * 2**20 / len(block), 2),
    }


def _encode_peak(path: str, text: str) -> float:
    table = feather.read_table(path, memory_map=False)
    encode_records(table.slice(0, 1000), text)
    return _peak(lambda: encode_records(table, text))


def _decode_peak(path: str, rows: int, text: str) -> float:
    data = Path(path).read_bytes()
    encode_records(decode_records(b"", 0, text), text)
    return _peak(lambda: decode_records(data, rows, text))


def _peak(work: Callable[[], Any]) -> float:
    """MiB; Linux only, as the rest of the benchmarks."""
    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark to what is resident now
    before = _status("VmRSS")
    result = work()
    peak = _status("VmHWM") - before
    del result
    return peak


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024
