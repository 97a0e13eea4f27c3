"""The list of what is public, docs/public-api.txt, and the rule by which something leaves it.

    .venv/bin/python -m scripts.public_api                    writes the list
    .venv/bin/python -m scripts.public_api --check            says whether it is what would be written
    .venv/bin/python -m scripts.public_api --release 0.2.0    writes it, and what is new is in that release

A line is a promise: a name, a parameter of a callable with its default, an option of a command, a setting.
Before it stands the release that had it first. A promise of a release is taken back or changed only after
`hoodie.deprecation.DEPRECATED` names it with a release that warned of it; otherwise the list is not written.
docs/releasing.md says how.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from hoodie.deprecation import DEPRECATED, Deprecation
from scripts.environment import ROOT

PAGE = ROOT / "docs" / "public-api.txt"
CHANGELOG = ROOT / "CHANGELOG.md"
UNRELEASED = "unreleased"
#: what classes of one's own derive from (docs/extending.md)
EXTENSIONS = (
    "hoodie.callbacks.CommitCallback",
    "hoodie.callbacks.MessageCallback",
    "hoodie.index.Index",
    "hoodie.index.PlacingIndex",
    "hoodie.keygen.KeyGenerator",
    "hoodie.lock.Lease",
    "hoodie.lock.LockProvider",
    "hoodie.merge.Merger",
    "hoodie.storage.Storage",
    "hoodie.sync.hive.catalog.Catalog",
)
_KINDS = ("operators", "sensors", "triggers", "hooks")
_HEAD = """\
# What is public, and the release that had it first. `python -m scripts.public_api` writes it, and
# docs/releasing.md has the rule. `name(parameter=default) place`: its place, if it may be given by place.
"""


# What there is ------------------------------------------------------------------------------------


def lines() -> list[str]:
    """What the code of this checkout promises, sorted."""
    found = {*_library(), *_extensions(), *_provider(), *_commands(), *_airflow_commands(), *_settings()}
    return sorted(found)


def _library() -> Iterator[str]:
    import hoodie
    from hoodie import errors
    from hoodie.ingestion.run import IngestResult
    from hoodie.services.registry import Lazy, services
    from hoodie.services.results import ServiceResult

    for name in hoodie.__all__:
        thing = getattr(hoodie, name)
        yield from _described(f"hoodie.{name}", thing)
        for module in ("hoodie.api", "hoodie.service_api"):
            if getattr(importlib.import_module(module), name, None) is thing and callable(thing):
                yield f"{module}.{name}"
    for cls in vars(errors).values():
        if isinstance(cls, type) and issubclass(cls, errors.HoodieError):
            base = cls.__base__
            assert base is not None
            yield f"hoodie.errors.{cls.__name__} is a {base.__name__}, code {cls.code}"
    for service in services().values():
        if isinstance(service.run, Lazy):
            service.run.load()
    results: list[type[Any]] = [IngestResult, *_descendants(ServiceResult)]
    for result in results:
        if result.__module__.startswith("hoodie."):
            yield from (f"{result.__name__}.{field.name}" for field in fields(result))


def _descendants(cls: type[Any]) -> Iterator[type[Any]]:
    for child in cls.__subclasses__():
        yield child
        yield from _descendants(child)


def _extensions() -> Iterator[str]:
    for name in EXTENSIONS:
        cls = _named(name)
        yield name
        for method, thing in inspect.getmembers(cls):
            if not method.startswith("_") and callable(thing):
                abstract = " to be defined" if method in cls.__abstractmethods__ else ""
                yield f"{name}.{method}{abstract}"
                yield from _parameters(f"{name}.{method}", thing)


def _provider() -> Iterator[str]:
    """The short names of airflow_hoodie with all that their classes take, the modules, what Airflow lists."""
    import airflow_hoodie
    from airflow_hoodie import exceptions
    from airflow_hoodie.get_provider_info import get_provider_info

    info = get_provider_info()
    for name in airflow_hoodie.__all__:
        yield from _described(f"airflow_hoodie.{name}", getattr(airflow_hoodie, name))
    for kind in _KINDS:
        for module in info[kind][0]["python-modules"]:
            for name, cls in vars(importlib.import_module(module)).items():
                is_its_own = isinstance(cls, type) and cls.__module__ == module and _airflows(cls)
                if is_its_own and not name.startswith("_"):
                    yield f"{module}.{name}"
                    if name not in airflow_hoodie.__all__:
                        yield from _class_parameters(f"{module}.{name}", cls)
    for name, cls in vars(exceptions).items():
        if isinstance(cls, type) and cls.__module__ == exceptions.__name__:
            base = cls.__base__
            assert base is not None
            yield f"airflow_hoodie.exceptions.{name} is a {base.__name__}"
    for kind in info["connection-types"]:
        yield f"connection {kind['connection-type']}"
        yield from (f"connection {kind['connection-type']}: {field}" for field in kind["conn-fields"])
    for section, described in info["config"].items():
        for option, about in described["options"].items():
            yield f"airflow.cfg [{section}] {option} = {about['default']}"
    yield from (f"assets {scheme}://" for uris in info["asset-uris"] for scheme in uris["schemes"])
    yield from (f"link {name}" for name in info["extra-links"])


def _commands() -> Iterator[str]:
    from hoodie.cli.command import parser
    from hoodie.cli.parsing import FORMER

    yield from _command("hoodie", parser())
    yield from (f"hoodie {word}" for word in FORMER)


def _airflow_commands() -> Iterator[str]:
    from airflow_hoodie.cli.definition import get_hoodie_cli_commands

    for group in get_hoodie_cli_commands():
        commands: Any = getattr(group, "subcommands", ())
        for command in commands:
            made = argparse.ArgumentParser(add_help=False)
            for argument in command.args:
                argument.add_to_parser(made)
            yield from _command(f"airflow {group.name} {command.name}", made)


def _settings() -> Iterator[str]:
    from hoodie.config.key import declared
    from hoodie.config.pages import describe

    for key in declared():
        about = describe(key)
        default = about["default"]
        yield f"setting {key.name}" if default is None else f"setting {key.name} = {default}"
        yield from (f"setting {alias} for {key.name}" for alias in key.aliases)
        yield from (f"setting {key.name}: {choice}" for choice in about.get("choices", ()))


# Names, parameters, commands ----------------------------------------------------------------------


def _named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _described(name: str, thing: Any) -> Iterator[str]:
    """The lines of a function, a class with its members, or a value."""
    yield name
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        yield from (f"{name}.{member.name} = {member.value}" for member in thing)
    elif isinstance(thing, type):
        yield from _class_parameters(name, thing)
        theirs = _airflows(thing)
        if theirs:
            above = {field for cls in theirs for field in getattr(cls, "template_fields", ())}
            rendered = set(getattr(thing, "template_fields", ()))
            yield from (f"{name} renders {field}" for field in rendered - above)
        else:
            yield from _members(name, thing)
    elif callable(thing):
        yield from _parameters(name, thing)


def _members(name: str, cls: type) -> Iterator[str]:
    """Fields, properties and methods with their parameters."""
    members = {member for each in cls.__mro__[:-1] for member in vars(each)}
    members |= {field.name for field in fields(cls)} if is_dataclass(cls) else set()
    for member in members:
        if member.startswith("_"):
            continue
        yield f"{name}.{member}"
        found = getattr(cls, member, None)
        if callable(found):
            yield from _parameters(f"{name}.{member}", found)


def _airflows(cls: type) -> list[type]:
    """The classes of Airflow among those that it derives from: what those have is not ours to promise."""
    return [each for each in cls.__mro__ if each.__module__.partition(".")[0] == "airflow"]


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("hoodie", "airflow_hoodie")


def _class_parameters(name: str, cls: type) -> Iterator[str]:
    """Of the constructor and, while it passes others on, of those of the classes above that are ours."""
    found: set[str] = set()
    for each in cls.__mro__:
        if not _is_ours(each):
            break
        if "__init__" not in vars(each):
            continue
        parameters = list(inspect.signature(vars(each)["__init__"]).parameters.values())[1:]
        for line, parameter in _lines_of(name, parameters):
            if parameter not in found:
                yield line
        found |= {parameter.name for parameter in parameters}
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break


def _parameters(name: str, thing: Callable[..., Any]) -> Iterator[str]:
    parameters = [each for each in inspect.signature(thing).parameters.values() if each.name != "self"]
    yield from (line for line, _ in _lines_of(name, parameters))
    for each in parameters:
        if typed := re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation)):
            yield from (
                f"{name}({key}) of {typed[1]}"
                for key in _named(f"{thing.__module__}.{typed[1]}").__annotations__
            )


def _lines_of(name: str, parameters: Iterable[inspect.Parameter]) -> Iterator[tuple[str, str]]:
    """A line for each parameter, with its place if it may be given by place; and its name."""
    for place, each in enumerate(parameters, 1):
        if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            continue
        default = "" if each.default is each.empty else f"={_text(each.default)}"
        at = "" if each.kind is each.KEYWORD_ONLY else f" {place}"
        yield f"{name}({each.name}{default}){at}{'' if default else ' required'}", each.name


def _text(value: Any) -> str:
    """A default as it is written, where that says something."""
    if isinstance(value, enum.Enum):
        return repr(value.value)
    shown = repr(value)
    return "..." if "<" in shown else shown


def _command(name: str, made: argparse.ArgumentParser) -> Iterator[str]:
    yield name
    old = {each.name for each in DEPRECATED}
    for action in made._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from _command(f"{name} {word}", command)
        elif action.help != argparse.SUPPRESS or old & {f"{name} {each}" for each in action.option_strings}:
            yield from _arguments(name, action)


def _arguments(name: str, action: argparse.Action) -> Iterator[str]:
    names = action.option_strings or [str(action.metavar or action.dest).upper()]
    value = "" if action.nargs == 0 or not action.option_strings else " VALUE"
    is_needed = action.required and bool(action.option_strings)
    default = action.default
    shown = "" if default in (None, False, argparse.SUPPRESS, [], ()) else f" = {_text(default)}"
    for each in names:
        yield f"{name} {each}{value}{shown}{' required' if is_needed else ''}"
        yield from (f"{name} {each} {choice}" for choice in action.choices or ())


# The rule -----------------------------------------------------------------------------------------


def read(text: str) -> dict[str, str]:
    """Line -> the release that had it first, or `unreleased`."""
    parted = (line.partition("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {line: since for since, _, line in parted}


def releases(changelog: str) -> list[str]:
    """The releases that the changelog has a section of, the newest first."""
    return re.findall(r"^## (\d[\w.]*) \(\d{4}-\d\d-\d\d\)$", changelog, flags=re.MULTILINE)


def problems(
    then: Mapping[str, str],
    now: Collection[str],
    released: Collection[str],
    deprecated: Collection[Deprecation] = DEPRECATED,
) -> list[str]:
    """Why the lines of `now` can't follow those of `then`: one text for each promise that would be broken."""
    found: list[str] = []
    names = {_subject(line) for line, since in then.items() if since != UNRELEASED}
    for line, since in then.items():
        if since == UNRELEASED or _is_kept(line, now):
            continue
        notice = next((each for each in deprecated if _is_of(line, each.name)), None)
        if notice is None:
            found.append(
                f"{line!r} of {since} is gone or changed; leave it there with a warning, and name it in "
                "hoodie.deprecation.DEPRECATED"
            )
        elif notice.since not in released:
            found.append(
                f"{line!r} of {since} is gone, yet no release has warned: {notice.since} is to be the first"
            )
    for line in now:
        is_needed = line not in then and line.endswith((" required", " to be defined"))
        if is_needed and _subject(line) in names:
            found.append(f"{line!r} is new, and users of {_subject(line)} do not give it; give it a default")
    return found


