"""What is a secret, and what hides it."""

from __future__ import annotations

import json
import time

import pytest

from hoodie.errors import ConfigError
from hoodie.mask import MASKED, Mask, holds_secret, is_secret, masked

SECRET = "hunter-2"

NAMES = [
    "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token", "AWS_ACCESS_KEY_ID", "secretAccessKey",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "fs.azure.account.key.acc.dfs.core.windows.net",
    "fs.azure.sas.container.acc.blob.core.windows.net", "fs.azure.sas.fixed.token",
    "fs.azure.account.oauth2.client.secret", "hoodie.datasource.hive_sync.password", "db_passwd", "user.pass",
    "hoodie.write.commit.callback.http.api.key", "spark.ssl.keyPassword", "access_token", "sasl.jaas.config",
    "google.cloud.auth.service.account.private.key", "spark.hadoop.fs.s3a.server-side-encryption.key",
    "hoodie.write.commit.callback.http.custom.headers",
    "connectionString", "Authorization", "sig", "X-Amz-Signature", "ssl.key.pem",
]  # fmt: skip

PUBLIC = [
    "hoodie.datasource.write.recordkey.field", "hoodie.table.name", "token", "airflow.token", "path", "user",
    "deltastreamer.checkpoint.key", "fs.s3a.aws.credentials.provider", "hoodie.index.type", "resume.token",
    "hadoop.security.credential.provider.path", "hoodie.datasource.write.keygenerator.class", "design",
    "ssl.keystore.password.file", "bypass.checks", "compass",
]  # fmt: skip

TEXTS = [
    ("k.password={} more", "k.password=****** more"),
    ('{{"fs.s3a.access.key": "{}\\"x", "n": "1"}}', '{{"fs.s3a.access.key": "******", "n": "1"}}'),
    ("{{'options': {{'fs.s3a.secret.key': '{}', 'n': 1}}}}", None),
    ('{{\\"secret.key\\": \\"{}\\", \\"b\\": 1}}', '{{\\"secret.key\\": \\"******\\", \\"b\\": 1}}'),
    ("hoodie.x.password is '{}'; use another", "hoodie.x.password is '******'; use another"),
    ("jdbc:postgresql://me:{}@h:5432/db", "jdbc:postgresql://me:******@h:5432/db"),
    ("jdbc:postgresql://me:p@{}@h:5432/db", "jdbc:postgresql://me:******@h:5432/db"),
    ("jdbc:postgresql://h/db?user=me&password={}&ssl=true", None),
    ("jdbc:sqlserver://h;user=me;password={}", "jdbc:sqlserver://h;user=me;password=******"),
    ("jdbc:oracle:thin:me/{}@//h:1521/x", "jdbc:oracle:thin:me/******@//h:1521/x"),
    ("s3://AK:{}@bucket/key", "s3://AK:******@bucket/key"),
    ("https://a.blob.core.windows.net/c?sv=1&sig={}&se=2", None),
    ("https://b.s3.amazonaws.com/k?X-Amz-Credential={}&X-Amz-Signature={}", None),
    ("spark-submit --conf spark.hadoop.fs.azure.account.key.acc={} job.py", None),
    ("tool --db-password {} --more", "tool --db-password ****** --more"),
    ("Authorization: Bearer {}", "Authorization: Bearer ******"),
    ("password: {}", "password: ******"),
    ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n", None),
    ("-----BEGIN PRIVATE KEY-----{}", "-----BEGIN PRIVATE KEY-----******"),
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    assert holds_secret(name, SECRET)
    assert not holds_secret(name, "")
    assert SECRET not in masked(f"{name}={SECRET}")
    assert SECRET not in json.dumps(Mask().value({"a": [{name: SECRET}]}))


@pytest.mark.parametrize("name", PUBLIC)
def test_names_of_others(name: str) -> None:
    assert not is_secret(name)
    assert not holds_secret(name, SECRET)
    assert masked(f"{name}={SECRET}, {name} is '{SECRET}'") == f"{name}={SECRET}, {name} is '{SECRET}'"


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_secrets_in_a_text(text: str, expected: str | None) -> None:
    found = masked(text.format(SECRET, SECRET))
    assert SECRET not in found
    assert MASKED in found
    if expected is not None:
        assert found == expected.format()
    assert holds_secret("note", text.format(SECRET, SECRET))
    if "@{}" not in text and "{}\\" not in text:
        assert Mask({"note": text.format(SECRET, SECRET)}).text(f"<{SECRET}>") == f"<{MASKED}>"


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/x",
        "http://h:8080/a@b",
        "reset_password/2026-01-01T00:00:00+00:00",
        "the secret is out",
        "partition day=2026-01-01",
        "fs.s3a.aws.credentials.provider=org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text
    assert not holds_secret("note", text)


def test_a_known_secret_is_hidden_in_every_form() -> None:
    secret = 'a"b\\c d/é'
    mask = Mask({"conf": [{"x.password": secret}], "n": 1})
    for text in (secret, json.dumps(secret), repr(secret), "a%22b%5Cc%20d%2F%C3%A9"):
        assert mask.text(f"<{text}>").strip("<>'\"") == MASKED
    assert mask.value({"warnings": [f"x {secret}"], "n": 1}) == {"warnings": [f"x {MASKED}"], "n": 1}


def test_short_values_are_hidden_by_name_alone() -> None:
    mask = Mask({"x.password": "abc", "y.secret": "false", "z.secret": "true"})
    assert mask.known == frozenset()
    assert mask.text("abc x.password=abc false") == f"abc x.password={MASKED} false"


def test_errors_hide_secrets() -> None:
    error = ConfigError(f"x.password='{SECRET}' is wrong", value=f"a://u:{SECRET}@h")
    assert SECRET not in str(error)
    assert SECRET not in json.dumps(error.to_dict())
    assert "x.password='******' is wrong" in error.message


@pytest.mark.parametrize(
    "piece",
    ["a", "secret", "password ", '"secret":"', "://", '\\"', "--a", "secret= ", "jdbc:oracle:a:", "@:"],
)
def test_a_long_text_takes_no_time(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    started = time.process_time()
    masked(text)
    assert time.process_time() - started < 3
