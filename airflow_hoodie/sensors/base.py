"""What all sensors on a table's timeline share: the table, and the three ways to wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.triggers.base import StartTriggerArgs

from airflow_hoodie.arguments import check_path, default_deferrable, is_absolute, is_template, table_path
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import Condition, condition, situation
from airflow_hoodie.exceptions import HoodieConfigurationError, from_error
from airflow_hoodie.hooks.hoodie import located, resolved_path
from airflow_hoodie.storage_conn import trigger_storage
from airflow_hoodie.subclasses import check_templates
from airflow_hoodie.table import HoodieTable
from airflow_hoodie.triggers.condition import ConditionTrigger, look, value_of
from hoodie.errors import HoodieError

if TYPE_CHECKING:
    from airflow.sdk import Context


class TimelineSensor(BaseSensorOperator):
    """Waits until a condition holds on a table's timeline. Imports neither Spark nor Arrow.

    Other arguments are BaseSensorOperator's.

    :param table: HoodieTable, its dict form, or the table's path. The path of a table with a
        `hoodie_conn_id` may be relative to that connection's warehouse, but not with `start_from_trigger`.
        (templated)
    :param missing: `wait` for a table that does not exist yet, or `fail` with HoodieTableNotFoundError.
    :param deferrable: check once on a worker, then wait in the triggerer without a worker slot. Default:
        Airflow's setting `[operators] default_deferrable`.
    :param start_from_trigger: wait and end in the triggerer: the task never takes a worker slot. Arguments
        may be templates, but no XComArgs. A mapped task checks once on a worker.
    """

    #: kind of the condition, and the attributes that are its arguments
    condition_kind: ClassVar[str]
    condition_fields: ClassVar[tuple[str, ...]]

    template_fields: Sequence[str] = ("table",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"table": "json"}
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any] | str,
        missing: Literal["wait", "fail"] = "wait",
        deferrable: bool | None = None,
        start_from_trigger: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = (
            table if isinstance(table, str) or hasattr(table, "resolve") else HoodieTable.of(table).to_dict()
        )
        self.missing = missing
        self.deferrable = default_deferrable() if deferrable is None else deferrable
        self.start_from_trigger = start_from_trigger
        if isinstance(self.table, str):
            check_path(self.table)
        if missing not in ("wait", "fail"):
            raise HoodieConfigurationError(f"missing is {missing!r}; use 'wait' or 'fail'")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_templates(cls)

    def _declared(self) -> None:
        """To be called at the end of `__init__`: what can be checked and prepared without rendering."""
        if self.start_from_trigger and self.mode == "reschedule":
            raise HoodieConfigurationError(
                "mode='reschedule' has no effect with start_from_trigger=True, whose task takes no worker "
                "slot; leave one of them out"
            )
        if not _unrendered(list(self._arguments().values())):
            self._condition()
        if self.start_from_trigger:
            trigger = self._trigger(end_task=True)
            self.start_trigger_args = StartTriggerArgs(
                trigger_cls=trigger.serialize()[0],
                trigger_kwargs=trigger.serialize()[1],
                next_method="execute_complete",
                next_kwargs=None,
                timeout=timedelta(seconds=self.timeout),
            )

    def poke(self, context: Context) -> PokeReturnValue:
        wanted = self._condition()
        try:
            reader = self.__dict__.get("_reader")
            if reader is None:
                reader = self.__dict__["_reader"] = TableReader(*located(self.table))
            value = look(reader, wanted, self.missing)
            now = situation(reader) if value is None else ""
        except HoodieError as error:
            raise from_error(error) from error
        if value is None:
            self.log.info("Waiting on %s for %s; %s", reader.base_path, wanted.words(), now)
        else:
            self.log.info("Found on %s: %s", reader.base_path, value)
        return PokeReturnValue(is_done=value is not None, xcom_value=value)

    def execute(self, context: Context) -> Any:
        """What the condition found."""
        if not (self.deferrable or self.start_from_trigger):
            return super().execute(context)
        found = self.poke(context)
        if not found.is_done:
            self.defer(
                trigger=self._trigger(end_task=False),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return found.xcom_value

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """The value in the trigger's event; raises the exception of the error in it."""
        value = value_of(event)
        self.log.info("Found: %s", value)
        return value

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.condition_fields}

    def _condition(self) -> Condition:
        try:
            return condition(self.condition_kind, self._arguments())
        except HoodieError as error:
            raise from_error(error) from None

    def _path(self, end_task: bool) -> str:
        """For a trigger: it can't look up a connection before the task's arguments are rendered."""
        path = str(self.table.get("path")) if isinstance(self.table, Mapping) else str(self.table)
        if not end_task:
            return resolved_path(self.table)
        if not (is_template(path) or is_absolute(path)):
            raise HoodieConfigurationError(
                f"table path {path!r} is relative, and a task that starts from the trigger looks up no "
                "connection; give the table an absolute path, or pass deferrable=True"
            )
        return table_path(self.table)

    def _trigger(self, *, end_task: bool) -> ConditionTrigger:
        arguments = {name: _json(name, value) for name, value in self._arguments().items()}
        if hasattr(self.table, "resolve"):
            _json("table", self.table)
        return ConditionTrigger(
            kind=self.condition_kind,
            table=self._path(end_task),
            missing=self.missing,
            poke_interval=self.poke_interval,
            end_task=end_task,
            skip_on_failure=self.soft_fail or self.never_fail,
            **trigger_storage(self.table),
            **arguments,
        )


def _unrendered(value: Any) -> bool:
    """Does the value hold a template or an XComArg?"""
    if hasattr(value, "resolve"):
        return True
    if isinstance(value, Mapping):
        return any(_unrendered(item) for item in (*value.keys(), *value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_unrendered(item) for item in value)
    return isinstance(value, str) and is_template(value)


def _json(name: str, value: Any) -> Any:
    """A trigger's form of an argument."""
    if hasattr(value, "resolve"):
        raise HoodieConfigurationError(
            f"{name}: a task that starts from the trigger takes no XComArg; use a template such as "
            "{{ ti.xcom_pull('other_task') }}, or deferrable=True"
        )
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): _json(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_json(name, item) for item in value]
    return value