def _subject(line: str) -> str:
    """Whose parameter, option or method it is; of other lines the name itself."""
    if line.endswith(" to be defined"):
        return line.rpartition(".")[0]
    if "(" in line:
        return line.partition("(")[0]
    return line.partition(" -")[0].partition(" = ")[0]


def _is_kept(line: str, now: Collection[str]) -> bool:
    """Is it there, or does it allow more: by place, too, without being required or to be defined?"""
    if line in now:
        return True
    place = re.fullmatch(r"(.*\([^()=]+)\)( \d+)? required", line)
    if place:
        start, at = place[1], place[2] or ""
        return any(each.startswith(f"{start}=") and each.endswith(f"){at}") for each in now)
    wider = {line.removesuffix(" to be defined"), line.removesuffix(" required")}
    by_place = re.compile(re.escape(line) + r" \d+") if line.endswith(")") else None
    return any(each in wider or (by_place is not None and by_place.fullmatch(each)) for each in now)


def _is_of(line: str, name: str) -> bool:
    """Is the line the name's, or of what belongs to it: its parameters, members, options, choices?"""
    return line == name or (line.startswith(name) and line[len(name)] in "(. :)=")


def page(then: Mapping[str, str], now: Iterable[str], release: str = UNRELEASED) -> str:
    """The file. What no release had before is of this one."""
    rows = []
    for line in now:
        since = then.get(line, UNRELEASED)
        rows.append(f"{release if since == UNRELEASED else since}\t{line}\n")
    return _HEAD + "".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.public_api", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--release", metavar="VERSION", default=UNRELEASED, help="what is new is in this one")
    arguments = parser.parse_args()
    text = PAGE.read_text() if PAGE.exists() else ""
    with tempfile.TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home  # where Airflow writes its settings on import
        now = lines()
    then = read(text)
    found = problems(then, now, releases(CHANGELOG.read_text()))
    made = page(then, now, arguments.release)
    if not found and arguments.check and made != text:
        changed = sorted({*read(made)} ^ {*then})
        found = [f"{PAGE.relative_to(ROOT)} is old: run .venv/bin/python -m scripts.public_api", *changed]
    for problem in found:
        print(f"public_api: {problem}", file=sys.stderr)
    if found:
        return 1
    if not arguments.check:
        PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
