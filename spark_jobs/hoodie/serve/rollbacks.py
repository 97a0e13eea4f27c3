"""What a completed rollback took back, by its file."""

from __future__ import annotations

from typing import Any

from hoodie.errors import HoodieError
from hoodie.timeline.taken_back import TakenBack


def taken_back(data: bytes) -> dict[str, Any] | None:
    """The instant, and, where the file says it, its rows and its task run. None where it can't be read, such
    as that of Apache Hudi without fastavro.
    """
    known = TakenBack.read(data)
    if known is not None:
        run = known.run
        found = {name: value for name, value in vars(known).items() if name != "task"}
        return {**found, "run": vars(run) if run is not None else None}
    from hoodie.codec.avro import read_record

    try:
        record = read_record("HoodieRollbackMetadata", data)
    except HoodieError:
        return None
    items = record.get("instantsRollback") or ()
    named = [(str(item["commitTime"]), str(item["action"])) for item in items]
    times = named or [(str(time), "") for time in record["commitsRollback"]]
    return {"instant": times[0][0], "action": times[0][1], "run": None} if times else None
