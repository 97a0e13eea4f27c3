"""Which task run made a commit, by the commit's extra metadata.

`airflow.run` names the run, `airflow.token` (hoodie.timeline.tokens) what the run stood for. Both are the
text `<DAG>/<task>/<map index>/<what>`, where <what> is `run=<run id>`, `partition=<key>`, a date, or the
start and the end of a data interval. A token that a user chose is any other text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.timeline.tokens import TOKEN_KEY

#: key of a commit's extra metadata
RUN_KEY = "airflow.run"

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
        if run is None or token is None:
            return run or token
        return cls(run.dag_id, run.task_id, run.map_index, run.run_id, token.stands_for)

    def text(self) -> str:
        """The value of `airflow.run`."""
        return f"{self.dag_id}/{self.task_id}/{self.map_index}/{_RUN}{self.run_id}"
