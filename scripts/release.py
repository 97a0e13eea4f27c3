"""All of a release, into a folder: wheel and sdist, constraints, SBOM, the site, provenance, checksums.

    scripts/release                                              of the tag of this commit, into dist/
    scripts/release --rehearse [--into FOLDER] [--without-site]  of any state of the checkout

Two runs give the same bytes: times are that of the commit, tools those of requirements/release.lock. The
build has a copy of the files that git knows, and reaches no index. Nothing is uploaded or signed
(docs/releasing.md).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.environment import DOCS, RELEASE, ROOT, interpreter
from scripts.fresh_machine import copy_checkout

CONSTRAINTS = Path("requirements", "constraints")
_PROJECT = "airflow-hoodie"
_BUILD_TYPE = "docs/releasing.md#build"


class ReleaseError(Exception):
    """The release is not made; the text says why."""


def build(into: Path, *, rehearsal: bool, with_site: bool) -> list[Path]:
    """The files of the release, which this makes in an empty or new folder. Raises ReleaseError."""
    version = _line(interpreter(RELEASE), "-m", "hatchling", "version", cwd=ROOT)
    if not rehearsal:
        check(version)
    commit = _line("git", "rev-parse", "HEAD", cwd=ROOT)
    epoch = _line("git", "show", "--no-patch", "--format=%ct", "HEAD", cwd=ROOT)
    if into.exists() and any(into.iterdir()):
        raise ReleaseError(f"{into} is not empty: remove what is there, or name another folder by --into")
    into.mkdir(parents=True, exist_ok=True)
    fixed = {
        "SOURCE_DATE_EPOCH": epoch,
        "SETUPTOOLS_SCM_PRETEND_VERSION": version,
        "NO_MKDOCS_2_WARNING": "1",
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
    }
    with _copy() as copy:
        _run("-m", "build", "--no-isolation", "--outdir", into, copy, **fixed)
        _run("-m", "twine", "check", "--strict", *sorted(into.glob("airflow_hoodie-*")))
        for file in sorted((copy / CONSTRAINTS).glob("*.txt")):
            shutil.copyfile(file, into / f"constraints-{file.name}")
        (into / f"{_PROJECT}-{version}.cdx.json").write_text(bill_of_materials(copy, version))
        if with_site:
            site = copy / "build" / "site"
            command = (interpreter(DOCS), "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", site)
            _line(*command, cwd=copy, **fixed)
            archive(site, into / f"{_PROJECT}-{version}-docs.tar.gz", int(epoch))
        lock = hashlib.sha256((copy / "requirements" / "release.lock").read_bytes()).hexdigest()
    made = sorted(path for path in into.iterdir())
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    (into / "provenance.json").write_text(provenance(sums, version, commit, lock))
    (into / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    return sorted(into.iterdir())


def check(version: str) -> None:
    """Raises ReleaseError unless this commit, as it is committed, is that release and says so."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        raise ReleaseError(f"this is {version}: tag the commit (git tag v0.2.0), or give --rehearse")
    if _line("git", "status", "--porcelain", cwd=ROOT):
        raise ReleaseError("there are changes that are not committed: commit them, or put them away")
    if f"\n## {version} (" not in (ROOT / "CHANGELOG.md").read_text():
        raise ReleaseError(f"CHANGELOG.md has no section `## {version} (YYYY-MM-DD)`: name what is new there")
    if "\nunreleased\t" in (ROOT / "docs" / "public-api.txt").read_text():
        raise ReleaseError(
            f"docs/public-api.txt has names of no release: .venv/bin/python -m scripts.public_api "
            f"--release {version}, then commit and tag"
        )


@contextlib.contextmanager
def _copy() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        copy_checkout(Path(folder, "airflow-hoodie"))
        yield Path(folder, "airflow-hoodie")


def bill_of_materials(checkout: Path, version: str) -> str:
    """CycloneDX JSON of what the extras bring, by the versions and hashes of requirements/dev.lock."""
    names = {
        line.partition("==")[0]
        for file in (checkout / CONSTRAINTS).glob("airflow-*.txt")
        for line in file.read_text().splitlines()
    }
    entries = re.findall(
        r"^[\w.-]+==.*\n(?:    --hash.*\n)*",
        (checkout / "requirements" / "dev.lock").read_text(),
        re.MULTILINE,
    )
    lock = "".join(entry for entry in entries if entry.partition("==")[0] in names)
    with tempfile.TemporaryDirectory() as folder:
        source, described = Path(folder, "requirements.txt"), Path(folder, "pyproject.toml")
        source.write_text(lock)
        text = (checkout / "pyproject.toml").read_text()
        described.write_text(text.replace('dynamic = ["version"]', f'version = "{version}"'))
        options = ("--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON")
        more = ("--mc-type", "library", "--pyproject", described)
        command = (RELEASE / "bin" / "cyclonedx-py", "requirements", *options, *more, source)
        bill: dict[str, Any] = json.loads(_line(*command, cwd=checkout))
    bill["metadata"]["component"]["purl"] = f"pkg:pypi/{_PROJECT}@{version}"
    return json.dumps(bill, indent=1, sort_keys=True) + "\n"


def archive(folder: Path, target: Path, epoch: int) -> None:
    """A tar.gz of a folder whose bytes follow from its files and the time alone."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"{target.name.removesuffix('.tar.gz')}/{path.relative_to(folder)}")
                entry.size, entry.mtime, entry.mode = path.stat().st_size, epoch, 0o644
                with path.open("rb") as file:
                    tar.addfile(entry, file)


def provenance(sums: dict[str, str], version: str, commit: str, lock: str) -> str:
    """An in-toto statement with SLSA's predicate of builds, to be signed by who publishes."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sums.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"command": "scripts/release", "version": version},
                "resolvedDependencies": [
                    {"name": _PROJECT, "digest": {"gitCommit": commit}},
                    {"name": "requirements/release.lock", "digest": {"sha256": lock}},
                ],
            },
            "runDetails": {"builder": {"id": f"scripts/release on Python {sys.version.split()[0]}"}},
        },
    }
    return json.dumps(statement, indent=1) + "\n"


def _run(*arguments: str | Path, **extra: str) -> None:
    print(_line(interpreter(RELEASE), *arguments, cwd=ROOT, **extra), flush=True)


def _line(*command: str | Path, cwd: Path, **extra: str) -> str:
    """What a command prints. Raises ReleaseError with all of it where it fails."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **extra}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="of any state of the checkout")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("--without-site", action="store_true")
    given = parser.parse_args()
    try:
        made = build(given.into.resolve(), rehearsal=given.rehearse, with_site=not given.without_site)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for path in made:
        print(path.relative_to(given.into.resolve()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
