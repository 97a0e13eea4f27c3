"""The request of a service: one a call, from the API, a job, a command, a write or the planner.

The module needs the standard library only, since commands and jobs are made from these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from hoodie.errors import ConfigError
from hoodie.progress import ProgressCallback, silent
from hoodie.text import argument, nearest

if TYPE_CHECKING:
    from hoodie.engine import Engine
    from hoodie.table.handle import Table

MODES = ("schedule", "execute", "run")
_ASKED = "asked"


def local_engine() -> Engine:
    from hoodie.engine.local import LocalEngine

    return LocalEngine()


def asked(
    default: Any = MISSING,
    *,
    doc: str,
    choices: tuple[str, ...] = (),
    metavar: str = "",
    positional: bool = False,
) -> Any:
    """A field that jobs and commands have under the same name; without a default it has to be given.

    doc: its line in a command's help. A field whose default is False is a switch. positional: a command takes
    its value without the name, as in `hoodie index show`.
    """
    known = {"doc": doc, "choices": choices, "metavar": metavar, "positional": positional}
    return field(default=default, metadata={_ASKED: known})


@dataclass(frozen=True, kw_only=True)
class Request:
    """The fields that every request has. table: its path, or the table where it is open. options: settings
    over those that the table keeps. With `dry_run` the result describes what would be done, and nothing is
    changed.
    """

    table: str | Table
    options: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    progress: ProgressCallback = silent

    def __post_init__(self) -> None:
        """Raises ConfigError for a field of this service that has a wrong value."""
        for name, item in self.own().items():
            _check(name, item, getattr(self, name))

    @classmethod
    def own(cls) -> dict[str, Field[Any]]:
        """The fields of this service alone, by name; see `asked`."""
        return {item.name: item for item in fields(cls) if _ASKED in item.metadata}


def doc_of(item: Field[Any]) -> str:
    return str(item.metadata[_ASKED]["doc"])


def choices_of(item: Field[Any]) -> tuple[str, ...]:
    return tuple(item.metadata[_ASKED]["choices"])


def metavar_of(item: Field[Any]) -> str:
    return str(item.metadata[_ASKED]["metavar"])


@dataclass(frozen=True, kw_only=True)
class PlannedRequest(Request):
    """Of a service whose plan lies on the timeline until it is executed (services.planned)."""

    mode: str = asked(
        "run",
        doc="schedule: make a plan if one is due; execute: carry out pending plans, oldest first; "
        "run: both (default)",
        choices=MODES,
    )


@dataclass(frozen=True, kw_only=True)
class ServicesRequest(Request):
    """Of the planner: of all services, or of those that `only` names (services.planner)."""

    only: Collection[str] | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    engine: Callable[[], Engine] = local_engine


@dataclass(frozen=True, kw_only=True)
class RewriteRequest(PlannedRequest):
    """Of a service that writes files anew. `engine` is called when there is work for it."""

    instant: str | None = asked(None, doc="with --mode execute: this pending plan only", metavar="T")
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    engine: Callable[[], Engine] = local_engine

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.instant and self.mode != "execute":
            raise ConfigError(
                f"{argument('instant')} {self.instant} is for {argument('mode')} execute, which runs that "
                f"plan only; leave it out for {self.mode}",
                instant=self.instant,
            )


def is_positional(item: Field[Any]) -> bool:
    return bool(item.metadata[_ASKED]["positional"])


def _check(name: str, item: Field[Any], value: Any) -> None:
    if value is None and item.default is None:
        return
    if choices := choices_of(item):
        if value not in choices:
            known = f"{', '.join(choices)}{nearest(str(value), choices)}"
            raise ConfigError(f"{argument(name)} is {value!r}; use one of {known}", **{name: str(value)})
    elif item.default is False:
        if not isinstance(value, bool):
            raise ConfigError(f"{argument(name)} is {value!r}; give true or false", **{name: str(value)})
    elif not isinstance(value, str):
        raise ConfigError(f"{argument(name)} is {value!r}; give a text", **{name: str(value)})
