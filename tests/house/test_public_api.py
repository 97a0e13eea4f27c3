"""Nothing public goes without a warning for a release: docs/public-api.txt and the rule of its changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import pytest

from hoodie.deprecation import DEPRECATED, Deprecation, warn_deprecated
from scripts.environment import ROOT
from scripts.public_api import CHANGELOG, PAGE, UNRELEASED, page, problems, read, releases

THEN = {
    "hoodie.read": "0.1.0",
    "hoodie.read(path) 1 required": "0.1.0",
    "hoodie.read(where=None)": "0.1.0",
    "hoodie.try_out": UNRELEASED,
    "hoodie clean": "0.1.0",
    "hoodie clean --keep VALUE = 10": "0.1.0",
    "setting hoodie.a = 1": "0.2.0",
    "hoodie.index.Index": "0.1.0",
    "hoodie.index.Index.tag to be defined": "0.1.0",
}
RELEASED = ["0.2.0", "0.1.0"]
WHERE = Deprecation("hoodie.read(where", "0.2.0", "0.3.0", "filter")


def broken(
    *, gone: Iterable[str] = (), new: Iterable[str] = (), deprecated: Iterable[Deprecation] = ()
) -> list[str]:
    return problems(THEN, [*(set(THEN) - set(gone)), *new], RELEASED, list(deprecated))


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_the_list_is_that_of_the_code() -> None:
    """In a process of its own: tests have classes, and defaults, of their own."""
    command = [sys.executable, "-m", "scripts.public_api", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_list_has_every_kind_of_name() -> None:
    listed = read(PAGE.read_text())
    for line in (
        "airflow hoodie doctor --deep",
        "airflow.cfg [hoodie] maintenance_dag = ",
        "airflow_hoodie.HoodieNotifier",
        "airflow_hoodie.UpsertOperator renders source",
        "airflow_hoodie.UpsertOperator(engine='spark')",
        "airflow_hoodie.UpsertOperator(source) required",
        "airflow_hoodie.hooks.hoodie.HoodieHook",
        "airflow_hoodie.triggers.commits.CommitEventTrigger",
        "assets hoodie://",
        "CleanResult.instant",
        "connection hoodie: warehouse",
        "hoodie read --format csv",
        "hoodie upsert --source VALUE required",
        "hoodie.Operation.UPSERT = upsert",
        "hoodie.Table.read(columns=None) 1",
        "hoodie.Table.upsert(options) of WriteArguments",
        "hoodie.WriteResult.instant",
        "hoodie.api.read_table",
        "hoodie.errors.TableNotFound is a TableError, code table_not_found",
        "hoodie.lock.LockProvider.holder to be defined",
        "hoodie.read_table(path) 1 required",
        "setting hoodie.cleaner.commits.retained = 10",
        "setting hoodie.index.type: BLOOM",
    ):
        assert line in listed, line
    assert set(listed.values()) <= {UNRELEASED, *releases(CHANGELOG.read_text())}


def test_what_is_new_is_no_problem() -> None:
    new = ["hoodie.write", "hoodie.write(rows) 1 required", "hoodie.read(limit=None)", "hoodie clean --all"]
    assert broken(new=new) == []


def test_what_no_release_had_may_go() -> None:
    assert broken(gone=["hoodie.try_out"]) == []


@pytest.mark.parametrize(
    ("gone", "new"),
    [
        ("hoodie.read(where=None)", ()),
        ("hoodie.read(where=None)", ("hoodie.read(where='')",)),
        ("hoodie.read(where=None)", ("hoodie.read(filter=None)",)),
        ("hoodie.read(path) 1 required", ("hoodie.read(path) 2 required",)),
        ("hoodie.read(path) 1 required", ("hoodie.read(path=None)",)),
        ("hoodie clean --keep VALUE = 10", ("hoodie clean --keep VALUE = 5",)),
        ("setting hoodie.a = 1", ("setting hoodie.a = 2",)),
    ],
)
def test_what_a_release_had_neither_goes_nor_changes(gone: str, new: tuple[str, ...]) -> None:
    found = broken(gone=[gone], new=new)
    assert any(f"{gone!r} of {THEN[gone]} is gone or changed" in text for text in found)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("hoodie.read(path) 1 required", "hoodie.read(path=None) 1"),
        ("hoodie.read(where=None)", "hoodie.read(where=None) 2"),
        ("hoodie.index.Index.tag to be defined", "hoodie.index.Index.tag"),
    ],
)
def test_what_allows_more_may_change(narrow: str, wide: str) -> None:
    assert broken(gone=[narrow], new=[wide]) == []


@pytest.mark.parametrize("needed", ["hoodie.read(engine) required", "hoodie.index.Index.size to be defined"])
def test_what_callers_do_not_give_yet_is_not_required(needed: str) -> None:
    assert "give it a default" in "".join(broken(new=[needed]))


def test_what_a_release_warned_of_may_go() -> None:
    gone = ["hoodie.read(where=None)"]
    assert broken(gone=gone, deprecated=[WHERE]) == []
    assert broken(gone=[*gone, "hoodie.read"], deprecated=[WHERE]) != []
    early = Deprecation(WHERE.name, "0.3.0", "0.4.0", "filter")
    [text] = broken(gone=gone, deprecated=[early])
    assert "no release has warned" in text


def test_a_name_stands_for_what_belongs_to_it_and_no_other() -> None:
    cleaning = Deprecation("hoodie clean", "0.2.0", "0.3.0", "hoodie services run")
    assert broken(gone=["hoodie clean", "hoodie clean --keep VALUE = 10"], deprecated=[cleaning]) == []
    reading = Deprecation("hoodie.rea", "0.2.0", "0.3.0", "nothing")
    assert len(broken(gone=["hoodie.read"], deprecated=[reading])) == 1


def test_a_release_names_what_is_new_in_it() -> None:
    listed = read(page(THEN, [*THEN, "hoodie.write"], "0.3.0"))
    assert listed == {**THEN, "hoodie.try_out": "0.3.0", "hoodie.write": "0.3.0"}
    assert read(page(THEN, [*THEN, "hoodie.write"]))["hoodie.write"] == UNRELEASED


def test_names_that_warn_are_public_or_gone() -> None:
    listed, released = read(PAGE.read_text()), releases(CHANGELOG.read_text())
    for each in DEPRECATED:
        assert any(line.startswith(each.name) for line in listed) or each.since in released
        assert numbers(each.since) < numbers(each.removal)


@pytest.mark.parametrize("category", [DeprecationWarning, FutureWarning])
def test_a_warning_names_what_to_use_and_the_release_without_the_name(category: type[Warning]) -> None:
    def old() -> None:
        warn_deprecated("hoodie.read(where", category, among=[WHERE])

    text = r"`hoodie.read\(where` is deprecated since airflow-hoodie 0.2.0 and goes with 0.3.0; use filter"
    with pytest.warns(category, match=text) as found:
        old()
    assert [each.filename for each in found] == [__file__]


def test_a_warning_of_operators_is_airflows() -> None:
    from airflow.exceptions import AirflowProviderDeprecationWarning

    with pytest.warns(AirflowProviderDeprecationWarning, match="use filter"):
        warn_deprecated(WHERE.name, AirflowProviderDeprecationWarning, among=[WHERE])


def test_only_what_is_listed_warns() -> None:
    with pytest.raises(KeyError):
        warn_deprecated("hoodie.read")
