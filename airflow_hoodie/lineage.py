"""OpenLineage of a task: what it read, the table it wrote with the columns of the commit, what it counted.

Airflow's OpenLineage provider calls these methods where it is installed and switched on; without it nothing
of OpenLineage is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


class HoodieLineage:
    """Lineage of operators that have a `table`, maybe a `source`, and the `result` of their job."""

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Inputs and outputs by name, from the rendered fields."""
        from airflow_hoodie import lineage_facets

        return lineage_facets.of_task(self, {})

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The same, with what was committed: columns, version, rows, files and bytes."""
        from airflow_hoodie import lineage_facets

        return lineage_facets.of_task(self, getattr(self, "result", None) or {})
