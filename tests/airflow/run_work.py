"""`python -m tests.airflow.run_work FILE RUN` does the tasks of a run of the DAG in this file.

It is a process of its own, as a fork won't do: the API that Airflow keeps in a process which has run a task
answers in a thread, and forks have none of their parent's threads. Exit status 1 where a task fails.
"""

from __future__ import annotations

import sys

from tests.airflow.backfill_runs import work
from tests.airflow.by_version import dag_bag


def main() -> int:
    file, run_id = sys.argv[1:]
    (dag,) = dag_bag(file).dags.values()
    return 0 if set(work(dag, run_id).values()) == {"success"} else 1


if __name__ == "__main__":
    sys.exit(main())
