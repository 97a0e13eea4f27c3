"""Settings of all services that run after a write."""

from __future__ import annotations

from hoodie.config.key import bool_key

ENABLED = bool_key(
    "hoodie.table.services.enabled",
    True,
    "Run the services that other settings ask for after a write. false: writes run none; run the services "
    "on their own.",
    group="services",
)
FAIL = bool_key(
    "hoodie.fail.writes.on.inline.table.service.exception",
    False,
    "The failure of an inline service: false, a warning of the write; true, an error with the code "
    "`service` after all services have run. The rows are committed either way; the retry of a task finds "
    "them. (Apache Hudi's default is true.)",
    group="services",
)
