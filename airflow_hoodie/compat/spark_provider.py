"""Privates of apache-airflow-providers-apache-spark 6: its hook and its operator with public names for them.

Subclasses of the hook override the methods below, and call the ones here by `super()`; functions take the
operator.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY, SparkSubmitHook
from airflow.providers.apache.spark.operators import spark_submit as spark_submit_operator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

__all__ = ["DEFAULT_SPARK_BINARY", "SparkSubmitOperator", "SubmitHook", "has_kubernetes"]

Operator = TypeVar("Operator", bound=type[Any])


class SubmitHook(SparkSubmitHook):
    """SparkSubmitHook, open to subclasses."""

    @property
    def spark_conn_id(self) -> str:
        return str(self._conn_id)

    @property
    def spark_connection(self) -> dict[str, Any]:
        """What `resolve_connection` returned: master, queue, deploy_mode, spark_binary and others."""
        found: dict[str, Any] = self._connection
        return found

    @property
    def given_env(self) -> Mapping[str, Any]:
        """The argument `env_vars`."""
        return self._env_vars or {}

    @property
    def given_conf(self) -> Mapping[str, Any]:
        """The argument `conf`, with what `add_conf` added."""
        return self._conf or {}

    def add_conf(self, settings: Mapping[str, Any]) -> None:
        """Settings of Spark under those of `conf`."""
        self._conf = {**settings, **(self._conf or {})}

    @property
    def properties_file(self) -> str | None:
        """The argument `properties_file`."""
        found: str | None = self._properties_file
        return found

    @property
    def launch_env(self) -> dict[str, Any]:
        """Variables that spark-submit is started with, beside this process's own; complete in `submit`."""
        found: dict[str, Any] = self._env or {}
        return found

    @launch_env.setter
    def launch_env(self, variables: dict[str, Any]) -> None:
        self._env = variables

    @property
    def job_args(self) -> list[Any]:
        """The arguments of the application."""
        return list(self._application_args or [])

    @job_args.setter
    def job_args(self, arguments: list[Any]) -> None:
        self._application_args = arguments

    def ship(self, path: str) -> None:
        """One more file for the argument `files`: drivers on a cluster find it in their folder."""
        self._files = ",".join([*([self._files] if self._files else []), path])

    @property
    def process(self) -> subprocess.Popen[str] | None:
        """The spark-submit that `submit` started, running or ended; None before."""
        found: subprocess.Popen[str] | None = self._submit_sp
        return found

    @property
    def last_lines(self) -> list[str]:
        """The last lines of spark-submit's output."""
        return list(self._last_submit_log_lines)

    def resolve_connection(self) -> dict[str, Any]:
        """Called once, by `__init__`. Raises ValueError."""
        found: dict[str, Any] = super()._resolve_connection()
        return found

    def find_binary(self) -> list[str]:
        """The command's first words: spark-submit."""
        found: list[str] = super()._get_spark_binary_path()
        return found

    def build_command(self, application: str) -> list[str]:
        """The command of `submit`; sets `launch_env`."""
        built: list[str] = super()._build_spark_submit_command(application)
        return built

    def write_keytab(self, base64_keytab: str, principal: str | None) -> str:
        """Path of a file with the keytab of the connection's extra."""
        path: str = super()._create_keytab_path_from_base64_keytab(base64_keytab, principal)
        return path

    def masked_command(self, command: str | list[str]) -> str:
        """The command as it is logged."""
        masked: str = super()._mask_cmd(command)
        return masked

    def read_output(self, lines: Iterator[Any]) -> None:
        """Reads spark-submit's output to its end; `process` is running when this is called."""
        super()._process_spark_submit_log(lines)

    def take_exit_code(self) -> None:
        """Called when the output was read: spark-submit's exit code alone says how it ended.

        On Kubernetes the hook looks for that of the driver, too, which has not ended.
        """
        self._spark_exit_code = 0

    # what SparkSubmitHook calls

    def _resolve_connection(self) -> dict[str, Any]:
        return self.resolve_connection()

    def _get_spark_binary_path(self) -> list[str]:
        return self.find_binary()

    def _build_spark_submit_command(self, application: str) -> list[str]:
        return self.build_command(application)

    def _create_keytab_path_from_base64_keytab(self, base64_keytab: str, principal: str | None) -> str:
        return self.write_keytab(base64_keytab, principal)

    def _mask_cmd(self, connection_cmd: str | list[str]) -> str:
        return self.masked_command(connection_cmd)

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        self.read_output(itr)


def calls_on_rendered(kind: Operator) -> Operator:
    """A class of operators whose `on_rendered` is called when the template fields of one are rendered, also
    of a mapped task.
    """
    render = kind._do_render_template_fields

    def rendered(operator: Any, parent: Any, *args: Any, **kwargs: Any) -> None:
        render(operator, parent, *args, **kwargs)
        if parent is operator:
            operator.on_rendered()

    kind._do_render_template_fields = rendered
    return kind


def hook_arguments(operator: SparkSubmitOperator) -> dict[str, Any]:
    """The hook's arguments that are arguments of the operator, but for the connection and tracking."""
    return {
        "conf": operator.conf,
        "files": operator.files,
        "py_files": operator.py_files,
        "archives": operator._archives,
        "driver_class_path": operator.driver_class_path,
        "jars": operator.jars,
        "packages": operator.packages,
        "exclude_packages": operator.exclude_packages,
        "repositories": operator._repositories,
        "total_executor_cores": operator._total_executor_cores,
        "executor_cores": operator._executor_cores,
        "executor_memory": operator._executor_memory,
        "driver_memory": operator._driver_memory,
        "keytab": operator.keytab,
        "principal": operator.principal,
        "proxy_user": operator.proxy_user,
        "name": operator.name,
        "num_executors": operator._num_executors,
        "application_args": operator.application_args,
        "env_vars": operator.env_vars,
        "verbose": operator._verbose,
        "spark_binary": operator._spark_binary,
        "properties_file": operator.properties_file,
        "yarn_queue": operator._yarn_queue,
        "deploy_mode": operator._deploy_mode,
        "use_krb5ccache": operator._use_krb5ccache,
        "post_submit_commands": operator.post_submit_commands,
    }


def add_lineage(operator: Any, context: Any) -> None:
    """Adds to `conf` what `openlineage_inject_parent_job_info` and its like ask for."""
    module: Any = spark_submit_operator
    if operator._openlineage_inject_parent_job_info:
        operator.conf = module.inject_parent_job_information_into_spark_properties(
            operator.conf or {}, context
        )
    if operator._openlineage_inject_transport_info:
        operator.conf = module.inject_transport_information_into_spark_properties(
            operator.conf or {}, context
        )


def check_tracking(operator: SparkSubmitOperator, hook: SparkSubmitHook) -> None:
    """Raises ValueError where the operator asks to track a driver that is not on Kubernetes."""
    if operator._track_driver_via_k8s_api:
        hook._validate_track_driver_via_k8s_api_config()


def has_kubernetes() -> bool:
    """Is Airflow's Kubernetes provider there, without which the hook takes no k8s:// master?"""
    return getattr(spark_submit, "kube_client", None) is not None


def installed_spark_home() -> str | None:
    """Folder of the pyspark installed beside Airflow, if it is a full one (pyspark-client has no jars)."""
    try:
        spec = importlib.util.find_spec("pyspark")
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if Path(folder, "bin", DEFAULT_SPARK_BINARY).exists() and Path(folder, "jars").is_dir():
            return folder
    return None
