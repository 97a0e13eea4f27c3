"""Airflow finds the provider, its description is valid, and the modules it names are there."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
import tomllib
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

import airflow_hoodie
from airflow_hoodie import HoodieTable
from airflow_hoodie.compat import airflow_version
from airflow_hoodie.get_provider_info import get_provider_info
from scripts.environment import ROOT


def test_valid_for_the_provider_manager() -> None:
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_valid_for_the_stricter_schema_of_providers() -> None:
    """provider.yaml wants fields of Airflow's own releases too; but for them, our keys must pass."""
    schema = json.loads(files("airflow").joinpath("provider.yaml.schema.json").read_text())
    schema["required"] = [
        name for name in schema["required"] if name in ("name", "package-name", "description")
    ]
    assert schema["additionalProperties"] is False
    jsonschema.validate(get_provider_info(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**get_provider_info(), "operator": []}, schema)


#: what Airflow asks of providers that have it: the project has none, or names it otherwise
NOT_HERE = {
    *("auth-backends", "auth-managers", "bundles", "db-managers", "dialects", "email-backends", "executors"),
    *(
        "filesystems",
        "logging",
        "queues",
        "remote-logging",
        "secrets-backends",
        "task-decorators",
        "transfers",
    ),
    "dataset-uris",  # of Airflow 2: asset-uris
    "hook-class-names",  # of Airflow 2: connection-types
    "plugins",  # entry points of the wheel, by which they are there without the provider manager, too
}


def test_says_all_that_airflow_asks_of_a_provider() -> None:
    """A field that a newer Airflow asks for fails here."""
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    assert set(schema["properties"]) == NOT_HERE | set(get_provider_info())
    assert NOT_HERE & set(get_provider_info()) == set()
    entries = importlib.metadata.entry_points(group="airflow.plugins")
    assert {entry.name for entry in entries if entry.value.startswith("airflow_hoodie.")}


def test_names_every_module_of_its_kind() -> None:
    info = get_provider_info()
    for kind in ("operators", "sensors", "hooks", "triggers"):
        (entry,) = info[kind]
        assert entry["integration-name"] == info["integrations"][0]["integration-name"]
        for module in entry["python-modules"]:
            importlib.import_module(module)
        folder = Path(ROOT, "airflow_hoodie", kind)
        public = {f"airflow_hoodie.{kind}.{path.stem}" for path in folder.glob("[a-z]*.py")}
        assert set(entry["python-modules"]) == public - {"airflow_hoodie.hooks.process_group"}


