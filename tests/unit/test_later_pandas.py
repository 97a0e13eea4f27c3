"""A process of one command imports pandas where something uses it, and pyarrow knows it from then on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_BEGIN = """
import sys
from hoodie.cli.later_pandas import later_pandas
later_pandas()
import pyarrow as pa
assert pa.array([1, None]).null_count == 1 and pa.scalar("a").as_py() == "a"
assert "pandas" not in sys.modules
"""
_NANOSECONDS = """
import sys
from hoodie.cli import main
query = "SELECT id, TIMESTAMP_NS '2020-01-01 00:00:00.123456789' AS n FROM t"
sys.argv[1:] = ["sql", query, "--table", "t=t", *{more!r}]
sys.exit(main({given}))
"""


def ran(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("found_first", [False, True])
def test_pyarrow_knows_pandas_once_it_is_imported(tmp_path: Path, found_first: bool) -> None:
    looked = 'import importlib.util; assert importlib.util.find_spec("pandas")\n' if found_first else ""
    code = f"""{_BEGIN}{looked}
import pandas as pd
series = pd.Series([1.0, None])
assert pa.array(series).null_count == 1 and pa.array(series, from_pandas=False).null_count == 0
assert pa.table(pd.DataFrame({{"a": series}})).to_pandas()["a"].isna().tolist() == [False, True]
assert isinstance(pa.scalar(1, pa.timestamp("ns")).as_py(), pd.Timestamp)
assert pd.__spec__.loader.get_data and pa.__loader__.get_data
"""
    ran(code, tmp_path)


def test_arrow_converts_to_pandas_by_itself(tmp_path: Path) -> None:
    ran(f'{_BEGIN}assert pa.table({{"a": [1]}}).to_pandas()["a"].tolist() == [1]', tmp_path)


def test_queries_have_pandas(tmp_path: Path) -> None:
    ran(
        f"{_BEGIN}import duckdb\n"
        'assert type(pa.scalar(1, pa.timestamp("ns")).as_py()) is sys.modules["pandas"].Timestamp',
        tmp_path,
    )


def test_a_process_that_has_pandas_keeps_it(tmp_path: Path) -> None:
    code = "import sys, pandas\nfrom hoodie.cli.later_pandas import later_pandas\nlater_pandas()\n"
    ran(f"{code}assert not any('hoodie' in type(finder).__module__ for finder in sys.meta_path)", tmp_path)


def test_a_missing_pandas_stays_missing(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise ImportError('none here')")
    code = "from hoodie.cli.later_pandas import with_nanoseconds\nwith_nanoseconds(pa.timestamp('ns'))\n"
    ran(f"{_BEGIN}{code}import duckdb\nassert pa.array([1]).to_pylist() == [1]", tmp_path)


@pytest.mark.parametrize("more", [[], ["--json"], ["--format", "csv"], ["--format", "jsonl"]])
def test_a_command_prints_nanoseconds_as_it_does_in_a_process_of_others(
    tmp_path: Path, more: list[str]
) -> None:
    (tmp_path / "rows.csv").write_text("id\n1\n")
    ran("from hoodie.cli import main; main(['upsert', 't', '--source', 'rows.csv', '--key', 'id'])", tmp_path)
    own = ran(_NANOSECONDS.format(more=more, given=""), tmp_path)
    assert ".123456789" in own
    assert own == ran(_NANOSECONDS.format(more=more, given="sys.argv[1:]"), tmp_path)


def test_a_transformer_of_the_command_has_pandas(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,v\n1,2\n")
    (tmp_path / "mine.py").write_text(
        "import pandas as pd, pyarrow as pa\n"
        "def doubled(rows):\n"
        "    return pa.record_batch({'id': rows['id'], 'v': pa.array(pd.Series([None, 4.0])[1:])})\n"
    )
    code = "import sys; from hoodie.cli import main; sys.path.insert(0, '.'); sys.argv[1:] = {!r}\n"
    code += "assert main() == 0"
    source = ["--source", "rows.csv", "--key", "id", "--transform", "mine:doubled"]
    ran(code.format(["upsert", "t", *source]), tmp_path)
    assert '"v": 4.0' in ran(code.format(["read", "t", "--json"]), tmp_path)
