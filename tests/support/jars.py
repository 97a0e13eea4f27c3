"""Jars of servers and file systems that the tests run, in the local Maven repository."""

from __future__ import annotations

import os
from pathlib import Path

from scripts import environment


def jars_of(section: str) -> list[Path]:
    """Those that requirements/jars.lock lists below the line `# section ...` (they may not be there)."""
    _, found, listed = (environment.ROOT / "requirements/jars.lock").read_text().partition(f"\n# {section}")
    assert found, section
    jars = []
    for line in listed.splitlines()[1:]:
        if line.startswith("#"):
            break
        group, artifact, version = line.split()[0].split(":")
        folder = environment.maven_repository().joinpath(*group.split("."), artifact, version)
        jars.append(folder / f"{artifact}-{version}.jar")
    return jars


def missing_jar(section: str) -> str | None:
    for jar in jars_of(section):
        if not jar.exists():
            return f"{section} needs {jar}, which is not there; scripts/setup fetches it"
    return None


def missing_java(server: str) -> str | None:
    if environment.spark_java(environment.spark_environment() | os.environ) is None:
        return f"{server} needs Java; scripts/setup makes one"
    return None
