"""Requests to AWS Glue, and what becomes of their answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hoodie.aws.client import Library, Service, check_keys, client, library, mask, region_around
from hoodie.aws.settings import AWS_ACCESS_KEY
from hoodie.config.key import Config
from hoodie.errors import ConfigError, StorageError
from hoodie.mask import Mask, masked
from hoodie.sync.settings import (
    ANSWER_MS,
    GLUE_ALL_READS,
    GLUE_CATALOG,
    GLUE_CHANGES,
    GLUE_ENDPOINT,
    GLUE_READS,
    GLUE_REGION,
    TOOL,
)

TITLE = "AWS Glue"
#: kinds of errors
THERE, NOT_THERE = "AlreadyExistsException", "EntityNotFoundException"
LEFT_OUT = "UnprocessedKeys"

_WANTED = f"{TOOL.name}=glue"
_CONNECT_S, _ATTEMPTS = 1, 4
_LATER = {
    "ThrottlingException", "ThrottledException", "TooManyRequestsException", "OperationTimeoutException",
    "InternalServiceException", "InternalFailure", "ServiceUnavailable", "ConcurrentModificationException",
    "ConcurrentRunsExceededException", "ResourceNotReadyException", LEFT_OUT,
}  # fmt: skip
_NO_RIGHTS = ("AccessDeniedException", "AccessDenied", "GlueEncryptionException")
_NO_KEYS = ("UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException",
            "InvalidClientTokenId", "MissingAuthenticationTokenException", "IncompleteSignature")  # fmt: skip


def check(config: Config) -> None:
    """Raises ConfigError for settings by which no request could be made."""
    check_keys(config)
    _address(config, library(_WANTED, "glue"))


@dataclass(frozen=True, kw_only=True)
class Requests:
    """`place` is what messages call this catalog."""

    client: Any
    library: Library
    mask: Mask
    place: str
    account: Mapping[str, str]

    @classmethod
    def of(cls, config: Config) -> Requests:
        """Raises ConfigError where no request could be made; asks nothing."""
        check_keys(config)
        lib, hidden = library(_WANTED, "glue"), mask(config)
        region, endpoint = _address(config, lib)
        service = Service(
            name="glue",
            region=region,
            endpoint=endpoint,
            connect_s=_CONNECT_S,
            answer_s=config[ANSWER_MS] / 1000 / _ATTEMPTS,
            attempts=_ATTEMPTS,
            connections=max(10, config[GLUE_ALL_READS], config[GLUE_READS], config[GLUE_CHANGES]),
        )
        try:
            made = client(lib, service, config)
        except lib.failures as error:
            raise ConfigError(
                f"{TITLE} can't be asked: {hidden.text(str(error))}; see {GLUE_REGION.name}",
                setting=GLUE_REGION.name,
                value=region,
            ) from None
        account = config[GLUE_CATALOG]
        return cls(
            client=made,
            library=lib,
            mask=hidden,
            place=f"{TITLE} in {region}" + (f" ({hidden.text(endpoint)})" if endpoint else ""),
            account={"CatalogId": account} if account else {},
        )

    def ask(self, operation: str, what: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Raises StorageError; `what` says in it what was not done."""
        errors = self.library.botocore.exceptions
        try:
            answer: dict[str, Any] = getattr(self.client, operation)(**self.account, **arguments)
        except errors.ClientError as error:
            details = error.response.get("Error") or {}
            status = (error.response.get("ResponseMetadata") or {}).get("HTTPStatusCode") or 0
            code, text = str(details.get("Code") or ""), str(details.get("Message") or "")
            raise self.refused(what, code, text, operation, status >= 500) from None
        except self.library.failures as error:
            raise self._unreachable(error) from None
        except Exception as error:
            raise self._unreadable(operation, error) from error
        return answer

    @contextlib.contextmanager
    def reading(self, operation: str) -> Iterator[None]:
        """Raises StorageError where an answer lacks what is read of it inside."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._unreadable(operation, error) from error

    def refused(
        self, what: str, kind: str, text: str, operation: str = "", later: bool = False
    ) -> StorageError:
        """Glue answered with an error."""
        remedy = ""
        if kind in _NO_RIGHTS:
            right = f"glue:{operation.title().replace('_', '')}" if operation else "the change"
            remedy = (
                f"; allow the credentials {right}, in IAM and, where it governs the catalog, Lake Formation"
            )
        elif kind in _NO_KEYS:
            remedy = (
                f"; check the credentials ({AWS_ACCESS_KEY.name}, the environment, or the machine's role)"
            )
        elif later or kind in _LATER:
            remedy = "; sync again: what is missing is done then"
        return StorageError(
            f"{self.place} did not {what}: {self._shown(text)} ({kind}){remedy}",
            metastore=self.place,
            kind=kind,
            transient=later or kind in _LATER,
        )

    def _unreachable(self, error: Exception) -> StorageError:
        errors = self.library.botocore.exceptions
        if isinstance(error, (errors.NoCredentialsError, errors.CredentialRetrievalError)):
            return StorageError(
                f"{self.place} can't be asked: {self._shown(str(error))}. Set {AWS_ACCESS_KEY.name} and its "
                "secret, or give the environment or the machine credentials; then sync again",
                metastore=self.place,
            )
        return StorageError(
            f"{self.place} can't be reached: {self._shown(str(error))}. Check that this machine reaches it "
            f"({GLUE_REGION.name}, {GLUE_ENDPOINT.name}) and that it answers in time ({ANSWER_MS.name}); "
            "then sync again: what is missing is done then",
            metastore=self.place,
            transient=True,
        )

    def _unreadable(self, operation: str, error: Exception) -> StorageError:
        """Of a server that is no Glue, or of a proxy before it."""
        return StorageError(
            f"{self.place} answered {operation} with what is no answer of Glue's "
            f"({type(error).__name__}: {self._shown(str(error))}). Check {GLUE_ENDPOINT.name}, and what "
            "stands before it; then sync again",
            metastore=self.place,
        )

    def _shown(self, text: str) -> str:
        return self.mask.text(" ".join(text.split()))[:500]


def _address(config: Config, lib: Library) -> tuple[str, str | None]:
    """Region and endpoint. Raises ConfigError."""
    endpoint = config[GLUE_ENDPOINT]
    if endpoint and not _is_address(endpoint):
        raise ConfigError(
            f"{GLUE_ENDPOINT.name} is no address; give https://host",
            setting=GLUE_ENDPOINT.name,
            value=masked(endpoint),
        )
    try:
        region = config[GLUE_REGION] or region_around() or lib.boto3.session.Session().region_name
    except lib.failures as error:
        raise ConfigError(f"{TITLE} can't be asked: {error}", setting=GLUE_REGION.name) from None
    if not region:
        raise ConfigError(
            f"{TITLE} can't be asked: no region is known; set {GLUE_REGION.name}, or AWS_REGION",
            setting=GLUE_REGION.name,
        )
    return str(region), endpoint


def _is_address(text: str) -> bool:
    parts = urlsplit(text if "://" in text else f"https://{text}")
    try:
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
