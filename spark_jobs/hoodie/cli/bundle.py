"""`hoodie bundle`: what `spark-submit` sends to a cluster that has neither this package nor what it needs."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoodie.bundle import bundle_zip, job_script
from hoodie.cli.output import Answer
from hoodie.errors import ConfigError
from hoodie.text import nearest

#: a cluster brings its own
_OF_SPARK = ("pyspark", "pyspark-client")
_PLATFORM = re.compile(r"(manylinux(?:2014|_2_(\d+)))_(x86_64|aarch64)")
_OLDEST_GLIBC = 17  # that of manylinux2014
_OLDEST_PYTHON = (3, 10)
#: of the archive, as bin/python: an interpreter in it would be one of this machine
_LAUNCHER = """#!/bin/sh
# Python {python} of this machine with the packages of this folder.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}$here/{site}
export PYTHONPATH
for name in python{python} python3 python; do
    "$name" -c 'import sys; sys.exit(sys.version_info[:2] != {numbers})' 2>/dev/null && exec "$name" "$@"
done
echo "$0: there is no Python {python} on PATH, for which the packages of this archive are; install it," \\
    "or make the archive for the Python that is here: hoodie bundle --with-dependencies --python" >&2
exit 127
"""


@dataclass(frozen=True)
class Target:
    """The machines of a cluster: their Python, such as 3.11, and the tag of wheels that they take, None for
    that of this machine.
    """

    python: str
    platform: str | None

    @classmethod
    def of(cls, python: str | None, platform: str | None) -> Target:
        """Raises ConfigError for what is no version or tag."""
        number = python or f"{sys.version_info[0]}.{sys.version_info[1]}"
        found = re.fullmatch(r"(\d+)\.(\d+)", number)
        if not found or (int(found[1]), int(found[2])) < _OLDEST_PYTHON:
            raise ConfigError(
                f"--python {number!r} is no Python that hoodie runs on; give one such as 3.11, from 3.10 on",
                python=number,
            )
        if platform is not None and not _PLATFORM.fullmatch(platform):
            raise ConfigError(
                f"--platform {platform!r} is no platform of wheels for Linux; give one such as "
                "manylinux2014_x86_64, manylinux_2_28_x86_64 or manylinux_2_28_aarch64",
                platform=platform,
            )
        return cls(number, platform)

    @property
    def site(self) -> str:
        return f"lib/python{self.python}/site-packages"

    def compiler(self) -> str | None:
        """A Python of this version on this machine."""
        mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return sys.executable if self.python == mine else shutil.which(f"python{self.python}")

    def of_uv(self) -> list[str]:
        """Arguments of `uv pip install`."""
        found = ["--python", sys.executable, "--python-version", self.python, "--link-mode", "copy"]
        if self.platform and (parts := _PLATFORM.fullmatch(self.platform)):
            found += ["--python-platform", f"{parts[3]}-{parts[1]}"]
        return found

    def of_pip(self) -> list[str]:
        """Arguments of `pip install`, which takes a tag alone and not the older ones."""
        found = ["--python-version", self.python, "--implementation", "cp", "--no-compile"]
        found += ["--disable-pip-version-check"]
        if self.platform and (parts := _PLATFORM.fullmatch(self.platform)):
            older = [f"manylinux_2_{n}" for n in range(int(parts[2] or _OLDEST_GLIBC), _OLDEST_GLIBC - 1, -1)]
            found += [
                part for tag in (*older, "manylinux2014") for part in ("--platform", f"{tag}_{parts[3]}")
            ]
        return found


def bundle(args: argparse.Namespace) -> Answer:
    """Write the zip, the job script and, if it is asked for, the archive of packages."""
    folder = Path(args.folder)
    if not args.with_dependencies:
        for flag, given in (
            ("--python", args.python),
            ("--platform", args.platform),
            ("--extra", args.extra),
            ("--constraint", args.constraint),
        ):
            if given:
                raise ConfigError(
                    f"{flag} is of the packages in an archive; add --with-dependencies", argument=flag
                )
    target = Target.of(args.python, args.platform)
    wanted = requirements(args.extra) if args.with_dependencies else []
    zipped = bundle_zip(folder)
    script = folder / "hoodie_job.py"
    shutil.copyfile(job_script(), script)
    document: dict[str, Any] = {
        "py_files": str(zipped),
        "script": str(script),
        "archive": None,
        "packages": [],
    }
    document["python"] = target.python
    if wanted:
        archive, packages, compiled = write_archive(folder, target, wanted, args.constraint)
        document |= {"archive": str(archive), "packages": packages, "compiled": compiled}
    return Answer.of(document, _text)


def _text(document: dict[str, Any]) -> str:
    lines, archive = [], document["archive"]
    if archive:
        lines += [f"{archive} has {', '.join(document['packages'])}, for Python {document['python']}."]
        if not document["compiled"]:
            lines += [f"Each container compiles them: this machine has no Python {document['python']}."]
    command = ["spark-submit", "--py-files", document["py_files"]]
    if archive:
        command += ["--archives", f"{archive}#environment"]
        command += ["--conf", "spark.pyspark.python=./environment/bin/python"]
    return "\n".join([*lines, f"{shlex.join([*command, document['script']])} upsert --request @request.json"])


def requirements(extras: Sequence[str]) -> list[str]:
    """What the package's metadata asks for with the extra `spark` and these, without Spark itself.

    Raises ConfigError for an extra that there is not, and where hoodie is not installed as a package.
    """
    try:
        described = importlib.metadata.metadata("airflow-hoodie")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(
            "hoodie runs from a folder that does not say what it needs; install airflow-hoodie for an archive"
        ) from None
    known = described.get_all("Provides-Extra") or []
    for extra in extras:
        if extra not in known:
            raise ConfigError(
                f"there is no extra {extra!r}{nearest(extra, known)}; there are {', '.join(known)}",
                extra=extra,
            )
    found = set()
    for line in described.get_all("Requires-Dist") or []:
        text, _, marker = line.partition(";")
        of_extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        name = re.match(r"[\w.-]+", text)
        if of_extra and of_extra[1] in ("spark", *extras) and name and name[0] not in _OF_SPARK:
            found.add(text.strip())
    return sorted(found)


def write_archive(
    folder: Path, target: Target, wanted: Sequence[str], constraint: str | None
) -> tuple[Path, list[str], bool]:
    """A tar of packages below `lib` and a `bin/python` that finds them, laid out as venv-pack does it; what
    it has, and whether it is compiled. Its name has a hash of its content; the same wheels give the same
    bytes.

    Raises ConfigError where the installer fails, with what it says.
    """
    with tempfile.TemporaryDirectory(prefix=".hoodie-environment-", dir=folder) as made:
        root = Path(made, "environment")
        site = root / target.site
        site.mkdir(parents=True)
        _install(site, target, wanted, constraint)
        shutil.rmtree(site / "bin", ignore_errors=True)  # commands that begin with this machine's Python
        for path in site.glob("*.dist-info"):
            for name in ("RECORD", "direct_url.json", "REQUESTED", "INSTALLER", "uv_cache.json"):
                (path / name).unlink(missing_ok=True)
        compiled = _compile(root, target)
        launcher = root / "bin" / "python"
        launcher.parent.mkdir()
        numbers = f"({target.python.replace('.', ', ')})"
        launcher.write_text(_LAUNCHER.format(python=target.python, site=target.site, numbers=numbers))
        launcher.chmod(0o755)
        (launcher.parent / "python3").symlink_to("python")
        partial = Path(made, "archive")
        _pack(root, partial)
        digest = hashlib.sha256(partial.read_bytes()).hexdigest()[:16]
        platform = f"-{target.platform}" if target.platform else ""
        path = folder / f"hoodie-python{target.python}{platform}-{digest}.tar.gz"
        os.replace(partial, path)
        packages = sorted(item.name[: -len(".dist-info")] for item in site.glob("*.dist-info"))
        return path, [name.replace("-", " ", 1) for name in packages], compiled


def _install(site: Path, target: Target, wanted: Sequence[str], constraint: str | None) -> None:
    """By uv, which resolves for other machines sooner, else by this Python's pip."""
    uv = shutil.which("uv")
    if uv is None and importlib.util.find_spec("pip") is None:
        raise ConfigError("there is neither uv nor pip, which fetch the packages; pip install uv")
    command = [uv, "pip", "install"] if uv else [sys.executable, "-m", "pip", "install"]
    command += ["--quiet", "--target", str(site), "--only-binary", ":all:"]
    command += target.of_uv() if uv else target.of_pip()
    command += ["--constraint", constraint] if constraint else []
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(
            f"{'uv' if uv else 'pip'} finds no packages for Python {target.python} on "
            f"{target.platform or 'this machine'}: {done.stderr.strip()[-2000:]}; give another --platform, "
            "or older versions by --constraint",
            python=target.python,
            platform=target.platform,
        )


def _compile(root: Path, target: Target) -> bool:
    """Compiled modules do not look at the times of their sources, which unpacking may change."""
    python = target.compiler()
    if python is None:
        return False
    command = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(root)]
    environ = {**os.environ, "PYTHONHASHSEED": "0"}
    # files of other Pythons among the packages do not compile, and are not imported
    subprocess.run([*command, str(root)], env=environ, capture_output=True, check=False)
    return True


def _pack(root: Path, path: Path) -> None:
    def plain(item: tarfile.TarInfo) -> tarfile.TarInfo:
        item.mtime, item.uid, item.gid, item.uname, item.gname = 0, 0, 0, "", ""
        item.mode = 0o755 if item.isdir() or item.mode & 0o100 else 0o644
        return item

    with (
        path.open("xb") as file,
        gzip.GzipFile("", "wb", 6, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for item in sorted(root.rglob("*")):
            archive.add(item, item.relative_to(root).as_posix(), recursive=False, filter=plain)
