"""The `hoodie` package as a zip for `spark-submit --py-files`, or as a wheel, and the script that it runs.

Both are deterministic: sorted entries, fixed times and modes, no compression (whose bytes depend on the
zlib at hand). Their names carry a hash of their content, so that a name never stands for two contents and a
cached file can be reused. For `--py-files` a wheel would not do: it is imported on the driver and fails on
executors. It is for platforms that install it on all machines. In the zip, beside each source is what this
Python compiles of it, `x.pyc` beside `x.py`, where zipimport looks first: else each process of a job compiles
what it imports. Another Python takes the sources. Standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import marshal
import os
import stat
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from hoodie.errors import ConfigError

_PACKAGE = "hoodie"
_DISTRIBUTION = "airflow_hoodie"
_WHEEL = b"Wheel-Version: 1.0\nGenerator: hoodie\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_TIME = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = (stat.S_IFREG | 0o644) << 16
_DIR_MODE = (stat.S_IFDIR | 0o755) << 16
_MSDOS_DIR = 0x10
#: a process of its own, as the bytes of compiled code depend on what its process has imported before. The
#: header says that a module does not look whether its source is newer (PEP 552)
_COMPILE = """
import importlib.util, marshal, sys
head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")
found = {}
for name, text in marshal.load(sys.stdin.buffer).items():
    code = compile(text, name, "exec", dont_inherit=True, optimize=0)
    found[name + "c"] = head + importlib.util.source_hash(text) + marshal.dumps(code)
marshal.dump(found, sys.stdout.buffer)
"""


def package_folder() -> Path:
    """Folder of the `hoodie` package, in the repository or where the wheel was installed.

    Raises ConfigError when hoodie itself runs from a zip.
    """
    folder = Path(__file__).resolve().parent
    if not folder.is_dir():
        raise ConfigError(
            f"hoodie runs from {folder}, which is no folder; make the bundle where the package is installed",
            path=str(folder),
        )
    return folder


def job_script() -> Path:
    """Path of `hoodie/jobs/run.py`, which runs every job."""
    return package_folder() / "jobs" / "run.py"


def bundle_zip(folder: str | os.PathLike[str] | None = None) -> Path:
    """Path of the zip, written if it is not there yet.

    `folder` is by default a private folder below the system's temporary one. Any number of processes may
    call this at once: each writes a file of its own and renames it.
    """
    files = {**_named(_version()), **_files(package_folder())}
    name = f"{_PACKAGE}-{_digest(files, sys.version)}.zip"
    return _written(name, lambda: dict(sorted({**files, **_compiled(files)}.items())), folder)


def bundle_wheel(folder: str | os.PathLike[str] | None = None) -> Path:
    """Path of the wheel, written as `bundle_zip` does. It asks for no packages: what jobs need besides is
    installed beside it.

    Its version is this package's with the hash as (part of) the local version, so that an installer takes no
    two contents for one. Format: the binary distribution format of Python's packaging specifications.
    """
    files = _files(package_folder())
    version = _version() or "0"
    version += f"{'.' if '+' in version else '+'}h{_digest({**_named(version), **files})}"
    inside = f"{_DISTRIBUTION}-{version}.dist-info"
    files |= {
        f"{inside}/METADATA": _metadata(version),
        f"{inside}/WHEEL": _WHEEL,
    }
    lines = [f"{name},sha256={_record_digest(data)},{len(data)}" for name, data in sorted(files.items())]
    record = f"{inside}/RECORD"
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    return _written(f"{_DISTRIBUTION}-{version}-py3-none-any.whl", lambda: files, folder)


def _written(name: str, files: Callable[[], dict[str, bytes]], folder: str | os.PathLike[str] | None) -> Path:
    target = Path(folder) if folder is not None else _cache_folder()
    target.mkdir(parents=True, exist_ok=True)
    path = target / name
    if not path.exists():
        partial = target / f".{path.name}.{uuid.uuid4().hex[:12]}"
        try:
            _write(partial, files())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    return path


def _version() -> str:
    """Of this package; "" where it is not installed."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("airflow-hoodie")
    return ""


def _metadata(version: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: airflow-hoodie\nVersion: {version}\n".encode()


def _named(version: str) -> dict[str, bytes]:
    """What tells the version from inside the zip, by name."""
    return {f"{_DISTRIBUTION}.dist-info/METADATA": _metadata(version)} if version else {}


def _record_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _files(package: Path) -> dict[str, bytes]:
    """Names inside the zip -> contents, sorted: sources and schemas; nothing compiled or hidden."""
    found: dict[str, bytes] = {}
    for path in package.rglob("*"):
        inside = path.relative_to(package.parent)
        skip = path.suffix in (".pyc", ".pyo") or any(
            part == "__pycache__" or part.startswith(".") for part in inside.parts
        )
        if not skip and path.is_file():
            found[inside.as_posix()] = path.read_bytes()
    return dict(sorted(found.items()))


def _compiled(files: dict[str, bytes]) -> dict[str, bytes]:
    """Names and contents of the compiled modules. Raises ConfigError where this Python cannot start."""
    sources = {name: data for name, data in files.items() if name.endswith(".py")}
    command = [sys.executable, "-S", "-s", "-c", _COMPILE]
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    environ = {**own, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            command, input=marshal.dumps(sources), env=environ, cwd="/", capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode(errors="replace").strip() or str(error)
        raise ConfigError(
            f"{sys.executable} does not compile the bundle: {said}; start hoodie with a Python that does",
            path=str(sys.executable),
        ) from error
    found: dict[str, bytes] = marshal.loads(done.stdout)
    return found


def _digest(files: dict[str, bytes], compiler: str = "") -> str:
    digest = hashlib.sha256(compiler.encode())
    for name, data in files.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


def _write(path: Path, files: dict[str, bytes]) -> None:
    folders = sorted({f"{parent.as_posix()}/" for name in files for parent in list(Path(name).parents)[:-1]})
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:
        for name in folders:  # zipimport finds packages without __init__ by their folder entries
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system, info.external_attr = 3, _DIR_MODE | _MSDOS_DIR
            archive.writestr(info, b"")
        for name, data in files.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system, info.external_attr = 3, _FILE_MODE
            archive.writestr(info, data)


def _cache_folder() -> Path:
    """`<temporary folder>/hoodie-bundle-<uid>`, of this user and closed to others; else a fresh folder.

    Another user could have made the folder to slip code into our jobs.
    """
    folder = Path(tempfile.gettempdir(), f"{_PACKAGE}-bundle-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"{_PACKAGE}-bundle-"))
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return folder if private else Path(tempfile.mkdtemp(prefix=f"{_PACKAGE}-bundle-"))