def named(name: str) -> Any:
    """What a dotted name stands for."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_names_every_notifier() -> None:
    from airflow.sdk import BaseNotifier

    for name in get_provider_info()["notifications"]:
        assert issubclass(named(name), BaseNotifier)
    folder = Path(ROOT, "airflow_hoodie", "notifications")
    public = {f"airflow_hoodie.notifications.{path.stem}" for path in folder.glob("[a-z]*.py")}
    assert public == {name.rpartition(".")[0] for name in get_provider_info()["notifications"]}


def test_airflow_finds_what_it_names() -> None:
    """Links, commands, settings and assets are there, and Airflow takes them over."""
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk import BaseOperatorLink

    info, manager = get_provider_info(), ProvidersManager()  # type: ignore[no-untyped-call]
    assert set(info["extra-links"]) <= set(manager.extra_links_class_names)
    for name in info["extra-links"]:
        assert issubclass(named(name), BaseOperatorLink)
    for name in info["cli"]:
        assert [command.name for command in named(name)()] == ["hoodie"]
    [uris] = info["asset-uris"]
    assert all(callable(named(uris[key])) for key in ("handler", "factory", "to_openlineage_converter"))
    options = info["config"]["hoodie"]["options"]
    assert set(options) == {"tables", "tables_of_assets", "maintenance_dag"}
    from airflow.configuration import conf

    assert all(conf.get("hoodie", name) == str(options[name]["default"]) for name in options)


#: arguments by trigger
TRIGGERS: dict[str, dict[str, Any]] = {
    "airflow_hoodie.triggers.application.ApplicationTrigger": {
        "cluster": {"address": "a:1"},
        "application_id": "app",
        "cancel_on_kill": False,
    },
    "airflow_hoodie.triggers.commits.CommitEventTrigger": {
        "table": "/lake/orders",
        "start": "earliest",
        "partition": ["a"],
    },
    "airflow_hoodie.triggers.condition.ConditionTrigger": {
        "kind": "commits",
        "table": "/lake/orders",
        "after": "20260101",
    },
    "airflow_hoodie.triggers.turn.TurnTrigger": {
        "table": "/lake/orders",
        "place": "1" * 19,
        "rank": "writer",
        "until": "2026-01-01T00:00:00+00:00",
        "extra": {},
        "settings": {},
    },
}


def test_every_trigger_survives_the_database() -> None:
    from airflow.models.trigger import Trigger
    from airflow.triggers.base import BaseTrigger

    [entry] = get_provider_info()["triggers"]
    modules = [importlib.import_module(name) for name in entry["python-modules"]]
    kinds = [cls for module in modules for cls in vars(module).values() if isinstance(cls, type)]
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in kinds if issubclass(cls, BaseTrigger)}
    assert {name for name in names if name.startswith("airflow_hoodie.")} == set(TRIGGERS)
    for name, arguments in TRIGGERS.items():
        classpath, kwargs = named(name)(**arguments).serialize()
        assert classpath == name
        assert arguments.items() <= kwargs.items()
        again = named(name)(**Trigger._decrypt_kwargs(Trigger(classpath, kwargs).encrypted_kwargs))
        assert again.serialize() == (classpath, kwargs)


def test_airflow_finds_it() -> None:
    from airflow.providers_manager import ProvidersManager

    found = ProvidersManager().providers  # type: ignore[no-untyped-call]
    assert found["airflow-hoodie"].data["name"] == get_provider_info()["name"]
    assert found["airflow-hoodie"].version == importlib.metadata.version("airflow-hoodie")


def test_the_short_names() -> None:
    for name in airflow_hoodie.__all__:
        found = getattr(airflow_hoodie, name)
        assert isinstance(found, dict) or found.__name__ == name
    with pytest.raises(AttributeError, match="UpsertOperater"):
        _ = airflow_hoodie.UpsertOperater


def test_an_airflow_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names both versions and what to install; Airflow's lists of providers pass the error by."""
    extras = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [needed] = [text for text in extras["airflow"] if text.startswith("apache-airflow>")]
    oldest = ".".join(map(str, airflow_version.OLDEST))
    assert needed.startswith(f"apache-airflow>={oldest},")
    for version in ("2.11.0", "3.0.6rc1"):
        monkeypatch.setattr(airflow, "__version__", version)
        with pytest.raises(AirflowOptionalProviderFeatureException, match=rf"{oldest} or later.*{version};"):
            _ = airflow_hoodie.UpsertOperator
    for version in (f"{oldest}.0", "4.0.0"):
        airflow_version.check_airflow(version)


def test_what_needs_a_later_airflow_says_from_which_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HoodieTable(name="orders", path="/data/orders", record_keys=("id",))
    assert table.partitions is not None
    monkeypatch.setattr(airflow, "__version__", "3.2.2")
    with pytest.raises(
        AirflowOptionalProviderFeatureException, match=r"partitions needs Airflow 3\.3 or later"
    ):
        _ = table.partitions


def test_the_package_imports_the_standard_library_only() -> None:
    code = """
import sys
before = set(sys.modules)
import airflow_hoodie.get_provider_info
print(*(set(sys.modules) - before))
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "airflow_hoodie" in loaded
    assert loaded <= {"airflow_hoodie", *sys.stdlib_module_names}
