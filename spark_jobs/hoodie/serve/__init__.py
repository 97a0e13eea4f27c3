"""The timeline page: what it shows (`tables`, `instants`, `details`), its answers (`page`), its files
(`static/`), and a small server for it (`http`). Airflow's host is airflow_hoodie.plugins.timeline_app.

Reads tables that are on a list and nothing else, and changes nothing. Standard library only; plans and
results of table services, archived instants, and commits of versions 8 and 9 are Avro and need fastavro.
"""

from __future__ import annotations
