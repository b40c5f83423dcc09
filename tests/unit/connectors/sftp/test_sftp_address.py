"""Server and path of an SFTP address (docs/sftp.md)."""

from __future__ import annotations

import pytest

from connectors.address import AddressError
from connectors.sftp.address import SftpAddress, SftpHost, address_of
from dil.errors import ConfigError

DEFAULT = SftpHost("files.acme", 2222, "lake")


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("sftp://h/in/a.csv", SftpAddress(SftpHost("h", 2222, "lake"), "/in/a.csv")),
        ("SFTP://h:23/in/*.csv", SftpAddress(SftpHost("h", 23, "lake"), "/in/*.csv")),
        ("sftp://me%40acme@h/in", SftpAddress(SftpHost("h", 2222, "me@acme"), "/in")),
        ("sftp://[::1]:23/in", SftpAddress(SftpHost("::1", 23, "lake"), "/in")),
        ("sftp://h/a%20b/%7B?", SftpAddress(SftpHost("h", 2222, "lake"), "/a b/{?")),
        ("sftp://h", SftpAddress(SftpHost("h", 2222, "lake"), ".")),
        ("sftp://h/", SftpAddress(SftpHost("h", 2222, "lake"), "/")),
        ("/in/a%20b", SftpAddress(DEFAULT, "/in/a%20b")),
        ("in/a.csv", SftpAddress(DEFAULT, "in/a.csv")),
        ("sftp:///in", SftpAddress(DEFAULT, "/in")),
        ("{{path}}", SftpAddress(DEFAULT, "/out/a%20b.csv")),
        ("sftp://h/{{path}}", SftpAddress(SftpHost("h", 2222, "lake"), "/out/a%20b.csv")),
        ("sftp://{{host}}/in", SftpAddress(SftpHost("h2", 2222, "lake"), "/in")),
        ("{{uri}}", SftpAddress(SftpHost("h3", 9, "lake"), "/x%20y")),
    ],
)
def test_a_template_gives_server_and_path_and_values_are_taken_as_they_are(template, wanted):
    variables = {"path": "/out/a%20b.csv", "host": "h2", "uri": "sftp://h3:9/x%20y"}
    assert address_of(template, variables, DEFAULT, ("h2:2222", "h3:9")) == wanted


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ("sftp://me:secret@h/in", "has a password"),
        ("sftp://h:x/in", 'has "h:x" in place'),
        ("sftp://h:99999/in", "has the port 99999"),
    ],
)
def test_what_is_no_address_is_told_without_secrets(template, what):
    with pytest.raises(AddressError) as caught:
        address_of(template, {}, DEFAULT)
    assert what in caught.value.what
    assert "secret" not in caught.value.what


def test_an_address_without_server_is_told():
    with pytest.raises(AddressError, match="names no server"):
        address_of("/in", {}, SftpHost("", 22))


def test_a_variable_without_value_is_told():
    with pytest.raises(ConfigError, match=r"\{\{day\}\}, which nothing gives a value"):
        address_of("/in/{{day}}", {}, DEFAULT)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("sftp://h/in/{{v}}", "../out"),
        ("/in/{{v}}/a.csv", ".."),
        ("sftp://{{v}}/in", "evil"),
        ("sftp://{{v}}@h/in", "other"),
        ("{{v}}", "sftp://evil/in"),
    ],
)
def test_no_value_leads_out_of_the_folder_or_to_another_server(template, value):
    with pytest.raises(ConfigError):
        address_of(template, {"v": value}, DEFAULT)
