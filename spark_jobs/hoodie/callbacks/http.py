"""Messages by HTTP POST, as Apache Hudi's HoodieWriteCommitHttpCallback sends them."""

from __future__ import annotations

import time
import urllib.parse

from hoodie.callbacks import MessageCallback
from hoodie.callbacks.settings import CLASS, HTTP_HEADERS, HTTP_KEY, HTTP_TIMEOUT_S, HTTP_URL
from hoodie.config.key import Config, Key
from hoodie.errors import ConfigError, StorageError
from hoodie.mask import masked
from hoodie.post import address, post

_KEY_HEADER = "HUDI-CALLBACK-KEY"
_TYPE = "application/json; charset=UTF-8"
_TRIES = 3
_PAUSE_S = 0.2
#: answers after which another try may succeed, beside those of 500 and more
_AGAIN = frozenset({408, 425, 429})


class HttpCallback(MessageCallback):
    """An answer of 200 to 299 takes the message; redirects are not followed. Up to three tries, in the
    time that `send` has.
    """

    def __init__(self, *, config: Config) -> None:
        """Raises ConfigError for what is no address and no header."""
        self.timeout_s = config[HTTP_TIMEOUT_S]
        self._url = _url(config)
        key = _value(HTTP_KEY, config[HTTP_KEY] or "")
        others = _headers(config[HTTP_HEADERS] or "")
        self.secrets = (key, *others.values())
        self._headers = {_KEY_HEADER: key, "Content-Type": _TYPE, **others}

    @classmethod
    def make(cls, *, config: Config) -> HttpCallback:
        return cls(config=config)

    @property
    def place(self) -> str:
        return f"{self._url.scheme}://{self._url.netloc.rpartition('@')[2]}{self._url.path}"

    def send(self, message: str, table: str, seconds: float) -> None:
        """Raises StorageError for an answer that refuses the message, and for a server that is out of reach;
        TimeoutError.
        """
        deadline, body = time.monotonic() + seconds, message.encode()
        for left in reversed(range(_TRIES)):
            try:
                status, text = post(self._url, body, self._headers, deadline, self.secrets)
            except TimeoutError:
                raise
            except OSError as error:
                if not left:
                    raise StorageError(f"{self.place} is out of reach: {error}") from error
            else:
                if 200 <= status < 300:
                    return
                if not left or not (status >= 500 or status in _AGAIN):
                    raise StorageError(f"{self.place} answered {status}{': ' if text else ''}{text}")
            pause = _PAUSE_S * (_TRIES - left)
            if time.monotonic() + pause >= deadline:
                raise TimeoutError
            time.sleep(pause)


def _url(config: Config) -> urllib.parse.SplitResult:
    text = config[HTTP_URL] or ""
    if not text:
        raise ConfigError(
            f"{CLASS.name}=http needs {HTTP_URL.name}, where messages go", setting=HTTP_URL.name
        )
    url = address(text)
    if url is None:
        raise ConfigError(
            f"{HTTP_URL.name}={masked(text)!r} is no address to post to; give http://host/path or "
            "https://host/path, with other characters than ASCII percent-encoded",
            setting=HTTP_URL.name,
        )
    if url.username is not None:
        raise ConfigError(
            f"{HTTP_URL.name} contains a user, which is not sent; give it in {HTTP_HEADERS.name} as "
            "Authorization:Basic ...",
            setting=HTTP_URL.name,
        )
    return url


def _headers(text: str) -> dict[str, str]:
    found = {}
    for part in filter(str.strip, text.split(";")):
        name, colon, value = part.partition(":")
        if not colon or not value.strip() or not _is_token(name.strip()):
            raise ConfigError(
                f"{HTTP_HEADERS.name} has a part that is no header; give Name:value;Name:value",
                setting=HTTP_HEADERS.name,
            )
        found[name.strip()] = _value(HTTP_HEADERS, value.strip())
    return found


def _is_token(name: str) -> bool:
    return bool(name) and name.isascii() and all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in name)


def _value(key: Key[str | None], text: str) -> str:
    if not all(each.isprintable() and ord(each) < 256 for each in text):
        raise ConfigError(f"{key.name} has characters that no header may have", setting=key.name)
    return text
