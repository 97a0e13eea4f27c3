"""A client of one of Amazon's services, by the package boto3, which is imported when one is made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from hoodie.aws.settings import AWS_ACCESS_KEY, AWS_SECRET_KEY, AWS_SESSION_TOKEN
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.mask import Mask
from hoodie.text import install


@dataclass(frozen=True, kw_only=True)
class Service:
    """`name` is boto3's. `endpoint`: an address, with or without its scheme; None: that of the region.

    A request is made `attempts` times at most: with an answer that says to come later, and with none.
    """

    name: str
    region: str | None
    endpoint: str | None
    connect_s: float
    answer_s: float
    attempts: int
    connections: int = 10


@dataclass(frozen=True)
class Library:
    boto3: Any
    botocore: Any

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What a client raises; ValueError is of an endpoint that is no address."""
        errors = self.botocore.exceptions
        return (errors.BotoCoreError, errors.ClientError, ValueError)


def library(wanted: str, extra: str) -> Library:
    """Raises ConfigError where boto3 is missing, for what is `wanted`, which `extra` brings."""
    try:
        import boto3
        import botocore
        import botocore.config
        import botocore.exceptions
    except ImportError as error:
        raise ConfigError(
            f"{wanted} needs the package boto3, which is not here ({error}): "
            f"{install(extra)} where the driver runs",
            value=extra,
        ) from None
    return Library(boto3, botocore)


def check_keys(config: Config) -> None:
    """Raises ConfigError for one of the keys without the other."""
    if (config[AWS_ACCESS_KEY] is None) != (config[AWS_SECRET_KEY] is None):
        raise ConfigError(
            f"{AWS_ACCESS_KEY.name} and {AWS_SECRET_KEY.name} belong together; set both, or none and "
            "have the environment's credentials used",
            setting=AWS_ACCESS_KEY.name,
        )


def mask(config: Config) -> Mask:
    """Hides the credentials of the settings."""
    return Mask(_keys(config))


def region_around() -> str | None:
    """The region that the environment names."""
    around = (os.environ.get(name) for name in ("AWS_REGION", "AWS_DEFAULT_REGION"))
    return next(filter(None, around), None)


def client(lib: Library, service: Service, config: Config) -> Any:
    """Asks nothing of the service yet. Raises the library's `failures`."""
    endpoint = service.endpoint
    return lib.boto3.session.Session().client(
        service.name,
        region_name=service.region,
        endpoint_url=endpoint if endpoint is None or "://" in endpoint else f"https://{endpoint}",
        config=lib.botocore.config.Config(
            connect_timeout=service.connect_s,
            read_timeout=service.answer_s,
            retries={"total_max_attempts": service.attempts, "mode": "standard"},
            max_pool_connections=service.connections,
        ),
        **{name: text for name, text in _keys(config).items() if text},
    )


def _keys(config: Config) -> dict[str, str | None]:
    return {
        "aws_access_key_id": config[AWS_ACCESS_KEY],
        "aws_secret_access_key": config[AWS_SECRET_KEY],
        "aws_session_token": config[AWS_SESSION_TOKEN],
    }
