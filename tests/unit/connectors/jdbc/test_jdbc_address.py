"""``jdbc:`` URLs as users of DIL write them."""

from __future__ import annotations

import pytest

from connectors.address import AddressError
from connectors.jdbc.address import read_address
from connectors.jdbc.syntax import Kind


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("jdbc:postgresql://h:5433/db", "jdbc:postgresql://h:5433/db"),
        ("jdbc:postgresql:db", "jdbc:postgresql://localhost:5432/db"),
        ("jdbc:mysql://h/db?useUnicode=true&rewriteBatchedStatements=true", "jdbc:mysql://h:3306/db"),
        ("jdbc:mariadb://h/db?user=u&password=p", "jdbc:mariadb://h:3306/db"),
        ("jdbc:sqlite:/a/b.db", "jdbc:sqlite:/a/b.db"),
        ("jdbc:duckdb:b.duckdb", "jdbc:duckdb:b.duckdb"),
        ("jdbc:sqlserver://h;databaseName=d;user=u;password=p", "jdbc:sqlserver://h:1433/d"),
        ("jdbc:oracle:thin:@//h:1522/service", "jdbc:oracle://h:1522/service"),
        ("jdbc:oracle:thin:u/p@h:1521:SID", "jdbc:oracle://h:1521/SID"),
    ],
)  # fmt: skip
def test_an_address_is_read_and_shown_without_user_and_options(url: str, shown: str) -> None:
    assert str(read_address(url)) == shown


def test_user_and_password_of_the_url_are_kept_apart() -> None:
    address = read_address("jdbc:mysql://h/db?user=u&password=p%26q")
    assert address.user == "u"
    assert address.password is not None
    assert address.password.reveal() == "p&q"
    assert "p&q" not in repr(address)


def test_an_address_without_its_kind_is_an_error_that_says_which_forms_there_are() -> None:
    with pytest.raises(AddressError, match="does not say which database") as caught:
        read_address("jdbc://host/db")
    assert "jdbc:postgresql://host:5432/database" in caught.value.fix


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("postgresql://h/db", "no address of a database"),
        ("jdbc:db2://h/db", "jdbc:db2:, which is not known"),
        ("jdbc:mysql://h/db?unheardOf=1", "option unheardOf"),
        ("jdbc:postgresql://h/db?unheardOf=1", "option unheardOf"),
        ("jdbc:mysql://h/db?trustCertificateKeyStoreUrl=x", "trustCertificateKeyStoreUrl"),
        ("jdbc:mysql://h/db?serverTimezone=Europe/Paris", "another zone than UTC"),
        ("jdbc:mysql://h/db?zeroDateTimeBehavior=ROUND", "changes values"),
        ("jdbc:mysql:loadbalance://a,b/db", "several servers"),
        ("jdbc:sqlite:/a?mode=ro", "option mode"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(url: str, what: str) -> None:
    with pytest.raises(AddressError, match=what):
        read_address(url)


def test_options_that_change_what_is_read_have_their_meaning() -> None:
    address = read_address(
        "jdbc:mysql://h/db?zeroDateTimeBehavior=CONVERT_TO_NULL&tinyInt1isBit=true"
        "&socketTimeout=1500&serverTimezone=UTC&sslMode=VERIFY_CA&serverSslCert=/ca.pem"
    )
    assert (address.kind, address.nulls_dates, address.has_flags) == (Kind.MYSQL, True, True)
    assert address.timeout_s == 1.5
    assert address.server is not None
    assert dict(address.server.options) == {"ssl-mode": "verify_ca", "ssl-ca": "/ca.pem"}
