"""What a command imports, which is most of the time that a small one takes: packages that it has no use for
are not among it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

#: in an upsert of a few rows of a CSV file into a local table
UNUSED = {
    "airflow",
    "asyncio",
    "boto3",
    "duckdb",
    "hoodie.read.partition_snapshot",
    "hoodie.services.clustering.run",
    "hoodie.services.compaction.run",
    "hoodie.sync.hive.catalog",
    "hoodie.write.explain.explanation",
    "html",
    "http.client",
    "importlib.metadata",
    "pandas",
    "pyarrow.acero",
    "pyspark",
    "sqlite3",
    "unittest",
}
_RUN = """
import json, sys
from hoodie.cli import main
assert main() == 0
print(json.dumps(sorted(sys.modules)))
"""


def upserted(folder: Path) -> set[str]:
    """Upsert three rows by the command; returns the modules that its process has imported."""
    (folder / "rows.csv").write_text("id,ts,v\n1,1,10\n2,1,20\n3,1,30\n")
    flags = ("upsert", "t", "--source", "rows.csv", "--format", "csv", "--key", "id", "--ordering", "ts")
    command = [sys.executable, "-c", _RUN, *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_small_upsert_imports_no_package_that_it_does_not_use(tmp_path: Path) -> None:
    for _ in range(2):  # the table is made, and then there
        assert upserted(tmp_path) & UNUSED == set()
