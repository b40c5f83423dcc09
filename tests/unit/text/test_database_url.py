"""URLs of databases: forms, options, and what a JDBC URL becomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.model.database_address import DatabaseUrlError, Server
from dil.text.database_url import read_database_url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://db/dil", "postgresql://db:5432/dil"),
        ("postgres://db:6000/dil", "postgresql://db:6000/dil"),
        ("postgresql://one,two:6000/dil", "postgresql://one:5432,two:6000/dil"),
        ("postgresql://[::1]:6000/dil", "postgresql://[::1]:6000/dil"),
        ("postgresql:///dil", "postgresql://localhost:5432/dil"),
        ("postgresql:///dil?host=/run/postgresql", "postgresql:///dil"),
        ("postgresql://db/dil%20one?schema=s", "postgresql://db:5432/dil one?schema=s"),
        ("mysql://db/dil", "mysql://db:3306/dil"),
        ("mariadb://db:1/dil", "mysql://db:1/dil"),
        ("MYSQL://db/dil", "mysql://db:3306/dil"),
        ("jdbc:mysql://db:3306/gobblin?useSSL=false", "mysql://db:3306/gobblin"),
        ("jdbc:mariadb://db/dil", "mysql://db:3306/dil"),
        ("jdbc:postgresql://db/dil?currentSchema=s", "postgresql://db:5432/dil?schema=s"),
    ],
)
def test_a_url_names_server_host_port_and_database(text: str, shown: str) -> None:
    assert str(read_database_url(text).address) == shown


def test_user_and_password_are_decoded_and_never_shown() -> None:
    address = read_database_url("mysql://a%40b:p%3A%2F%C3%B6@db/dil").address
    assert (address.user, address.password and address.password.reveal()) == ("a@b", "p:/\u00f6")
    assert "\u00f6" not in repr(address)
    assert "a@b" not in str(address)
    jdbc = read_database_url("jdbc:mysql://db/dil?user=ann&password=x%26y").address
    assert (jdbc.user, jdbc.password and jdbc.password.reveal()) == ("ann", "x&y")
    assert jdbc.options == ()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("postgresql://db/d?sslmode=verify-full&sslrootcert=/ca.pem",
         {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}),
        ("jdbc:postgresql://db/d?ssl=true", {"sslmode": "verify-full"}),
        ("jdbc:postgresql://db/d?ssl=true&sslmode=require", {"sslmode": "require"}),
        ("jdbc:postgresql://db/d?loginTimeout=5", {"connect_timeout": "5"}),
        ("jdbc:postgresql://db/d?targetServerType=primary", {"target_session_attrs": "primary"}),
        ("mysql://db/d?ssl_mode=REQUIRED", {"ssl-mode": "required"}),
        ("mysql://db/d?ssl-mode=verify-full&ssl-ca=/ca.pem",
         {"ssl-mode": "verify_identity", "ssl-ca": "/ca.pem"}),
        ("jdbc:mysql://db/d?useSSL=false", {"ssl-mode": "disabled"}),
        ("jdbc:mysql://db/d?useSSL=true", {}),
        ("jdbc:mysql://db/d?useSSL=true&requireSSL=true", {"ssl-mode": "required"}),
        ("jdbc:mysql://db/d?verifyServerCertificate=true", {"ssl-mode": "verify_ca"}),
        ("jdbc:mysql://db/d?sslMode=VERIFY_IDENTITY", {"ssl-mode": "verify_identity"}),
        ("jdbc:mysql://db/d?connectTimeout=2500", {"connect-timeout": "2"}),
        ("jdbc:mariadb://db/d?sslMode=trust", {"ssl-mode": "required"}),
        ("mysql:///d?unix-socket=/run/s", {"unix-socket": "/run/s"}),
    ],
)  # fmt: skip
def test_options_keep_their_meaning(text: str, options: dict[str, str]) -> None:
    assert dict(read_database_url(text).address.options) == options


def test_tuning_of_the_java_driver_is_told_as_ignored() -> None:
    found = read_database_url("jdbc:mysql://db/d?useUnicode=true&autoReconnect=true&useSSL=false")
    assert found.ignored == ("autoReconnect", "useUnicode")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "db:3306/dil",
        "mysql://db",
        "mysql://db/",
        "mysql://db/a/b",
        "mysql://db:99999/dil",
        "mysql://db:0/dil",
        "mysql://db:port/dil",
        "mysql://one,two/dil",
        "oracle://db/dil",
        "postgresql+psycopg://db/dil",
        "mysql://db/dil?sslmod=x",
        "mysql://db/dil?ssl-mode=maybe",
        "mysql://db/dil?connect-timeout=soon",
        "jdbc:mysql://db/dil?trustCertificateKeyStoreUrl=file:x",
        "jdbc:postgresql://db/dil?sslfactory=x",
        "jdbc:mysql://db/dil?sslMode=maybe",
    ],
)
def test_what_is_no_url_or_would_lose_its_protection_is_refused_with_what_to_write(
    text: str,
) -> None:
    with pytest.raises(DatabaseUrlError) as caught:
        read_database_url(text)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("jdbc:postgresql://db/dil?sslmod=require", "Did you mean sslmode?"),
        ("jdbc:mysql://db/dil?verifyServerCertificat=1", "Did you mean verifyServerCertificate?"),
        ("jdbc:postgresql://db/dil?sslfactory=x", "Write sslmode and sslrootcert"),
        ("jdbc:mysql://db/dil?trustCertificateKeyStoreUrl=file:x", "Write sslMode and"),
    ],
)
def test_an_option_about_tls_that_is_not_known_tells_the_one_to_write(text: str, fix: str) -> None:
    with pytest.raises(DatabaseUrlError) as caught:
        read_database_url(text)
    assert caught.value.fix.startswith(fix)


OTHER = st.text().filter(lambda text: "hunter2" not in text.lower())


@given(OTHER | st.builds("mysql://{}:hunter2@{}/{}?{}".format, *[OTHER] * 4))
def test_any_text_is_an_address_or_a_refusal_that_shows_no_password(text: str) -> None:
    shown = ""
    try:
        assert isinstance(read_database_url(text).address.server, Server)
    except DatabaseUrlError as error:
        shown = str(error)
    assert "hunter2" not in shown
