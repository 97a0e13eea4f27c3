"""Exactly once: the token of a commit, by which a repeated write finds its own commit. Standard library
only.

- A write's token (DAG, task, map index, data interval) and a fingerprint of its source are texts in its
  commit's extra metadata. So both are published in one step. Tokens of archived commits are in
  timeline.token_store.
- The extra metadata also names the task run that made a commit: `airflow.run` names the run, `airflow.token`
  what the run stood for; `airflow.interval` has the data interval where the token does not.
- Both have the form `<DAG>/<task>/<map index>/<what>`. <what> is `run=<run id>`, `partition=<key>`, a date,
  or the start and the end of a data interval. A token that a user chose is any other text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hoodie.timeline.commit import CommitMetadata, validations_of
from hoodie.timeline.instant import Instant, is_time
from hoodie.timeline.time import InstantTime

#: keys of a commit's extra metadata
TOKEN_KEY = "airflow.token"
FINGERPRINT_KEY = "airflow.fingerprint"
#: in a fingerprint, before what is known of files that not every process may see
SEEN_MARK = "-"


@dataclass(frozen=True)
class TokenCommit:
    """The commit of a token: its instant and action, the source's fingerprint ("": none), what it wrote.

    completion: as the timeline has it, which is not stored; None of an archived commit, too.
    """

    token: str
    instant: InstantTime
    action: str
    fingerprint: str
    operation: str
    totals: Mapping[str, Any]
    completion: InstantTime | None = None

    @classmethod
    def of(cls, instant: Instant, metadata: CommitMetadata) -> TokenCommit | None:
        """None for a commit without a token."""
        token = metadata.extra_metadata.get(TOKEN_KEY)
        if not token:
            return None
        return cls(
            token,
            instant.time,
            instant.action.value,
            metadata.extra_metadata.get(FINGERPRINT_KEY) or "",
            metadata.operation_type.lower(),
            {
                "partitions": metadata.partitions,
                "num_inserts": metadata.num_inserts,
                "num_updates": metadata.num_updates,
                "num_deletes": metadata.num_deletes,
                "num_writes": metadata.num_writes,
                "num_files": metadata.num_files,
                "bytes_written": metadata.bytes_written,
                "num_missing": metadata.num_missing,
                "num_replaced": metadata.num_replaced,
                "num_dropped": metadata.num_dropped,
                **({"validations": outcomes} if (outcomes := metadata.validations) else {}),
            },
            instant.completion,
        )

    @classmethod
    def of_value(cls, value: Any) -> TokenCommit:
        """The inverse of `value`. Raises ValueError for anything else: the value comes from a file."""
        try:
            found = cls(**{**value, "completion": None})
            texts = (found.token, found.instant, found.action, found.fingerprint, found.operation)
            partitions = found.totals.get("partitions") or []
            outcomes = found.totals.get("validations") or []
            whole = all(isinstance(text, str) for text in (*texts, *partitions)) and is_time(found.instant)
            whole = whole and validations_of(outcomes) == outcomes
        except (TypeError, AttributeError):
            whole = False
        if not whole or not isinstance(partitions, list):
            raise ValueError("not the token of a commit")
        return found

    def value(self) -> dict[str, Any]:
        """JSON-able."""
        stored = {name: value for name, value in vars(self).items() if name != "completion"}
        return {**stored, "totals": dict(self.totals)}

    def to_bytes(self) -> bytes:
        return json.dumps(self.value(), sort_keys=True).encode()

    def is_of(self, fingerprint: str) -> bool:
        """Was the same source written; True where one of the fingerprints is not known. Files that only one
        of both saw are not compared.
        """
        if not fingerprint or not self.fingerprint:
            return True
        given, _, seen = fingerprint.partition(SEEN_MARK)
        own, _, seen_then = self.fingerprint.partition(SEEN_MARK)
        return given == own and (not seen or not seen_then or seen == seen_then)

    def result(self, table: str, base_path: str) -> dict[str, Any]:
        """The fields of a WriteResult, of a write whose token has this commit already. Of an archived commit
        of layout two `completion` is its instant, after which a query gives its rows once more.
        """
        return {
            "status": "already_committed",
            "table": table,
            "base_path": base_path,
            "action": self.action,
            "instant": str(self.instant),
            "completion": str(self.completion or self.instant),
            "operation": self.operation,
            **self.totals,
            "duration_s": 0.0,
            "warnings": [],
            "rolled_back": [],
            "metadata_table_removed": False,
        }


#: key of a commit's extra metadata
RUN_KEY = "airflow.run"
INTERVAL_KEY = "airflow.interval"

_TEXT = re.compile(r"([\w.-]+)/([\w.-]+)/(-?[0-9]{1,9})/(.+)", re.DOTALL)
_RUN = "run="


@dataclass(frozen=True)
class TaskRun:
    """A task instance. `run_id` or `stands_for` (interval, date, partition) may be "" where unknown."""

    dag_id: str
    task_id: str
    map_index: int = -1
    run_id: str = ""
    stands_for: str = ""

    @classmethod
    def parse(cls, text: str | None) -> TaskRun | None:
        """None for a text of another form."""
        match = _TEXT.fullmatch(text or "")
        if match is None:
            return None
        dag_id, task_id, index, what = match.groups()
        run_id = what[len(_RUN) :] if what.startswith(_RUN) else ""
        return cls(dag_id, task_id, int(index), run_id, "" if run_id else what)

    @classmethod
    def of(cls, extra_metadata: Mapping[str, str | None]) -> TaskRun | None:
        """The run that made the commit, and what it stood for; None where the commit does not say."""
        run = cls.parse(extra_metadata.get(RUN_KEY))
        token = cls.parse(extra_metadata.get(TOKEN_KEY))
        if run is None:
            return token
        stands_for = token.stands_for if token is not None else extra_metadata.get(INTERVAL_KEY) or ""
        return cls(run.dag_id, run.task_id, run.map_index, run.run_id, stands_for)

    def text(self) -> str:
        """The value of `airflow.run`."""
        return f"{self.dag_id}/{self.task_id}/{self.map_index}/{_RUN}{self.run_id}"
