"""docs/glossary.md explains every term in one line, and names the module where it lives."""

from __future__ import annotations

from scripts.environment import ROOT

TERMS = (
    *("commit", "instant", "requested and completion time", "timeline", "archive"),
    *("file group", "file slice", "base file", "log file", "log block", "record key", "ordering field"),
    *("merge mode", "tagging", "record location", "workload profile", "assign", "small file", "bucket"),
    *("insert overwrite", "staged input", "inflight write", "rollback", "restore", "savepoint", "marker"),
    *("heartbeat", "conflict resolution", "early conflict detection", "lock provider", "indexer"),
    *("metadata partition", "initialise", "rebuild", "column stats", "record index", "prune", "candidate"),
    *("prefetch", "retry", "validate", "expire", "sync"),
)


def rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    table = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    return table[2:]


def test_every_term_has_one_line() -> None:
    assert [len(row) for row in rows()] == [3] * len(TERMS)
    assert tuple(term for term, _, _ in rows()) == TERMS
    assert all(meaning.endswith(".") and len(meaning.split()) <= 30 for _, meaning, _ in rows())


def test_every_module_exists() -> None:
    for term, _, module in rows():
        path = ROOT / "spark_jobs" / module.strip("`").replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file(), f"{term}: {module}"


def test_the_architecture_page_links_it() -> None:
    assert "](glossary.md)" in (ROOT / "docs" / "architecture.md").read_text()
