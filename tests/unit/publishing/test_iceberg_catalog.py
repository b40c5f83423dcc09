"""Errors of Iceberg catalogs that cannot be opened; connections that are opened again."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from dil.errors import StateError
from tests.servers import postgresql
from tests.servers.databases import new_database
from tests.servers.programs import free_port
from tests.unit.publishing.tables import Shop, orders

pytestmark = pytest.mark.slow


def refusal(folder: Path, catalog: str) -> StateError:
    with pytest.raises(StateError) as caught:
        Shop(folder, "iceberg", catalog=catalog).destination().check()
    error = caught.value
    assert "ms.iceberg.catalog.uri" in error.message
    assert error.fix.endswith("Nothing was changed.")
    assert "hid" not in str(error)
    return error


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_server_that_does_not_answer_is_named_with_the_cause(tmp_path: Path, scheme: str) -> None:
    port = free_port()
    address = f"{scheme}://127.0.0.1:{port}/lake"
    login = address.replace("//", "//user:hid%40den@")
    error = refusal(tmp_path, login)
    assert f"catalog at {address}, which" in error.message
    assert "refused" in error.message
    assert "Check that its server runs" in error.fix


def test_a_password_that_a_driver_takes_for_the_host_is_masked(tmp_path: Path) -> None:
    error = refusal(tmp_path, "postgresql://user:a@hidden@no-such-host.invalid/lake")
    assert "'***no-such-host.invalid'" in error.message


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_service_that_does_not_answer_is_named_with_the_cause(
    tmp_path: Path, scheme: str
) -> None:
    address = f"{scheme}://127.0.0.1:{free_port()}/lake"
    error = refusal(tmp_path, address.replace("//", "//user:hidden@"))
    assert f"catalog at {address}, which" in error.message
    assert "refused" in error.message
    assert "PyIceberg's own settings" in error.fix


def test_a_file_that_is_no_database_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    file.write_text("no database" * 100)
    error = refusal(tmp_path, f"sqlite:///{file}")
    assert f"sqlite:///{file}" in error.message
    assert "file is not a database" in error.message
    assert "name another one" in error.fix
    assert file.read_text() == "no database" * 100


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path, f"sqlite:///{tmp_path}/missing/catalog.db")
    assert f"{tmp_path}/missing/catalog.db" in error.message
    assert "unable to open database file" in error.message


def test_shared_connections_to_a_catalog_that_its_server_closes_are_opened_again(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgresql_server")
    with new_database(server) as url:
        login = f"admin:{quote(postgresql.PASSWORD, safe='')}"
        shop = Shop(tmp_path, "iceberg", catalog=url.replace("//", f"//{login}@"))
        shop.publish("r1", orders(1))
        intent, destination = shop.intent("r2", shop.move("r2", orders(2))), shop.destination()
        database = url.rpartition("/")[2]
        ended = (
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
            f" WHERE datname = '{database}'"
        )
        with destination.connected():
            destination.next_sequence()
            assert server.execute(ended)
            destination.require_fit(intent.commit)
            assert server.execute(ended)
            destination.carry_out(intent)
        assert {file.run_id for file in destination.live()} == {"r1", "r2"}


@pytest.mark.parametrize("text", ["hid%2Fden", "hid/den"])
def test_a_password_is_hidden_as_it_is_written_and_as_it_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def refuse(*_: str, **__: object) -> None:
        raise ValueError(f"login of user with {text} refused")

    monkeypatch.setattr("dil.publishing.iceberg_catalog.load_catalog", refuse)
    error = refusal(tmp_path, "postgresql://user:hid%2Fden@host/lake")
    assert "login of user with *** refused" in error.message
