"""The job of a task on a platform: the job of a cluster, whose files are in the platform's uploads and which
no spark-submit of the worker starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from airflow_hoodie.clusters import ON_PLATFORM
from airflow_hoodie.clusters.choice import cluster_at
from airflow_hoodie.clusters.job import ClusterJob, WorkerJob, check_detached
from airflow_hoodie.clusters.platform import Platform, Submission, check_options, find_platform, platform_of
from airflow_hoodie.clusters.worker import is_on_worker
from airflow_hoodie.compat.spark_provider import add_lineage, hook_arguments
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieException, from_error
from airflow_hoodie.publication import Publication
from airflow_hoodie.secrets import any_secret
from airflow_hoodie.triggers.application import EVENT_FIELDS
from hoodie.bundle import job_script
from hoodie.errors import HoodieError
from hoodie.storage import Storage, normalize, storage_for
from hoodie.storage.settings import options_of

#: arguments of SparkSubmitOperator that are settings of Spark
_SETTINGS = {
    "driver_class_path": "spark.driver.extraClassPath",
    "driver_memory": "spark.driver.memory",
    "exclude_packages": "spark.jars.excludes",
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "num_executors": "spark.executor.instances",
    "packages": "spark.jars.packages",
    "repositories": "spark.jars.repositories",
    "total_executor_cores": "spark.cores.max",
}
#: those of spark-submit on the worker, and of the process that it is
_OF_WORKER = (
    "deploy_mode",
    "env_vars",
    "keytab",
    "post_submit_commands",
    "principal",
    "properties_file",
    "proxy_user",
    "spark_binary",
    "use_krb5ccache",
    "yarn_queue",
)


class Uploads:
    """The folder of files for a platform's drivers; `options`: settings, of which those of its storage count.

    Methods raise the exceptions of airflow_hoodie.exceptions.
    """

    def __init__(self, platform: Platform, options: Mapping[str, Any]) -> None:
        self._shown = platform.uploads_address()
        self._options = options_of(options)
        self._folder = platform.uploads
        self._bundled = platform.bundled

    def package(self) -> tuple[str, str]:
        """Addresses of the job script and of this package, which are written where they are not yet."""
        bundled = self._bundled()
        script = f"{bundled.stem}.py"
        with self._opened() as (storage, folder):
            for name, source in ((script, job_script()), (bundled.name, bundled)):
                data, found = source.read_bytes(), storage.info(f"{folder}/{name}")
                if found is None or found.size != len(data):  # its name tells its content, if it is whole
                    storage.write(f"{folder}/{name}", data)
        return f"{self._shown}/{script}", f"{self._shown}/{bundled.name}"

    def request(self, tag: str) -> str:
        """What the job's `--request` is."""
        return f"@{self._shown}/{_request(tag)}"

    def keep(self, tag: str, request: str) -> None:
        with self._opened() as (storage, folder):
            storage.write(f"{folder}/{_request(tag)}", request.encode())

    def forget(self, tag: str) -> None:
        with self._opened() as (storage, folder):
            storage.delete(f"{folder}/{_request(tag)}")

    @contextmanager
    def _opened(self) -> Iterator[tuple[Storage, str]]:
        """The storage and the folder's path in it."""
        what = f"the uploads of the engine, {self._folder}"
        try:
            yield storage_for(self._folder, self._options), normalize(self._folder)
        except HoodieError as error:
            found = from_error(error)
            raise type(found)(f"{what}: {found.message}", code=found.code) from error
        except OSError as error:
            raise HoodieConfigurationError(f"{what}: {error}; give a folder that workers write to") from error


def _request(tag: str) -> str:
    return f"requests/{tag}.json"


class PlatformJob(ClusterJob):
    """Of an operator whose engine is a platform."""

    def __init__(self, operator: Any, publication: Publication) -> None:
        self._platform: Platform = platform_of(operator.engine, operator.engine_options)
        super().__init__(operator, self._platform, publication)
        self._uploads = Uploads(self._platform, operator.settings())

    def _starter(self, note: Any) -> Callable[[], str | None]:
        operator: Any = self._operator
        add_lineage(operator, self._context)
        job = submission(operator, self._platform, note.tag, self._uploads.request(note.tag))

        def start() -> str:
            script, package = self._uploads.package()
            return self._platform.submit(job(operator.application or script, package))

        return start

    def _keeps_request(self, request: Mapping[str, Any]) -> bool:
        return True

    def _keep(self, tag: str) -> None:
        self._uploads.keep(tag, json.dumps(self._operator.submitted))

    def _forget(self, tag: str = "") -> None:
        if found := self._tag(tag):
            self._uploads.forget(found)


def submission(operator: Any, platform: Platform, tag: str, request: str) -> Callable[[str, str], Submission]:
    """The job, once script and package are known. Raises HoodieConfigurationError for secrets in `conf`."""
    given = hook_arguments(operator)
    conf = {name: str(value) for name, value in (given["conf"] or {}).items()}
    conf |= {setting: str(given[name]) for name, setting in _SETTINGS.items() if given.get(name)}
    if secret := sorted(name for name, value in conf.items() if any_secret(value, name)):
        raise HoodieConfigurationError(
            f"conf has {', '.join(secret)}, a secret that {platform.NAME} would show with the job; leave it "
            "out, and give the platform's machines the right by their role"
        )

    def job(script: str, package: str) -> Submission:
        return Submission(
            tag=tag,
            name=str(given["name"]),
            script=script,
            package=package,
            arguments=["--request", request, *map(str, given["application_args"] or ())],
            conf=conf,
            py_files=_names(given["py_files"]),
            files=_names(given["files"]),
            archives=_names(given["archives"]),
            jars=_names(given["jars"]),
        )

    return job


def _names(text: Any) -> Sequence[str]:
    return [name.strip() for name in str(text or "").split(",") if name.strip()]


def check_on_platform(operator: Any) -> None:
    """Raises HoodieConfigurationError for an operator whose engine is no platform, or can't be with its
    arguments.
    """
    kind = find_platform(operator.engine)
    if operator.detached:
        check_detached(operator)
    check_options(kind, operator.engine_options)
    given = {**hook_arguments(operator), "master": operator.master}
    if wrong := [name for name in ("master", *_OF_WORKER) if given.get(name)]:
        raise HoodieConfigurationError(
            f"engine={operator.engine!r} starts no spark-submit on the worker, so {', '.join(wrong)} would "
            "have no effect; leave out, and set what the platform takes in conf or engine_options"
        )
    if operator.deferrable is False:
        raise HoodieConfigurationError(
            f"the task of a job on {kind.NAME} waits in the triggerer, so deferrable=False can't be with "
            f"engine={operator.engine!r}; leave one of them out"
        )
    if operator.needs_token and not (operator.exactly_once or operator.token):
        raise HoodieConfigurationError(
            f"engine={operator.engine!r} runs a job that a retry may start again, and it would write twice; "
            "use exactly_once=True"
        )


def after_event(operator: Any, publication: Publication, event: Mapping[str, Any] | None) -> ClusterJob:
    """The job whose end the trigger's event tells. Raises HoodieException for what is no such event."""
    if event is None or not set(event) >= EVENT_FIELDS:
        raise HoodieException(
            f"the trigger ended with {event!r}, which names no application; clear the task: it finds an "
            "application that runs, and what an ended one left"
        )
    if is_on_worker(event["cluster"]):
        return WorkerJob(operator, publication)
    if ON_PLATFORM in event["cluster"]:
        return PlatformJob(operator, publication)
    return ClusterJob(operator, cluster_at(event["cluster"]), publication)
