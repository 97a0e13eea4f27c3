"""Airflow finds the provider, its description is valid, and the modules it names are there."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

import airflow_hoodie
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


def test_names_every_notifier() -> None:
    from airflow.sdk import BaseNotifier

    for name in get_provider_info()["notifications"]:
        module, _, kind = name.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), kind), BaseNotifier)
    folder = Path(ROOT, "airflow_hoodie", "notifications")
    public = {f"airflow_hoodie.notifications.{path.stem}" for path in folder.glob("[a-z]*.py")}
    assert public == {name.rpartition(".")[0] for name in get_provider_info()["notifications"]}


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
