"""Settings of all services that run after a write."""

from __future__ import annotations

from hoodie.config.key import bool_key

ENABLED = bool_key(
    "hoodie.table.services.enabled",
    True,
    "Run the services that other settings ask for after a write; off, a write does nothing but write, and a "
    "service run of its own makes up for it.",
    group="services",
)
FAIL = bool_key(
    "hoodie.fail.writes.on.inline.table.service.exception",
    False,
    "What an inline service fails at: false, a warning of the write; true, an error with the code `service`, "
    "after all services have had their turn. The rows are committed either way; the retry of a task finds "
    "them. (Apache Hudi's default is true.)",
    group="services",
)
