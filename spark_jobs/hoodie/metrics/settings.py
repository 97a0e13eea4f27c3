"""Settings of metrics."""

from __future__ import annotations

from hoodie.config.key import bool_key, int_key, str_key

PUSHGATEWAY = "PROMETHEUS_PUSHGATEWAY"

ON = bool_key(
    "hoodie.metrics.on",
    False,
    "Push figures of each commit, and of what services complete, to a push gateway of Prometheus. Its "
    "failure is a warning of the result.",
    group="metrics",
)
TYPE = str_key(
    "hoodie.metrics.reporter.type",
    None,
    f"`{PUSHGATEWAY}`. Any other value of Apache Hudi's pushes nothing, which is a warning.",
    group="metrics",
)
PREFIX = str_key(
    "hoodie.metrics.reporter.metricsname.prefix",
    None,
    "What names of metrics begin with. Unset: the table's name.",
    group="metrics",
)
HOST = str_key("hoodie.metrics.pushgateway.host", "localhost", "The push gateway's host.", group="metrics")
PORT = int_key(
    "hoodie.metrics.pushgateway.port", 9091, "Its port; 443 for https.", minimum=1, group="metrics"
)
JOB = str_key(
    "hoodie.metrics.pushgateway.job.name",
    None,
    "The group of the metrics, label `job`. Unset: the table's name.",
    group="metrics",
)
RANDOM = bool_key(
    "hoodie.metrics.pushgateway.random.job.name.suffix",
    False,
    "Add a random number to the job's name. Apache Hudi does so by default and deletes its metrics when it "
    "ends; here they stay, and each process would add a group.",
    group="metrics",
)
LABELS = str_key(
    "hoodie.metrics.pushgateway.report.labels",
    None,
    "Other labels of the group, `name:value,name:value`.",
    group="metrics",
)
