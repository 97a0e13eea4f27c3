"""`python -m hoodie.cli.examine`: what the timeline page asks another process (hoodie.serve.health).

A JSON object on standard input, {"what": "services" or "doctor", "table": path, "options": {settings of the
storage}}; one JSON object on standard output: the plan of all services, {"findings"}, or {"error"}. Changes
nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from hoodie.errors import HoodieError
from hoodie.text import install


def main() -> int:
    request = json.load(sys.stdin)
    try:
        answer = _LOOKS[request["what"]](request["table"], request["options"])
    except ImportError as error:
        text = f"{error.name or error} is not installed here: {install('local')}"
        answer = {"error": {"code": "packages", "message": text}}
    except HoodieError as error:
        answer = {"error": error.to_dict()}
    except OSError as error:
        text = f"{error.filename or 'the storage'}: {error.strerror or error}"
        answer = {"error": {"code": "storage", "message": text}}
    sys.stdout.write(json.dumps(answer, allow_nan=False))
    return 0


def services(table: str, options: Mapping[str, str]) -> dict[str, Any]:
    """A ServicesPlan; see hoodie.services.planner.run."""
    import hoodie

    return hoodie.plan_services(table, options=options).to_dict()


def doctor(table: str, options: Mapping[str, str]) -> dict[str, Any]:
    """All findings but those that need a temporary file, or all rows."""
    from hoodie.services.index.doctor import check_metadata_table
    from hoodie.table.doctor import check_table

    found = [*check_table(table, options=options, probe=False), *check_metadata_table(table, False, options)]
    return {"findings": [finding.to_dict() for finding in found]}


_LOOKS = {"services": services, "doctor": doctor}

if __name__ == "__main__":
    sys.exit(main())
