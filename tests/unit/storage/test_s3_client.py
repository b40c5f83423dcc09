"""The client of S3 that all tasks of a process share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dil.storage.s3.client import connect


@pytest.fixture
def credentials(tmp_path, monkeypatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    return tmp_path / "credentials"


def write(file: Path, key: str, changed: int) -> None:
    file.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=s\n")
    os.utime(file, (changed, changed))


def key_of(connection) -> str:
    return connection.session.get_credentials().access_key


def test_a_process_has_one_client_until_its_settings_change(credentials, monkeypatch):
    write(credentials, "first", 1)
    before = connect()
    assert connect() is before

    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert connect().client.meta.endpoint_url == "http://127.0.0.1:9"


def test_credentials_that_another_program_renews_are_used(credentials):
    write(credentials, "first", 1)
    assert key_of(connect()) == "first"
    write(credentials, "second", 2)
    assert key_of(connect()) == "second"
