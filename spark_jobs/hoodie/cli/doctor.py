"""`hoodie doctor`: is this machine fit to run jobs, and is a table in order? It changes nothing."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hoodie
from hoodie.cli.output import Answer
from hoodie.table.checkup import ERROR, NOTE, OK, WARNING, Finding, worst
from hoodie.table.doctor import check_table
from hoodie.text import install

#: major versions of Java that start each of Spark's
_JAVAS = {3: (8, 11, 17), 4: (17, 21)}
_SPARKS = "3.5 to 4.x"
_LOCAL = ("pyarrow", "numpy", "fastavro")
#: packages of the folder pyspark; Airflow's Spark provider needs the second one
_ONE_FOLDER = ("pyspark", "pyspark-client")
_TIMEOUT_S = 120
_SIGNS = {OK: "ok  ", NOTE: "note", WARNING: "WARN", ERROR: "FAIL"}


def doctor(args: argparse.Namespace) -> Answer:
    """Findings about the machine and, with --table, the table; exit code 1 where one is an error."""
    known = [Finding(**item) for item in json.loads(args.known)]
    options = dict(args.option)
    table = _checked(args.table, args.deep, options) if args.table else []
    findings = [*known, *check_machine(args.spark_submit), *table]
    status = worst(findings)
    document = {"status": status, "findings": [finding.to_dict() for finding in findings]}
    return Answer.of(document, _report, code=1 if status == ERROR else 0)


def _checked(path: str, deep: bool, options: Mapping[str, str]) -> list[Finding]:
    found = check_table(path, deep, options)
    try:
        from hoodie.services.index.doctor import check_metadata_table
    except ImportError as error:
        text = f"not compared with the table's files: {error.name} is not installed here"
        remedy = install("local")
        return [*found, Finding("metadata table", NOTE, text, remedy)]
    return [*found, *check_metadata_table(path, deep, options)]


def _report(document: Mapping[str, Any]) -> str:
    return report([Finding(**item) for item in document["findings"]])


def report(findings: list[Finding]) -> str:
    """Findings for people, one line each and one for its remedy."""
    width = max((len(finding.check) for finding in findings), default=0)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{_SIGNS[finding.status]}  {finding.check:<{width}}  {finding.text}")
        if finding.remedy:
            lines.append(f"{'':4}  {'':<{width}}  → {finding.remedy}")
    counts = {status: sum(item.status == status for item in findings) for status in (ERROR, WARNING)}
    total = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count)
    return "\n".join([*lines, "", f"{len(findings)} findings: {total or 'all is well'}"])


def check_machine(spark_submit: str | None = None, environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Python's packages, Spark and Java as a job started from here would find them."""
    spark, version = _spark(spark_submit, environ)
    return [*_packages(), spark, _java(environ, version)]


def _packages() -> Iterator[Finding]:
    yield Finding("hoodie", OK, f"{hoodie.__version__} on Python {platform.python_version()}")
    missing = [name for name in _LOCAL if importlib.util.find_spec(name) is None]
    if missing:
        yield Finding(
            "packages",
            WARNING,
            f"no {', '.join(missing)}: the local engine does not work here",
            f"{install('local')}, unless this machine only submits jobs to a cluster",
        )
    else:
        yield Finding("packages", OK, f"{', '.join(_LOCAL)} are there")
    versions = {name: found for name in _ONE_FOLDER if (found := _installed(name)) is not None}
    if len(set(versions.values())) > 1:
        named = " and ".join(f"{name} {version}" for name, version in versions.items())
        both = " ".join(f"{name}=={min(versions.values(), key=_numbers)}" for name in versions)
        yield Finding(
            "packages",
            WARNING,
            f"{named} write the same files, so that one breaks the other",
            f"pip install --force-reinstall --no-deps {both}",
        )


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _spark(given: str | None, environ: Mapping[str, str]) -> tuple[Finding, tuple[int, int] | None]:
    """The finding about spark-submit, and Spark's version where it is known."""
    binary = given or find_spark_submit(environ)
    remedy = f"set SPARK_HOME, or install it: {install('spark')}"
    if binary is None or shutil.which(binary, path=environ.get("PATH")) is None:
        where = f"{binary} is no program" if binary else "not in SPARK_HOME, on PATH or in Python"
        return Finding("spark", WARNING, f"no spark-submit: {where}", remedy), None
    output = _output([binary, "--version"], environ)
    found = re.search(r"version (\d+)\.(\d+)(\S*)", output)
    if found is None:
        last = output.strip().splitlines()[-1:] or ["it printed nothing"]
        text = f"{binary} --version failed: {last[0]}"
        return Finding("spark", ERROR, text, "check SPARK_HOME and JAVA_HOME"), None
    version = (int(found[1]), int(found[2]))
    text = f"{found[1]}.{found[2]}{found[3]} ({binary})"
    if version < (3, 5) or version >= (5, 0):
        return Finding("spark", WARNING, f"{text} is not supported", f"use Spark {_SPARKS}"), version
    return Finding("spark", OK, text), version


def _java(environ: Mapping[str, str], spark: tuple[int, int] | None) -> Finding:
    java = find_java(environ)
    remedy = "install Java 17 and set JAVA_HOME; the local engine needs none"
    if java is None:
        return Finding("java", WARNING, "none: JAVA_HOME is not set and no java is on PATH", remedy)
    output = _output([java, "-version"], environ)
    found = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', output)
    if found is None:
        return Finding("java", ERROR, f"{java} does not run", remedy)
    text = f"{found[1]} ({java})"
    if spark is not None and int(found[2]) not in (fitting := _JAVAS.get(spark[0], ())):
        names = ", ".join(map(str, fitting))
        return Finding("java", WARNING, f"{text}; Spark {spark[0]} takes {names}", remedy)
    return Finding("java", OK, text)


def find_spark_submit(environ: Mapping[str, str]) -> str | None:
    """spark-submit of SPARK_HOME, of PATH, or of an installed pyspark."""
    home = environ.get("SPARK_HOME")
    if home:
        return str(Path(home, "bin", "spark-submit"))
    if found := shutil.which("spark-submit", path=environ.get("PATH")):
        return found
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        inside = Path(folder, "bin", "spark-submit")
        if inside.exists() and Path(folder, "jars").is_dir():
            return str(inside)
    return None


def find_java(environ: Mapping[str, str]) -> str | None:
    """The java that Spark's launcher starts: JAVA_HOME's, else the one on PATH."""
    home = environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))


def _output(command: list[str], environ: Mapping[str, str]) -> str:
    """What a program prints; why it does not run."""
    try:
        run = subprocess.run(
            command,
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return run.stdout + run.stderr
