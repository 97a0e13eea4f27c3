"""What a table holds is text: on a terminal and in logs it neither moves the cursor nor begins a line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.cli import main
from hoodie.text import lines, visible
from hoodie.timeline.active import Timeline
from hoodie.timeline.layouts.one import ONE

#: a window's title, a colour, C1's introducer, DEL, a right-to-left override and isolate, three line breaks
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b0m\x7f\u202egpj.exe\u2066\nWARN forged\r\u2028\x85end"
BAD = [*map(chr, (*range(10), *range(11, 32), *range(127, 160), *range(0x2028, 0x202F))), "\u2066", "\udcff"]
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "n",
    "hoodie.table.name": "t",
}
ROWS = pa.table({"id": [HOSTILE, "b"], "p": [HOSTILE, "eu"], "n": [1, 2], f"c{HOSTILE}": ["x", HOSTILE]})


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor` starts none to ask for its version."""
    for name in ("SPARK_HOME", "JAVA_HOME"):
        monkeypatch.setenv(name, "/nowhere")


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    hoodie.write_table(ROWS.drop_columns([f"c{HOSTILE}"]), path, options=OPTIONS)
    hoodie.savepoint_table(path, user=HOSTILE, comments=HOSTILE)
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints for people: out and err."""
    main(arguments)
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert [char for char in BAD if char in text] == []
    assert [line for line in text.split("\n") if line.startswith("WARN forged")] == []
    return text


def test_how_characters_are_shown() -> None:
    assert visible("a\nb\tc\x1b\x7f\x9b\u202e\udcff") == "a\\nb\\tc\\x1b\\x7f\\x9b\\u202e\\udcff"
    assert lines("a\n\tb\r\n") == "a\n\tb\\r\n"
    plain = "Zürich, 北京, שלום, 👩\u200d🚀, nbsp\u00a0, {'a': 1} \\ \""
    assert visible(plain) == lines(plain) == plain
    assert visible(visible(HOSTILE)) == visible(HOSTILE)
    assert visible("".join(BAD)).isprintable()


@pytest.mark.parametrize(
    "arguments",
    [
        ("read", "--table", "{t}"),
        ("timeline", "--table", "{t}"),
        ("timeline", "--table", "{t}", "--archived"),
        ("files", "--table", "{t}"),
        ("services", "plan", "--table", "{t}"),
        ("services", "run", "--table", "{t}", "--dry-run"),
        ("doctor", "--table", "{t}", "--deep"),
        ("clean", "--table", "{t}", "--dry-run"),
        ("delete-partitions", "--table", "{t}", "--partition", "*", "--dry-run"),
        ("cluster", "--table", "{t}", "--dry-run"),
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_commands_for_people(
    table: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    text = said(capsys, *(argument.format(t=table) for argument in arguments))
    if arguments[0] in ("read", "files", "delete-partitions"):
        assert visible(HOSTILE)[:20] in text
    if arguments == ("timeline", "--table", "{t}"):
        assert f"{visible(HOSTILE)}, {visible(HOSTILE)}" in text


def test_the_head_of_rows_is_text_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hoodie.cli.output import rows_grid

    text = rows_grid([f"c{HOSTILE}"], [[[HOSTILE]], [{HOSTILE: HOSTILE}]])
    assert text.count("\n") == 3
    assert [char for char in BAD if char in text] == []


def test_json_is_exact(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", "--table", table, "--json"]) == 0
    text = capsys.readouterr().out
    assert [char for char in BAD if char in text] == []
    assert text.count("\n") == 1
    rows = json.loads(text)["rows"]
    assert {row["id"] for row in rows} == {HOSTILE, "b"}
    assert main(["files", "--table", table, "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["file_groups"]
    assert {group["partition"] for group in groups} == {HOSTILE, "eu"}


def test_errors(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "read", "--table", str(tmp_path / HOSTILE))
    assert visible(HOSTILE) in text
    assert text.count("\n") == 1
    text = said(capsys, "read", "--table", table, "--where", f"id = {HOSTILE}")
    assert text.count("\n") == 1
    said(capsys, HOSTILE)
    said(capsys, "read", "--table", table, f"--no{HOSTILE}")
    said(capsys, "read", "--table", table, "--limit", HOSTILE)


def test_a_bug_that_meets_such_a_text(
    table: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr(hoodie, "instants", broken)
    text = said(capsys, "timeline", "--table", table)
    assert "Traceback" in text
    assert f"hoodie: RuntimeError: {visible(HOSTILE)}" in text


def test_what_a_write_tells(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as pq

    source = str(tmp_path / "rows.parquet")
    pq.write_table(ROWS.drop_columns([f"c{HOSTILE}"]), source)
    for more in ([], ["--dry-run"]):
        said(capsys, "upsert", "--table", table, "--source", source, *more)


def test_names_of_files_that_are_no_text(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as a name in Latin-1: bytes that are no UTF-8."""
    Path(f"{table}/eu/\udcff\x1b.parquet").write_bytes(b"")
    Path(f"{table}/.hoodie/\x1b[31m.commit").write_bytes(b"{}")
    for command in ("files", "doctor", "timeline"):
        said(capsys, command, "--table", table)
        said(capsys, command, "--table", table, "--json")


def test_blocks_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "m")
    options = OPTIONS | {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    rows = ROWS.drop_columns([f"c{HOSTILE}"])
    hoodie.write_table(rows, path, options=options)
    hoodie.write_table(rows, path, options=options)
    hoodie.write_table(rows.select(["id", "p", "n"]), path, operation="delete", options=options)
    logs = [str(file) for file in Path(path).rglob(".*.log.*")]
    assert logs
    shown = "".join(said(capsys, "log", log, "--records") for log in logs)
    assert visible(HOSTILE)[:20] in shown


@pytest.mark.table_version(6)
def test_a_table_of_hostile_metadata(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Properties, and what a commit says of itself."""
    instant = Timeline.load(table).commits()[-1]
    file = Path(table, ".hoodie", ONE.name(instant))
    content = json.loads(file.read_bytes())
    content["operationType"] = HOSTILE
    content["extraMetadata"][HOSTILE] = HOSTILE
    file.write_text(json.dumps(content))
    for command in ("timeline", "doctor", "files"):
        said(capsys, command, "--table", table)
    properties = Path(table, ".hoodie", "hoodie.properties")
    escaped = HOSTILE.encode("unicode_escape").decode().replace("\\x", "\\u00")
    text = properties.read_text().splitlines()
    kept = [line for line in text if not line.startswith(("hoodie.table.name", "hoodie.table.checksum"))]
    properties.write_text("\n".join([*kept, f"hoodie.table.name=x{escaped}"]) + "\n")
    for command in ("timeline", "doctor", "read"):
        said(capsys, command, "--table", table)
