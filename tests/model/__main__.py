"""Random steps with failures on a table, beside a model of it. Prints JSON, and the steps of a difference."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.model.machine import Difference, Machine

STEPS, KINDS = 2000, ("cow", "mor")


def main() -> int:
    """Exit status 1 when a run found a difference; its table is left then."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of a run ({STEPS})")
    parser.add_argument("--seed", type=int, action="append", help="repeatable (1)")
    parser.add_argument("--type", choices=KINDS, help="of the table (default: a run of each)")
    parser.add_argument("--odd", action="store_true", help="odd keys, values, partitions and schemas")
    args = parser.parse_args()
    kinds = [args.type] if args.type else list(KINDS)
    results = [_one(args.steps, seed, kind, args.odd) for kind in kinds for seed in args.seed or [1]]
    print(json.dumps({"steps": args.steps, "results": results}, indent=1))
    return 1 if any(result["difference"] for result in results) else 0


def _one(steps: int, seed: int, kind: str, odd: bool) -> dict[str, Any]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix=f"hoodie-model-{kind}-{seed}-", dir=memory))
    machine = Machine(folder / "t", seed, kind == "mor", odd)
    started, difference = time.monotonic(), ""
    try:
        machine.run(steps)
    except Difference as error:
        difference = str(error)
        (folder / "steps.txt").write_text("\n".join(machine.steps) + "\n")
        print(difference, f"all steps: {folder}/steps.txt", sep="\n", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return {
        "type": kind,
        "odd": odd,
        "seed": seed,
        "steps": len(machine.steps),
        "seconds": round(time.monotonic() - started, 1),
        "counts": dict(sorted(machine.counts.items())),
        "difference": difference.partition("; the last steps")[0],
    }


if __name__ == "__main__":
    sys.exit(main())
