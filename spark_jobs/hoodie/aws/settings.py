"""Credentials for Amazon's services; names are Apache Hudi's."""

from __future__ import annotations

from hoodie.config.key import str_key

AWS_ACCESS_KEY = str_key(
    "hoodie.aws.access.key",
    None,
    "The access key of the dynamodb lock and of the sync with AWS Glue; with hoodie.aws.secret.key. By "
    "default those of the environment, a profile, or the machine's role.",
    group="aws",
)
AWS_SECRET_KEY = str_key("hoodie.aws.secret.key", None, "The secret of hoodie.aws.access.key.", group="aws")
AWS_SESSION_TOKEN = str_key(
    "hoodie.aws.session.token",
    None,
    "The session token of a temporary hoodie.aws.access.key.",
    group="aws",
)
