"""What the address of a PostgreSQL server means to libpq."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from dil.databases.postgresql import arguments, conninfo
from dil.model.database_address import DatabaseAddress, Server
from dil.model.secret import Secret

ADDRESS = DatabaseAddress(Server.POSTGRESQL, (("db", 5433),), "lake")


def test_host_login_and_limits_are_those_of_the_address() -> None:
    address = replace(ADDRESS, user="loader", password=Secret("p @'\\"))
    found = arguments(address, connect_s=10)
    assert (found["host"], found["port"], found["dbname"]) == ("db", "5433", "lake")
    assert (found["user"], found["password"]) == ("loader", "p @'\\")
    assert (found["connect_timeout"], found["application_name"]) == ("10", "dil")
    assert found["client_encoding"] == "UTF8"


def test_options_of_the_address_go_before_defaults_and_limits() -> None:
    options = (("connect_timeout", "3"), ("keepalives_count", "9"), ("sslmode", "require"))
    found = arguments(replace(ADDRESS, options=options), connect_s=10, keepalives_count="3")
    assert found["connect_timeout"] == "3"
    assert found["keepalives_count"] == "9"
    assert found["sslmode"] == "require"
    assert arguments(ADDRESS, connect_s=10, keepalives_count="3")["keepalives_count"] == "3"


def test_several_hosts_and_options_are_kept_and_the_schema_is_no_option() -> None:
    address = replace(ADDRESS, hosts=(("a", 1), ("::1", 2)), schema="shop")
    found = arguments(replace(address, options=(("options", "-c geqo=off"),)), connect_s=1)
    assert (found["host"], found["port"]) == ("a,::1", "1,2")
    assert found["options"] == "-c geqo=off"
    assert "options" not in arguments(address, connect_s=1)


def test_a_socket_takes_the_place_of_a_host() -> None:
    found = arguments(replace(ADDRESS, hosts=(), options=(("host", "/run"),)), connect_s=1)
    assert found["host"] == "/run"
    assert not {"port", "user", "password"} & found.keys()


@given(st.dictionaries(st.sampled_from(["user", "password", "dbname"]), st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)))  # fmt: skip
def test_libpq_reads_a_connection_string_as_it_was_meant(given_: dict[str, str]) -> None:
    assert conninfo_to_dict(conninfo(given_)) == given_
