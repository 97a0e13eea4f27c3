"""What hides secrets: in logs, errors, results, lineage, and what refuses them in commits.

A secret is the value of a setting whose name says so (`is_secret`), the password of a URI, the signature of a
signed one, or what stands behind such a name in a text (`password=...`, `"secret.key": "..."`). A `Mask` also
knows the secrets of one job by value, wherever they turn up. Standard library only.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

MASKED = "******"

#: values that are shorter are hidden by their name alone: as texts they would turn up everywhere
LEAST = 5

_WORD = (
    r"(?:pass(?:word|wd|phrase)|secret|credential|authorization"
    r"|(?:access|account|api|private|secret|shared|storage|encryption|service)[._-]?key"
    r"|(?:session|access|auth|oauth2?|sas|bearer|security|api|refresh|delegation|identity|personal)[._-]?token"
    r"|azure[._-]sas|sas[._-]fixed|jaas[._-]config|connection[._-]?string|key[._-]pem"
    r"|custom[._-]?headers|x-(?:amz|goog)-(?:signature|credential))"
)
_NAME = re.compile(_WORD + r"|(?:^|[._-])(?:pass|pwd|sig)$", re.IGNORECASE)
#: what names the place of a secret, or its provider
_HARMLESS = re.compile(
    r"(?:providers?|type|class|path|file|location|enabled|alias|regex|store|supplier|validation)$",
    re.IGNORECASE,
)
_NO_SECRETS = {"true", "false", "none", "null", MASKED.lower()}

_QUOTED = r"""(?P<quote>\\?["'])(?P<inside>(?:(?!(?P=quote))(?:\\.|[^\\]))*)(?P=quote)"""
_BARE = r"(?P<bare>[^\s\"'&]+)"
#: name and value; the tail of a name is bounded so that a long text takes no longer for each word in it
_PAIR = re.compile(
    rf"(?P<name>{_WORD}[\w.\-]{{0,100}}|(?<![A-Za-z0-9])(?:pass|pwd|sig)(?==)"
    r"|(?<=[?&;])(?:token|key)(?==))"
    rf"(?P<between>\\?[\"']?\s{{0,3}}[=:]\s{{0,3}}(?:(?:Bearer|Basic)\s)?|\s+is\s+(?=[\"']))(?:{_QUOTED}|{_BARE})",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"(?P<between>(?<!\S)--?[\w.\-]{{0,100}}?{_WORD}[\w.\-]{{0,100}}\s+)(?:{_QUOTED}|(?P<bare>[^\s\"'&-][^\s\"'&]*))",
    re.IGNORECASE,
)
#: user and password of a URI; of `jdbc:oracle:thin:user/password@...`
_USERINFO = re.compile(
    r"(?P<between>://[^\s/:@\"'?#]{0,200}:|jdbc:oracle:\w{1,10}:[^\s/@\"']{1,100}/)(?P<bare>[^\s/\"']{1,500})(?=@)"
)
_BEARER = re.compile(r"(?P<between>\b(?:Bearer|Basic)\s+)(?P<bare>[A-Za-z0-9._~+/=-]{8,})")
_AWS_KEY = re.compile(r"(?P<between>\b)(?P<bare>(?:AKIA|ASIA)[0-9A-Z]{16})\b")
_PEM = re.compile(
    r"(?P<between>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----\s{0,9})(?P<bare>(?s:\S.{0,20000}?))"
    r"(?=\s{0,9}-----END|\Z)"
)
#: each with words of which a text must hold one, in lower case: looking for these is quick
_PATTERNS = (
    (
        _PAIR,
        (
            "pass",
            "pwd",
            "secret",
            "key",
            "token",
            "cred",
            "auth",
            "sas",
            "jaas",
            "connection",
            "sig",
            "headers",
        ),
    ),
    (_OPTION, ("pass", "secret", "key", "token", "cred", "auth", "sas", "jaas", "connection", "headers")),
    (_USERINFO, ("@",)),
    (_BEARER, ("bearer", "basic")),
    (_AWS_KEY, ("akia", "asia")),
    (_PEM, ("private key",)),
)


def is_secret(name: str) -> bool:
    """Does a setting, field or variable of this name hold a secret."""
    return _NAME.search(name) is not None and _HARMLESS.search(name) is None


def holds_secret(name: str, value: str) -> bool:
    """Does a named text hold one, by its name or in itself."""
    return (is_secret(name) and bool(value)) or next(_found(value), None) is not None


def masked(text: str) -> str:
    """The text without the secrets that the text around them shows."""
    low = text.lower()
    for pattern, words in _PATTERNS:
        if any(word in low for word in words):
            text = pattern.sub(_hidden, text)
    return text


class Mask:
    """Hides what `masked` does, and the secrets found in the values given to `learn`."""

    def __init__(self, *values: Any) -> None:
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        for value in values:
            self.learn(value)

    def learn(self, value: Any, name: str = "") -> None:
        """Take in the secrets of a value: mappings, sequences and texts; `name` is what it is called."""
        known = {secret for secret in _secrets(value, name) if len(secret) >= LEAST}
        if known - self._known:
            self._known |= known
            forms = {form for secret in self._known for form in _forms(secret)}
            self._pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))

    @property
    def known(self) -> frozenset[str]:
        """The secrets by value."""
        return frozenset(self._known)

    def text(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(MASKED, text)
        return masked(text)

    def value(self, value: Any, name: str = "") -> Any:
        """The same mappings, lists and texts without secrets; other values as they are."""
        if isinstance(value, Mapping):
            return {key: self.value(item, str(key)) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item, name) for item in value]
        if isinstance(value, str):
            return MASKED if value and is_secret(name) else self.text(value)
        return value


def _hidden(found: re.Match[str]) -> str:
    groups = found.groupdict()
    if groups.get("name") and _HARMLESS.search(groups["name"]):
        return found[0]
    quote = groups.get("quote") or ""
    return f"{groups.get('name') or ''}{groups['between']}{quote}{MASKED}{quote}"


def _found(text: str) -> Iterator[str]:
    """Secrets that stand in a text."""
    for pattern, _ in _PATTERNS:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            secret = groups.get("inside") or groups.get("bare") or ""
            harmless = groups.get("name") and _HARMLESS.search(groups["name"])
            if secret and not harmless and secret.lower() not in _NO_SECRETS:
                yield secret


def _secrets(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _secrets(item, name)
    elif isinstance(value, str):
        if is_secret(name) and value.strip().lower() not in _NO_SECRETS:
            yield value
        yield from _found(value)


def _forms(secret: str) -> Iterator[str]:
    """As a text, in JSON, in Python's repr, in a URI."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield urllib.parse.quote(secret, safe="")
    yield urllib.parse.unquote(secret)
