"""Platforms that start Spark's jobs by an interface of their own, without spark-submit on the worker: what
`engine=` names beside `spark`, `local` and `auto`.

A platform is a dataclass, whose fields are the operator's `engine_options`, with five methods: `submit`,
`find`, `status`, `kill` and, where it shows an address of a run, `ui`. The rest of a cluster's job is the
same: note, trigger, report (airflow_hoodie.clusters.job). One module a platform, which imports the provider
of Airflow only when it asks the platform.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_hoodie.arguments import is_absolute, is_later, is_template, nearest
from airflow_hoodie.clusters import ON_PLATFORM, ClusterManager
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.secrets import any_secret
from hoodie.bundle import bundle_zip

#: name -> module and class
PLATFORMS = {
    "livy": "airflow_hoodie.clusters.livy:Livy",
    "emr": "airflow_hoodie.clusters.emr:Emr",
    "emr-serverless": "airflow_hoodie.clusters.emr:EmrServerless",
    "databricks": "airflow_hoodie.clusters.databricks:Databricks",
    "dataproc": "airflow_hoodie.clusters.dataproc:Dataproc",
}
#: entry points by which other packages add platforms
GROUP = "airflow_hoodie.platforms"

Named = TypeVar("Named")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A job as a platform gets it. All addresses are ones that the platform reads.

    `tag`: by which `find` finds the job, up to 64 letters, digits and dashes. `name`: for people. `script`:
    the Python file that runs with `arguments`. `package`: what the platform's `bundled` made of this package.
    `conf`: settings of Spark, without secrets.
    """

    tag: str
    name: str
    script: str
    package: str
    arguments: Sequence[str]
    conf: Mapping[str, str] = field(default_factory=dict)
    py_files: Sequence[str] = ()
    files: Sequence[str] = ()
    archives: Sequence[str] = ()
    jars: Sequence[str] = ()

    def label(self, longest: int) -> str:
        """The tag, then the name, of so many characters at most."""
        return f"{self.tag} {self.name}"[:longest].rstrip()

    def properties(self) -> dict[str, str]:
        """`conf`, with the files in the settings by which Spark takes them."""
        lists = {
            "spark.submit.pyFiles": (self.package, *self.py_files),
            "spark.files": self.files,
            "spark.archives": self.archives,
            "spark.jars": self.jars,
        }
        return {**self.conf, **{name: ",".join(items) for name, items in lists.items() if items}}


@dataclass(frozen=True, kw_only=True)
class Platform(ClusterManager):
    """Methods raise as those of ClusterManager, and run in a thread of their own in the triggerer.

    `uploads`: the folder to which workers write the package, the job script and the requests of jobs, and
    from which the platform's drivers read them: on a mount of both, or on an object store.
    """

    uploads: str

    #: package of Airflow's provider, its module, and the extra of this package that brings it
    PROVIDER: ClassVar[str] = ""
    PROVIDER_MODULE: ClassVar[str] = ""
    EXTRA: ClassVar[str] = ""

    def submit(self, job: Submission) -> str:
        """Start the job; the platform's id of it."""
        raise NotImplementedError

    def bundled(self) -> Path:
        """A file of this package as the platform's machines take it: a zip, as of `--py-files`."""
        return bundle_zip()

    def uploads_address(self) -> str:
        """By which the platform reads `uploads`."""
        return f"file://{self.uploads}" if self.uploads.startswith("/") else self.uploads

    def place(self) -> dict[str, str]:
        return {ON_PLATFORM: name_of(type(self)), "options": json.dumps(dataclasses.asdict(self))}


def platform_at(place: Mapping[str, str]) -> Platform:
    """By its `place()`."""
    return platform_of(place[ON_PLATFORM], json.loads(place["options"]))


def platform_of(engine: Any, options: Mapping[str, Any] | None) -> Platform:
    """By an operator's rendered arguments. Raises HoodieConfigurationError."""
    kind = find_platform(engine)
    check_options(kind, options)
    given = dict(options or {})
    missing = [name for name, default in _options(kind).items() if default and name not in given]
    if missing:
        raise HoodieConfigurationError(
            f"engine_options of {engine!r} lack {', '.join(missing)}; docs/clusters.md says what they are"
        )
    uploads = given["uploads"]
    if not isinstance(uploads, str) or not is_absolute(uploads):
        raise HoodieConfigurationError(
            f"uploads is {uploads!r}; give the absolute path or the URI of a folder"
        )
    return kind(**{**given, "uploads": uploads.rstrip("/")})


def check_options(kind: type[Platform], options: Any) -> None:
    """Raises HoodieConfigurationError for names that are none, and secrets, as Airflow keeps the options."""
    if options is None or is_later(options):
        return
    if not isinstance(options, Mapping):
        raise HoodieConfigurationError(f"engine_options are {options!r}; pass a dict of options")
    known = _options(kind)
    for name in options:
        if name not in known:
            raise HoodieConfigurationError(
                f"engine_options have {name!r}, which {kind.NAME} has not{nearest(str(name), known)}; its "
                f"options are {', '.join(known)}"
            )
    if any_secret(options):
        raise HoodieConfigurationError(
            f"engine_options hold a secret, which Airflow would show; credentials for {kind.NAME} are those "
            "of its connection"
        )


def _options(kind: type[Platform]) -> dict[str, bool]:
    """Names of its options -> must they be given."""
    found = inspect.signature(kind).parameters.values()
    return {item.name: item.default is inspect.Parameter.empty for item in found}


def find_platform(engine: Any) -> type[Platform]:
    """By its name, that of an entry point, `module:Class`, or itself. Raises HoodieConfigurationError."""
    found = engine
    if isinstance(engine, str):
        found = _loaded(engine)
    if isinstance(found, type) and issubclass(found, Platform):
        return found
    raise HoodieConfigurationError(
        f"engine is {engine!r}; use one of local, spark, auto, {', '.join(PLATFORMS)}, or a class that "
        "derives from airflow_hoodie.clusters.platform.Platform"
    )


def _loaded(name: str) -> Any:
    """None where there is none."""
    place = PLATFORMS.get(name, name if ":" in name and not is_template(name) else "")
    if not place:
        return next((item.load() for item in entry_points(group=GROUP, name=name)), None)
    module, _, kind = place.partition(":")
    try:
        return getattr(importlib.import_module(module), kind, None)
    except ModuleNotFoundError as error:
        raise HoodieConfigurationError(f"engine {name!r} can't be imported: {error}") from None


def name_of(kind: type[Platform]) -> str:
    """What `find_platform` finds it by."""
    own = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, place in PLATFORMS.items() if place == own), own)


# --- what platforms share ---------------------------------------------------------------------------------


def provider(kind: type[Platform], module: str) -> Any:
    """A module of the platform's provider. Raises HoodieConfigurationError where that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise HoodieConfigurationError(
            f"jobs on {kind.NAME} need {kind.PROVIDER}, which is not installed beside Airflow ({error}): pip "
            f"install 'airflow-hoodie[{kind.EXTRA}]', on workers and triggerers"
        ) from None


@contextmanager
def connection_named(kind: type[Platform], conn_id: str) -> Iterator[None]:
    """A connection that is looked up inside and is not there is a HoodieConfigurationError."""
    try:
        yield
    except AirflowNotFoundException:
        raise HoodieConfigurationError(
            f"the connection {conn_id!r} to {kind.NAME} is not defined; set "
            f"AIRFLOW_CONN_{conn_id.upper()}, or name another one in engine_options"
        ) from None
