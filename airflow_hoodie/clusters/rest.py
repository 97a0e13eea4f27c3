"""One request to the REST API of a cluster manager, whose answers are JSON objects."""

from __future__ import annotations

from typing import Any

from airflow_hoodie.exceptions import HoodieJobError
from hoodie.mask import masked
from hoodie.text import visible

#: characters of a message that are shown
SHOWN = 500
#: answers that are one, and no failure that may pass
_ANSWERS = (400, 401, 403, 404, 413, 422)


def ask(method: str, url: str, timeout: float, **options: Any) -> tuple[int, dict[str, Any]]:
    """HTTP status and JSON object of the answer; {} where an answer of status 4xx has none.

    `options`: of `requests.request`. Raises OSError or ValueError for what may pass.
    """
    import requests

    headers = {"Accept": "application/json", **options.pop("headers", {})}
    answer = requests.request(method, url, headers=headers, timeout=timeout, **options)
    status = answer.status_code
    if status >= 300 and status not in _ANSWERS:
        raise ValueError(f"HTTP {status}")
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        if status < 300:
            raise ValueError("the answer is no JSON object")
        found = {}
    return status, found


def shown(text: object) -> str:
    """What a cluster manager says, on one line and shortened."""
    return visible(str(text or "").strip())[:SHOWN]


def last_shown(text: object) -> str:
    """As `shown`, but the end of a long text, without secrets: of output, which ends with what went wrong."""
    return visible(masked(str(text or "")).strip()[-SHOWN:])


def unreachable(what: str, failures: list[str], advice: str) -> HoodieJobError:
    """The error of a cluster manager none of whose addresses answers as it should."""
    return HoodieJobError(f"{what} is unreachable ({'; '.join(failures)}); {advice}", code="unreachable")
