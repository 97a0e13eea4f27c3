"""Generated pages are fresh."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from hoodie.config import pages
from hoodie.config.key import HudiSetting, declared, hudi_settings, keys
from hoodie.config.unsupported import SILENT, UNSUPPORTED
from hoodie.ingestion.run import IngestResult
from hoodie.services.results import ServiceResult
from hoodie.write.operation import WriteResult
from scripts.environment import ROOT
from tests.house.test_walls import modules


@pytest.mark.real_defaults
def test_the_settings_page_is_fresh() -> None:
    remedy = "run .venv/bin/python -m hoodie.config.pages > docs/settings.md"
    assert (ROOT / "docs" / "settings.md").read_text() == pages.markdown(declared()), remedy


def test_refused_settings_are_hudis_and_not_supported_here() -> None:
    """A setting that becomes a Key loses its rule: the rule would be dead."""
    names = {name for key in declared() for name in (key.name, *key.aliases)}
    assert names & {*UNSUPPORTED, *SILENT} == set()
    assert {*UNSUPPORTED, *SILENT} <= set(hudi_settings())


def test_what_apache_hudi_does_by_default_is_not_refused() -> None:
    """But for the versions of tables, JDBC, by which a sync of Hudi goes that names no mode, and the mode of
    INSERT INTO, by which Hudi goes where it is given.
    """
    other = {
        "hoodie.table.initial.version",
        "hoodie.datasource.hive_sync.use_jdbc",
        "hoodie.sql.insert.mode",
    }
    refused = {name for name, rule in UNSUPPORTED.items() if not rule.accepts(hudi_settings()[name].default)}
    assert refused == other


def test_names_that_hudi_gave_up_mean_what_their_successors_mean() -> None:
    """Apache Hudi 1.2.0 calls the cleaner's settings anew: as another name of a Key they keep files."""
    for old, new in (
        ("hoodie.cleaner.policy", "hoodie.clean.policy"),
        ("hoodie.cleaner.commits.retained", "hoodie.clean.commits.retained"),
        ("hoodie.cleaner.fileversions.retained", "hoodie.clean.fileversions.retained"),
        ("hoodie.cleaner.hours.retained", "hoodie.clean.hours.retained"),
        ("hoodie.datasource.write.recordkey.field", "hoodie.table.recordkey.fields"),
        ("hoodie.record.merge.mode", "hoodie.write.record.merge.mode"),
    ):
        assert keys()[old] is keys()[new]


def test_the_list_of_hudis_settings_is_whole() -> None:
    known = hudi_settings()
    assert len(known) > 700
    assert known["hoodie.parquet.max.file.size"] == HudiSetting("125829120", ("0.15.0", "1.2.0"))
    assert known["hoodie.clean.policy"].releases == ("1.2.0",)


def test_the_results_page_names_the_fields_of_each_result() -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    package = ROOT / "spark_jobs" / "hoodie"
    names = [f"hoodie.{name.partition('.')[2]}" for name in modules(package) if ".services." in name]
    for name in names:
        importlib.import_module(name)
    found = (cls for cls in descendants(ServiceResult) if cls.__module__ in names)  # tests add others
    results = {cls.__name__: {field.name for field in fields(cls)} for cls in found}
    common = {field.name for field in fields(ServiceResult)}
    told: dict[str, set[str]] = {}
    for text in re.split(r"^(?=`\w+Result`|Every `)", page, flags=re.MULTILINE)[1:]:
        names = re.findall(r"`(\w+Result)`", text.splitlines()[0])
        rows = re.findall(r"^\| (`.*?) \|", text, flags=re.MULTILINE)
        for name in names:
            told[name] = {field for row in rows for field in re.findall(r"`(\w+)`", row)}
    assert told.pop("WriteResult") == {field.name for field in fields(WriteResult)}
    assert told.pop("IngestResult") == {field.name for field in fields(IngestResult)} - {"write"}
    assert told.pop("ServiceResult") == common
    shared = told["CompactionResult"]
    assert (
        shared
        == told["ClusteringResult"]
        == (results.pop("CompactionResult") | results.pop("ClusteringResult")) - common
    )
    del told["CompactionResult"], told["ClusteringResult"], results["RewriteResult"]
    assert told == {name: own - common for name, own in results.items()}


def descendants(cls: type[Any]) -> Iterator[type]:
    for child in cls.__subclasses__():
        yield child
        yield from descendants(child)
